"""Everything that is wrong now in a cluster, worst first, a line each with the command that tells more (console.md
3). Pure."""

from typing import Final

import msgspec

from eosin.observe.explain.facts import NO_TIME, PartitionFacts
from eosin.observe.explain.sentences import why
from eosin.observe.recorder.events import Notable
from eosin.observe.recorder.wording import clipped, duration, moment, name, number, plural, typed

WAITED_MS: Final = 10_000
"""Readers that wait for so long are told of, or for half of the time that the transaction has, if that is less."""
NOTHING: Final = "nothing is wrong"


class NotedId(msgspec.Struct, frozen=True):
    """A transactional id, and what happened to it."""

    transactional_id: str
    notable: Notable


class GoneClient(msgspec.Struct, frozen=True):
    """A transactional id with an open transaction whose client has closed all of its connections."""

    transactional_id: str
    gone_ms: int
    begun_ms: int
    partitions: int


class OfflineLog(msgspec.Struct, frozen=True):
    """A partition whose log has failed."""

    partition: str
    reason: str


class BrokerTroubles(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that one broker itself knows to be wrong."""

    node_id: int
    now_ms: int
    is_disk_full: bool = False
    offline: tuple[OfflineLog, ...] = ()
    gone: tuple[GoneClient, ...] = ()
    noted: tuple[NotedId, ...] = ()
    """Fences and timeouts of the last hour, the latest first."""


class StuckGroup(msgspec.Struct, frozen=True):
    """A group whose members have partitions with records and that has committed nothing for them."""

    group: str
    partitions: int
    offsets: int


class ClusterTroubles(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answers of the brokers of a cluster over Kafka's APIs, and what each knows by itself."""

    now_ms: int
    leaderless: tuple[str, ...] = ()
    held: tuple[PartitionFacts, ...] = ()
    """Partitions whose readers of committed records stand behind the others."""
    groups: tuple[StuckGroup, ...] = ()
    brokers: tuple[BrokerTroubles, ...] = ()
    untold: tuple[str, ...] = ()
    """The facts that nobody told, each as a sentence without a full stop."""


class Trouble(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that is wrong."""

    what: str
    cause: str
    command: str
    """The command that tells more."""
    at_ms: int = NO_TIME
    """Since when, or when; -1 if unknown."""

    @property
    def line(self) -> str:
        """One line."""
        return f"{self.what}: {self.command}"


class Troubles(msgspec.Struct, frozen=True):
    """All of it, as `eosin explain --json` prints it."""

    now_ms: int
    troubles: tuple[Trouble, ...]
    untold: tuple[str, ...] = ()


def troubles_of(facts: ClusterTroubles) -> Troubles:
    """Everything that is wrong, worst first: what stops all, what stops readers, what has stopped a producer, what may
    be late."""
    gone = {each.transactional_id: each for broker in facts.brokers for each in broker.gone}
    found = [*_full(facts), *_offline(facts)]
    held, told = _held(facts, gone)
    found += held
    found += [_gone(each, facts.now_ms) for each in gone.values() if each.transactional_id not in told]
    found += _noted(facts)
    found += [_stuck(each) for each in facts.groups]
    return Troubles(facts.now_ms, tuple(found), facts.untold)


def _full(facts: ClusterTroubles) -> list[Trouble]:
    return [
        Trouble(
            f"the disk of broker {each.node_id} is full, records are refused and readers go on",
            "disk_full",
            "eosin explain broker",
        )
        for each in facts.brokers
        if each.is_disk_full
    ]


def _offline(facts: ClusterTroubles) -> list[Trouble]:
    reasons = {each.partition: each.reason for broker in facts.brokers for each in broker.offline}
    found = []
    for partition in dict.fromkeys([*facts.leaderless, *reasons]):
        reason = reasons.get(partition)
        what = f"{name(partition)} has no leader" if reason is None else f"the log of {name(partition)} is offline"
        because = "" if reason is None else f" ({name(reason)})"
        cause = "no_leader" if reason is None else "offline"
        found.append(Trouble(f"{what}{because}", cause, _explain(partition, "partition")))
    return found


def _held(facts: ClusterTroubles, gone: dict[str, GoneClient]) -> tuple[list[Trouble], set[str]]:
    """Readers that wait, a line for each transaction that they wait for, the longest wait first; and their ids."""
    by_holder: dict[str, list[PartitionFacts]] = {}
    hanging = []
    for each in facts.held:
        first = each.open[0] if each.open else None
        if first is None:
            continue
        if first.transaction is not None:
            by_holder.setdefault(first.transaction.transactional_id, []).append(each)
        elif first.is_asked and not first.is_hidden:
            behind = f"readers of {name(each.partition)} wait, {plural(each.behind, 'record')} behind"
            what = f"{behind}: a transaction of producer {first.producer_id}/{first.producer_epoch} hangs"
            hanging.append(Trouble(what, "hanging", _explain(each.partition, "partition"), first.last_ms))
    waits: list[tuple[bool, int, Trouble]] = []
    for transactional_id, held in by_holder.items():
        transaction = held[0].open[0].transaction
        assert transaction is not None, "that is how they were gathered"
        since_ms, client = transaction.start_ms, gone.get(transactional_id)
        waited_ms = facts.now_ms - since_ms
        least_ms = min(WAITED_MS, transaction.timeout_ms // 2) if transaction.timeout_ms > 0 else WAITED_MS
        if since_ms < 0 or (waited_ms < least_ms and client is None):
            continue
        more = f" and {number(len(held) - 1)} more" if len(held) > 1 else ""
        dead = "" if client is None else f", whose client is gone since {moment(client.gone_ms, facts.now_ms)}"
        what = (
            f"readers of {name(held[0].partition)}{more} wait since {moment(since_ms, facts.now_ms)}"
            f" ({duration(waited_ms)}) for the transaction of {name(transactional_id)}{dead}"
        )
        cause = "open_transaction" if client is None else "client_gone"
        trouble = Trouble(clipped(what), cause, _explain(transactional_id, "txn"), since_ms)
        waits.append((client is None, since_ms, trouble))
    waits.sort(key=lambda each: each[:2])
    return [*hanging, *(each for _, _, each in waits)], set(by_holder)


def _gone(client: GoneClient, now_ms: int) -> Trouble:
    what = (
        f"the client of {name(client.transactional_id)} is gone since {moment(client.gone_ms, now_ms)} with a"
        f" transaction open in {plural(client.partitions, 'partition')}"
    )
    return Trouble(what, "client_gone", _explain(client.transactional_id, "txn"), client.gone_ms)


def _noted(facts: ClusterTroubles) -> list[Trouble]:
    found = [each for broker in facts.brokers for each in broker.noted]
    found.sort(key=lambda each: -each.notable.latest_ms)
    return [
        Trouble(
            clipped(why(each.transactional_id, each.notable, facts.now_ms)),
            each.notable.cause,
            _explain(each.transactional_id, "txn"),
            each.notable.latest_ms,
        )
        for each in found
    ]


def _stuck(group: StuckGroup) -> Trouble:
    what = (
        f"group {name(group.group)} has committed nothing for {plural(group.partitions, 'partition')} of its members,"
        f" with up to {plural(group.offsets, 'offset')} to read"
    )
    return Trouble(what, "nothing_committed", _explain(group.group, "group"))


def _explain(subject: str, kind: str) -> str:
    # An id is what a name means first.
    return f"eosin explain {typed(subject)}{'' if kind == 'txn' else f' --as {kind}'}"
