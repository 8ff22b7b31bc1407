"""The rows of the console's tables: what a page shows of a transaction, a partition, a group, an end, and the broker.
Values only, and pure; their JSON is what the stream sends (docs/console.md)."""

from itertools import islice
from typing import Final

import msgspec

from eosin.coordinator.transactions.rules.many_partitions import ordered
from eosin.coordinator.transactions.rules.state import STATE_NAMES, TransactionState, Txn
from eosin.observe.explain.sentences import why
from eosin.observe.recorder.events import NO_TIME, EventKind, Notable, TransactionSummary, identity_of
from eosin.observe.recorder.track import Track
from eosin.observe.recorder.wording import client

NO_NODE: Final = -1
_ONGOING: Final = TransactionState.ONGOING
NAMED_MEMBERS: Final = 20
NAMED_PARTITIONS: Final = 5
"""Partitions of a transaction that its row names; the page of the id has all."""


class TransactionRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One transactional id."""

    key: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int = 0
    start_ms: int = NO_TIME
    """The start of the open transaction; -1 if none is open."""
    updated_ms: int = NO_TIME
    never_times_out: bool = False
    partitions: int = 0
    named: tuple[str, ...] = ()
    """The first few of them."""
    client: str = ""
    last_outcome: str = ""
    fenced: int = 0
    """Old pairs that were refused, of those that the recorder still knows."""


class PartitionRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One partition that this broker holds."""

    key: str
    log_start: int
    last_stable: int
    high_watermark: int
    log_end: int
    size: int
    is_internal: bool = False
    is_led: bool = True
    leader: int = NO_NODE
    """The broker that leads it; -1 for none."""
    open: int = 0
    """Transactions that are open here."""
    held_since_ms: int = NO_TIME
    """Since when readers of committed records stand where they stand, as the console has seen it."""
    held_by: str = ""
    """The transactional id that holds them, or its producer where no coordinator here knows it."""
    cause: str = ""
    """As `eosin explain` names it."""
    error: str = ""
    """The reason why its log is offline; empty if it is not."""


class GroupRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One group."""

    key: str
    state: str
    members: int
    partitions: int
    lag: int
    """Records that a reader of committed records will still get; offsets where they were not counted."""
    is_exact: bool = True
    offsets_behind: int = 0
    control_records: int = 0
    undecided: int = 0
    """Offsets behind open transactions."""
    pending: int = 0
    """Partitions whose offsets wait for a transaction."""
    uncommitted: int = 0
    """Partitions that a member has and the group has committed nothing for."""
    to_end: int = 0
    """Offsets up to the high watermark."""
    last_commit_ms: int = NO_TIME
    """The last commit of any of its offsets; -1 for none."""
    grows: bool = False
    """True if more offsets lie before it than a minute ago, and it has committed nothing since."""
    named: tuple[str, ...] = ()
    """The first few of its members, by which a search finds it; the page of the group has all."""
    kind: str = ""
    """`classic`, `consumer`, `share` or `streams`; empty where the broker is too old to tell."""
    in_flight: int = 0
    """Of a share group: the offsets that its members have."""


class EventRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something notable: a fence, a timeout, a refusal."""

    key: int
    at_ms: int
    kind: str
    id: str
    sentence: str
    cause: str = ""
    client: str = ""
    count: int = 1


class EndRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A transaction that is over."""

    key: int
    at_ms: int
    id: str
    outcome: str
    partitions: int
    duration_ms: int
    producer_id: int
    producer_epoch: int
    client: str = ""


def transaction_row(txn: Txn, track: Track | None) -> TransactionRow:
    """A row of the transaction that is open or was last, and of who has the id."""
    is_open = txn.state is _ONGOING or txn.is_preparing
    names = map(str, islice(ordered(txn.partitions), NAMED_PARTITIONS)) if txn.partitions else ()
    who = None if track is None else (track.opened_by if is_open else None) or track.owner
    past = () if track is None else track.past
    notable = () if track is None else track.notable
    return TransactionRow(
        txn.transactional_id,
        STATE_NAMES[txn.state],
        txn.producer_id,
        txn.producer_epoch,
        txn.timeout_ms,
        txn.start_ms if is_open else NO_TIME,
        txn.updated_ms,
        txn.never_times_out,
        len(txn.partitions),
        tuple(names),
        client(identity_of(who)),
        past[-1].outcome if past else "",
        sum(each.kind is EventKind.FENCED for each in notable),
    )


def member_name(member_id: str, client_id: str, host: str) -> str:
    """The words that name a member of a group: its id, which mostly begins with its client's, and its machine."""
    client_id = "" if member_id.startswith(client_id) else client_id
    return " ".join(each for each in (client_id, member_id, host.lstrip("/")) if each)


def event_row(key: int, transactional_id: str, notable: Notable) -> EventRow:
    """The sentence of `eosin explain` for an event, with its time."""
    return EventRow(
        key,
        notable.latest_ms,
        notable.kind.value,
        transactional_id,
        why(transactional_id, notable, notable.latest_ms) + ".",
        str(notable.cause),
        client(notable.who),
        notable.count,
    )


def end_row(key: int, transactional_id: str, summary: TransactionSummary) -> EndRow:
    """The row of a transaction that ended."""
    return EndRow(
        key,
        summary.ended_ms,
        transactional_id,
        summary.outcome,
        summary.partitions,
        summary.ended_ms - summary.begun_ms,
        summary.producer_id,
        summary.producer_epoch,
        client(summary.who),
    )
