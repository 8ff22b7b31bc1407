"""What is known of a transactional id, a partition or a group when it is explained. Values only.

The HTTP API answers them as JSON, `eosin explain` builds the same from Kafka's APIs or from files, and
`eosin.observe.explain.sentences` turns them into words, wherever they came from. What nobody tells is None.
"""

import msgspec

from eosin.observe.recorder.events import ClientIdentity, History
from eosin.observe.recorder.group_events import GroupHistory

NO_TIME = -1


class MarkersLeft(msgspec.Struct, frozen=True, omit_defaults=True):
    """The markers of a decided transaction that are not written yet."""

    partitions: tuple[str, ...]
    of: int
    """Partitions of the transaction."""
    refused: tuple[str, ...] = ()
    """Which partition refuses, and with what."""


class TransactionFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """One transactional id."""

    transactional_id: str
    now_ms: int
    state: str
    """As DescribeTransactions spells it; empty when the id is not known."""
    producer_id: int = -1
    producer_epoch: int = -1
    timeout_ms: int = 0
    start_ms: int = NO_TIME
    updated_ms: int = NO_TIME
    never_times_out: bool = False
    partitions: tuple[str, ...] = ()
    coordinator: int = -1
    """Node id."""
    markers: MarkersLeft | None = None
    in_doubt: bool = False
    """Whether a record of it may or may not be in the log, and is written again."""
    history: History | None = None
    sources: tuple[str, ...] = ()
    """Where the facts come from, in words."""
    lacks_recorder: bool = False
    """Whether it was asked of an Eosin that records nothing, because nobody asked it to."""
    forgotten_ms: int = NO_TIME
    """When its coordinator forgets it unless it is used; -1 while a transaction is open, and where nobody tells."""
    is_stored: bool = False
    """Whether it is as the files of a stopped broker say."""

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open whose outcome is not decided."""
        return self.state == "Ongoing"

    @property
    def is_preparing(self) -> bool:
        """Whether its outcome is decided and markers are under way."""
        return self.state in ("PrepareCommit", "PrepareAbort")

    @property
    def deadline_ms(self) -> int:
        """When the coordinator aborts it, -1 for never."""
        if not self.is_open or self.never_times_out or self.start_ms < 0:
            return NO_TIME
        return self.start_ms + self.timeout_ms


class OpenProducer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A transaction that a partition holds open."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_ms: int = NO_TIME
    """When something was written for it last."""
    transaction: TransactionFacts | None = None
    """What its coordinator knows; None when no coordinator does."""
    is_asked: bool = True
    """Whether all coordinators could be asked."""
    is_hidden: bool = False
    """Whether a coordinator may know of it without saying so: whoever asks may not see every transactional id."""


class OldestRecords(msgspec.Struct, frozen=True, omit_defaults=True):
    """The oldest records of a partition, which retention drops next: all of one segment."""

    first_offset: int
    end_offset: int
    due_ms: int = NO_TIME
    """When `retention.ms` lets them go; -1 for never."""
    is_due_by_size: bool = False
    """Whether `retention.bytes` lets them go now."""
    is_replicated: bool = True
    """Whether they lie below the high watermark."""
    is_decided: bool = True
    """Whether they lie below the last stable offset."""


class Replicas(msgspec.Struct, frozen=True, omit_defaults=True):
    """The replicas of a partition."""

    count: int
    in_sync: int
    needed: int
    """`min.insync.replicas`, as far as there are replicas."""

    @property
    def are_too_few(self) -> bool:
        """Whether producers with acks=all are refused."""
        return self.in_sync < self.needed


class PartitionFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """One partition."""

    partition: str
    now_ms: int
    leader: int = -1
    """Node id, -1 for none."""
    log_start: int = -1
    last_stable: int = -1
    high_watermark: int = -1
    error: str = ""
    """Why its leader does not tell: an error's name, or why its log is offline."""
    open: tuple[OpenProducer, ...] = ()
    """Oldest first."""
    heals_after_ms: int = NO_TIME
    """How long nothing must have been written for a transaction that no coordinator knows, until it is aborted; -1
    for never."""
    sources: tuple[str, ...] = ()
    is_known: bool = True
    """Whether there is such a partition."""
    is_disk_full: bool = False
    """Whether its leader refuses records for want of space."""
    oldest: OldestRecords | None = None
    """What retention drops next, where the leader tells it."""
    lacks_right: str = ""
    """The right that whoever asks lacks to see its transactions, as `READ on Topic orders`."""
    is_stored: bool = False
    """Whether it is as the files of a stopped broker say."""
    replicas: Replicas | None = None
    """None where nobody tells."""

    @property
    def behind(self) -> int:
        """Offsets that readers of committed records may not read yet."""
        return max(0, self.high_watermark - self.last_stable)


class ProducerPlace(msgspec.Struct, frozen=True, omit_defaults=True):
    """A producer id in one partition."""

    partition: str
    producer_epoch: int
    last_sequence: int
    last_ms: int
    """When something was written for it last, by the broker's clock."""
    forgotten_ms: int = NO_TIME
    """When the partition forgets it unless it writes; -1 while it has a transaction open there, and where nobody
    tells."""
    is_open: bool = False
    """Whether it has a transaction open there."""


class ProducerFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """A producer id that no transactional id has, as partitions know it."""

    producer_id: int
    now_ms: int
    places: tuple[ProducerPlace, ...] = ()
    """Where it wrote last first."""
    left_out: int = 0
    """Partitions that know it and are not among them."""
    sources: tuple[str, ...] = ()


class GroupPartition(msgspec.Struct, frozen=True, omit_defaults=True):
    """One partition as a group has read it."""

    partition: str
    committed: int
    """-1 for nothing: a member reads it and has not committed yet."""
    last_stable: int
    high_watermark: int
    pending: bool = False
    """Whether an open transaction holds offsets of the group for it."""
    records: int = -1
    """That a reader of committed records will still get; -1 when they were not counted."""
    control_records: int = 0
    """Before the last stable offset, where that was counted."""
    log_start: int = 0
    """What is committed below it has been deleted."""

    @property
    def offsets_behind(self) -> int:
        """Offsets up to the last stable one, of those that are still there."""
        return max(0, self.last_stable - max(self.committed, self.log_start)) if self.committed >= 0 else 0

    @property
    def is_out_of_range(self) -> bool:
        """Whether a reader that begins where the group has committed is told OFFSET_OUT_OF_RANGE."""
        return 0 <= self.committed < self.log_start or self.committed > self.high_watermark

    @property
    def lag(self) -> int:
        """Records that a reader of committed records will still get; at most so many where they were not counted."""
        return self.offsets_behind if self.records < 0 else self.records

    @property
    def undecided(self) -> int:
        """Offsets behind an open transaction."""
        return max(0, self.high_watermark - self.last_stable)


class GroupFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """One consumer group."""

    group: str
    now_ms: int
    state: str
    """Empty when there is none."""
    members: tuple[ClientIdentity, ...] = ()
    partitions: tuple[GroupPartition, ...] = ()
    held_by: tuple[str, ...] = ()
    """Transactional ids that hold its readers back."""
    history: GroupHistory | None = None
    """What has happened to it; None where nobody has recorded it."""
    pending_in: TransactionFacts | None = None
    """The transaction that its pending offsets are in, where that is certain."""
    sources: tuple[str, ...] = ()
