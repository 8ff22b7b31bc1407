"""What a state of the model is made of: frozen values, compared and hashed by what they hold.

A state is everything that decides what may happen next: the coordinator with its log, the partitions, the instances of
the application, and the messages between them. What no decision depends on is left out or counted relative: offsets are
ranks, a guard is held or lost, time is before or after the deadline. `tag` names a transaction as its instance means
it: the coordinator never sees it, the rules judge by it.
"""

from typing import Final, NamedTuple

from eosin.coordinator.transactions.rules.state import Txn
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TopicPartition

TRANSACTIONAL_ID: Final = "tx"
TIMEOUT_MS: Final = 1
"""Of every transaction. Everything happens at 0 ms, except what happens after the deadline."""
AFTER_DEADLINE_MS: Final = 2
NO_TAG: Final = -1
TAGS_EACH: Final = 4
"""Room for transactions of one instance."""
RECORDS_EACH: Final = 8
"""Room for records of one transaction in one partition, the last being for one without a sequence."""

DATA: Final = (TopicPartition("data", 0), TopicPartition("data", 1))
OFFSETS: Final = TopicPartition(CONSUMER_OFFSETS_TOPIC, 0)

# Kinds of messages.
INIT, ADD, PRODUCE, COMMIT_OFFSETS, END, MARKER = range(6)
KIND_NAMES: Final = ("InitProducerId", "AddPartitionsToTxn", "Produce", "TxnOffsetCommit", "EndTxn", "marker")

# How far a message has come.
SENT, ASKING, VERIFIED, APPENDED = range(4)
"""On its way; its record is in the coordinator's log and not durable yet; the coordinator has agreed and it is about to
be appended; appended and not durable yet."""

OLDER: Final = -2
"""The sequence of an END that a client below version 2 repeats."""

NO_GUARD, GUARD, LOST_GUARD = range(3)

# What an instance is about to do, once the request that is under way is answered; or, with an external coordinator,
# that it has prepared and writes no more.
NOTHING, ABORTING, BUMPING, PREPARED = range(4)

NEW, ALIVE, DEAD = range(3)

# The pending record: there is none, or nobody does anything about it; on its way to the disk; to be tried again.
IDLE, WRITING, RETRYING = range(3)


class Message(NamedTuple):
    """A request of an instance, or (client -1) a marker that is late."""

    kind: int
    client: int
    tag: int = NO_TAG
    producer_id: int = -1
    producer_epoch: int = -1
    argument: int = 0
    """The partition; for INIT whether to keep what is open; for END whether to commit; for a marker twice the
    partition, and one for commit."""
    sequence: int = -1
    """For a marker: the coordinator's epoch; for END `OLDER` when an older client repeats it."""
    stage: int = SENT
    """For a marker: the transaction version."""
    guard: int = NO_GUARD
    awaited: bool = True
    """Whether the instance waits for an answer to this very copy."""


class Client(NamedTuple):
    """One instance of the application."""

    phase: int = NEW
    number: int = 0
    """Of its last transaction."""
    is_open: bool = False
    producer_id: int = -1
    producer_epoch: int = -1
    sequences: tuple[int, ...] = ()
    added: tuple[int, ...] = ()
    """Partitions of this transaction, added by AddPartitionsToTxn."""
    written: tuple[int, ...] = ()
    """Partitions of this transaction whose record was answered as written."""
    goal: int = NOTHING
    fenced: bool = False
    """A newer instance has its pair."""
    ended: Message | None = None
    """The last END that it sent, where somebody may repeat it (`Bounds.older_repeats`)."""


class Producer(NamedTuple):
    """What a partition knows of a producer id, and whose records are in its open transaction."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    batches: tuple[tuple[int, int], ...]
    first_sequence: int
    rank: int
    """Place of its open transaction among the open ones of the partition, -1 for none."""
    records: tuple[int, ...] = ()
    """Those in the open transaction, by their names."""


class Verifying(NamedTuple):
    """A verification that is under way."""

    producer_id: int
    producer_epoch: int
    lowest_sequence: int
    from_zero: bool


class Records(NamedTuple):
    """What a partition holds, as far as it matters."""

    producers: tuple[Producer, ...] = ()
    verifying: tuple[Verifying, ...] = ()
    decided: tuple[tuple[int, bool], ...] = ()
    """The name of every record that is behind a marker, and whether that was a COMMIT."""


class Append(NamedTuple):
    """One batch of a log that is not durable yet: data when `commit` is None."""

    tag: int
    producer_id: int
    producer_epoch: int
    sequence: int = -1
    commit: bool | None = None
    coordinator_epoch: int = -1


class Part(NamedTuple):
    """A partition: as it is in memory, and when its disk may lose something, as it is on the disk."""

    now: Records = Records()
    durable: Records = Records()
    tail: tuple[Append, ...] = ()


class Job(NamedTuple):
    """Markers under way."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    version: int
    tag: int
    remaining: tuple[int, ...]
    written: tuple[int, ...] = ()
    """Appended to these, and not durable there yet."""


class StateRecord(NamedTuple):
    """One record of `__transaction_state`; a tombstone without `txn`."""

    txn: Txn | None
    tag: int = NO_TAG
    """In Prepare*: the transaction that its instance asked to end; none when a timeout or another instance did."""


class Coordinator(NamedTuple):
    """The transactional id in memory, and its log."""

    txn: Txn | None = None
    tag: int = NO_TAG
    pending_tag: int = NO_TAG
    writing: int = IDLE
    """What becomes of the pending record."""
    job: Job | None = None
    epoch: int = 0
    next_producer_id: int = 0
    durable: StateRecord | None = None
    """The last record that survives a crash."""
    tail: tuple[StateRecord, ...] = ()
    """What is written after it, and may survive."""


class Outside(NamedTuple):
    """What an external coordinator remembers: the transaction that was prepared last. It has decided to commit it."""

    tag: int
    producer_id: int
    producer_epoch: int


class Budget(NamedTuple):
    """How often what may happen at any time still does."""

    crashes: int = 0
    timeouts: int = 0
    duplicates: int = 0
    late_markers: int = 0
    failures: int = 0
    reloads: int = 0
    expiries: int = 0
    older_repeats: int = 0
    touched: int = 0
    """Data partitions that anybody has used: the first to be used is called 0, whichever it is."""


class State(NamedTuple):
    """Everything."""

    coordinator: Coordinator
    parts: tuple[Part, ...]
    clients: tuple[Client, ...]
    messages: tuple[Message, ...]
    """Sorted."""
    committed: int
    """Bit per tag: its COMMIT is durable."""
    outside: Outside | None
    budget: Budget


def tag_of(client: int, number: int) -> int:
    """The name of an instance's transaction."""
    return client * TAGS_EACH + number


def record_of(tag: int, sequence: int) -> int:
    """The name of a record in its partition."""
    return tag * RECORDS_EACH + sequence % RECORDS_EACH


def tag_of_record(record: int) -> int:
    """The transaction in which an instance sent it."""
    return record // RECORDS_EACH


def tag_name(tag: int) -> str:
    """As it is printed: the instance's letter and the number."""
    return "?" if tag < 0 else f"{client_name(tag // TAGS_EACH)}{tag % TAGS_EACH}"


def client_name(client: int) -> str:
    """A, B, ..."""
    return "ABCDEFG"[client]
