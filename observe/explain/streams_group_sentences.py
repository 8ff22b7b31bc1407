"""Clauses of the sentence about a streams group (KIP-1071) that no consumer group has: its topology, and why its
members have no tasks (console.md 3). Pure."""

from eosin.observe.explain.explained import Next
from eosin.observe.explain.facts import GroupFacts
from eosin.observe.recorder.wording import client, name, plural

NO_TOPOLOGY = -1


def streams_waits(facts: GroupFacts) -> list[str]:
    """The reasons why members have no tasks, besides those of others that have not given some up."""
    told = facts.streams
    if told is None or not facts.members:
        return []
    if told.shutdown_by:
        return [f"its member {name(told.shutdown_by)} has asked the whole application to stop"]
    if told.obstacle:
        return [f"no tasks are dealt out: {told.obstacle.rstrip('.')}"]
    if told.is_delayed:
        return ["its first members wait for others before tasks are dealt out"]
    return []


def streams_evidence(facts: GroupFacts) -> list[str]:
    """The tasks, members with an older topology, and members for whom there is no task."""
    told = facts.streams
    if told is None:
        return []
    lines = []
    if told.topology_epoch > NO_TOPOLOGY:
        copies = f", {plural(told.standby, 'standby task')}" if told.standby else ""
        warm = f", {plural(told.warmup, 'warm-up task')}" if told.warmup else ""
        lines.append(f"topology {told.topology_epoch}: {plural(told.active, 'active task')}{copies}{warm}")
    if told.stale:
        others = f" and {plural(len(told.stale) - 1, 'other')}" if len(told.stale) > 1 else ""
        have = "has" if len(told.stale) == 1 else "have"
        lines.append(f"{client(told.stale[0])}{others} {have} an older topology, and gets no tasks of the new one")
    if facts.idle:
        others = f" and {plural(len(facts.idle) - 1, 'other')}" if len(facts.idle) > 1 else ""
        lines.append(f"{client(facts.idle[0])}{others}: no task, since there are fewer tasks than members")
    return lines


def streams_cause(facts: GroupFacts) -> str:
    """The cause in a word; empty for none that only streams groups have."""
    told = facts.streams
    if told is None or not facts.members:
        return ""
    if told.shutdown_by:
        return "shutdown"
    if told.obstacle:
        return "topology_not_ready"
    return "stale_topology" if told.stale else ""


def streams_next(facts: GroupFacts) -> Next | None:
    """The end of such a wait."""
    match streams_cause(facts):
        case "shutdown":
            return Next("Every member stops at its next heartbeat; start the application again when all have left.")
        case "topology_not_ready":
            return Next(
                "Create the source topics, or give its principal the right to create topics; its members look again at"
                " each heartbeat."
            )
        case "stale_topology":
            return Next("Restart the members that run an older version of the application.")
        case _:
            return None
