"""The sentences about consumer groups: what their lag is made of, and what their offsets wait for (console.md 3).
Pure."""

from eosin.broker.explain.explained import Explained, Next
from eosin.broker.explain.facts import GroupFacts, GroupPartition
from eosin.broker.explain.sentences import next_of
from eosin.broker.explain.wording import LONGEST_SENTENCE, clipped, moment, name, number, plural
from eosin.broker.recorder.group_events import last_rebalance


def explain_group(facts: GroupFacts) -> Explained:
    """What a group's lag is made of."""
    subject = name(facts.group)
    if not facts.state:
        return Explained(
            facts.group, f"there is no group {subject}: it was never used, or its offsets have expired.", is_known=False
        )
    sentence, rebalance = _sentence(facts, subject), _rebalance(facts)
    fits = len(f"{sentence}; {rebalance}.") <= LONGEST_SENTENCE
    evidence = [_line(each) for each in facts.partitions if each.offsets_behind or each.undecided]
    if rebalance and not fits:
        evidence.insert(0, rebalance)
    return Explained(
        subject=facts.group,
        sentence=clipped(f"{sentence}; {rebalance}." if rebalance and fits else f"{sentence}."),
        cause=_cause(facts),
        evidence=tuple(evidence),
        next=_next(facts),
        timeline=() if facts.history is None else facts.history.events,
        sources=facts.sources,
    )


def _rebalance(facts: GroupFacts) -> str:
    """Why it rebalanced last, as far as somebody has recorded it."""
    last = None if facts.history is None else last_rebalance(facts.history)
    if last is None:
        return ""
    began, over = last
    at = moment(began.at_ms, facts.now_ms)
    if over is None:
        return f"it has been rebalancing since {at} because {began.what}"
    return f"it rebalanced last at {at} (generation {over.what}) because {began.what}"


def _sentence(facts: GroupFacts, subject: str) -> str:
    parts = facts.partitions
    head = f"group {subject}: {facts.state}, {plural(len(facts.members), 'member')}"
    if not parts:
        return f"{head}, and nothing committed"
    records, behind = sum(each.lag for each in parts), sum(each.offsets_behind for each in parts)
    lag = f"lag {number(records)}"
    if behind != records:
        controls = sum(max(0, each.control_records) for each in parts)
        others = behind - records - controls
        made_of = [plural(controls, "control record")] if controls else []
        made_of += [f"{number(others)} aborted or compacted"] if others else []
        lag += f" (log ends are {plural(behind, 'offset')} further: {', '.join([*_records(records), *made_of])})"
    undecided = sum(each.undecided for each in parts)
    held = f", and {number(undecided)} undecided behind {_holders(facts)}" if undecided else ""
    pending = [each.partition for each in parts if each.pending]
    unstable = ""
    if pending:
        where = f"{name(pending[0])}" if len(pending) == 1 else f"{number(len(pending))} partitions"
        unstable = f"; its offsets for {where} wait for {_pending_in(facts)}"
    return f"{head}, {lag}{held}{unstable}"


def _records(records: int) -> list[str]:
    return [plural(records, "record")] if records else []


def _holders(facts: GroupFacts) -> str:
    if len(facts.held_by) == 1:
        return f"the open transaction of {name(facts.held_by[0])}"
    if facts.held_by:
        return f"open transactions of {name(facts.held_by[0])} and {number(len(facts.held_by) - 1)} more"
    return "open transactions"


def _pending_in(facts: GroupFacts) -> str:
    found = facts.pending_in
    if found is None:
        return "an open transaction (UNSTABLE_OFFSET_COMMIT until it ends)"
    return f"the open transaction of {name(found.transactional_id)} (UNSTABLE_OFFSET_COMMIT until it ends)"


def _cause(facts: GroupFacts) -> str:
    if any(each.pending for each in facts.partitions):
        return "pending_offsets"
    if any(each.undecided for each in facts.partitions):
        return "open_transaction"
    if any(each.lag for each in facts.partitions):
        return "lag"
    return "control_records" if any(each.offsets_behind for each in facts.partitions) else ""


def _next(facts: GroupFacts) -> Next | None:
    if facts.pending_in is not None:
        return next_of(facts.pending_in)
    if not facts.members and any(each.lag for each in facts.partitions):
        return Next("Nobody reads: the group has no members.")
    return None


def _line(each: GroupPartition) -> str:
    lag = f"{name(each.partition)}: committed {number(each.committed)}, lag {number(each.lag)}"
    controls = f", {plural(each.control_records, 'control record')}" if each.control_records > 0 else ""
    undecided = f", {number(each.undecided)} undecided" if each.undecided else ""
    about = "" if each.records >= 0 else " (offsets: too much to count)"
    return f"{lag}{controls}{undecided}{about}"
