"""The facts about a transactional id, a partition or a group when it is explained. Values only.

The HTTP API answers them as JSON, `eosin explain` builds the same from Kafka's APIs or from files, and
`eosin.observe.explain.sentences` turns them into words, wherever they came from. What nobody tells is None.
"""

import msgspec

from eosin.observe.recorder.events import ClientIdentity, TransactionHistory
from eosin.observe.recorder.group_events import GroupHistory

NO_TIME = -1
NO_OFFSET = -1


class MarkersLeft(msgspec.Struct, frozen=True, omit_defaults=True):
    """The markers of a decided transaction that are not written yet."""

    partitions: tuple[str, ...]
    of: int
    """Partitions of the transaction."""
    refused: tuple[str, ...] = ()
    """The partitions that refuse, each with its error."""


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
    """True if a record of it may or may not be in the log, and is written again."""
    history: TransactionHistory | None = None
    sources: tuple[str, ...] = ()
    """The sources of the facts, in words."""
    lacks_recorder: bool = False
    """True if the facts are of an Eosin broker whose recorder is off."""
    forgotten_ms: int = NO_TIME
    """The time at which its coordinator forgets it unless it is used; -1 while a transaction is open, and if
    unknown."""
    is_stored: bool = False
    """True if the facts are from the files of a stopped broker."""

    @property
    def is_open(self) -> bool:
        """True if a transaction is open whose outcome is not decided."""
        return self.state == "Ongoing"

    @property
    def is_preparing(self) -> bool:
        """True if its outcome is decided and markers are under way."""
        return self.state in ("PrepareCommit", "PrepareAbort")

    @property
    def deadline_ms(self) -> int:
        """The time at which the coordinator aborts it; -1 for never."""
        if not self.is_open or self.never_times_out or self.start_ms < 0:
            return NO_TIME
        return self.start_ms + self.timeout_ms

    def ends(self, producer_id: int, producer_epoch: int, partition: str) -> bool:
        """True if the coordinator is going to write a marker for what a producer has open in a partition. A transaction
        that is being ended may have a newer epoch by now than its records (KIP-890); one that is ongoing with another
        epoch is another transaction."""
        if self.producer_id != producer_id or partition not in self.partitions:
            return False
        return self.is_preparing or (self.is_open and self.producer_epoch == producer_epoch)


class OpenProducer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A transaction that a partition holds open."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_ms: int = NO_TIME
    """The time of its last write."""
    transaction: TransactionFacts | None = None
    """The facts of its coordinator; None if no coordinator knows it."""
    is_asked: bool = True
    """True if all coordinators could be asked."""
    is_hidden: bool = False
    """True if a coordinator may know of it and hide it: the asking principal may not see every transactional id."""


class OldestRecords(msgspec.Struct, frozen=True, omit_defaults=True):
    """The oldest records of a partition, which retention drops next: all of one segment."""

    first_offset: int
    end_offset: int
    due_ms: int = NO_TIME
    """The time at which `retention.ms` lets them go; -1 for never."""
    is_due_by_size: bool = False
    """True if `retention.bytes` lets them go now."""
    is_replicated: bool = True
    """True if they lie below the high watermark."""
    is_decided: bool = True
    """True if they lie below the last stable offset."""


class Replicas(msgspec.Struct, frozen=True, omit_defaults=True):
    """The replicas of a partition."""

    count: int
    in_sync: int
    needed: int
    """`min.insync.replicas`, as far as there are replicas."""

    @property
    def are_too_few(self) -> bool:
        """True if producers with acks=all are refused."""
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
    """The reason why its leader gives no facts: an error's name, or the reason why its log is offline."""
    open: tuple[OpenProducer, ...] = ()
    """Oldest first."""
    heals_after_ms: int = NO_TIME
    """The time without a write after which a transaction that no coordinator knows is aborted; -1 for never."""
    sources: tuple[str, ...] = ()
    is_known: bool = True
    """True if there is such a partition."""
    is_disk_full: bool = False
    """True if its leader refuses records for want of space."""
    oldest: OldestRecords | None = None
    """The records that retention drops next; None if the leader does not tell."""
    lacks_right: str = ""
    """The right that whoever asks lacks to see its transactions, as `READ on Topic orders`."""
    is_stored: bool = False
    """True if the facts are from the files of a stopped broker."""
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
    """The time of its last write, by the broker's clock."""
    forgotten_ms: int = NO_TIME
    """The time at which the partition forgets it unless it writes; -1 while it has a transaction open there, and if
    unknown."""
    is_open: bool = False
    """True if it has a transaction open there."""


class ProducerFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """A producer id that no transactional id has, as partitions know it."""

    producer_id: int
    now_ms: int
    places: tuple[ProducerPlace, ...] = ()
    """The partitions that know it, the one that it wrote to last first."""
    left_out: int = 0
    """Partitions that know it and are not among them."""
    sources: tuple[str, ...] = ()


class StallFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """One time in which a broker's event loop stood still."""

    at_ms: int
    ms: int
    worked_ms: int
    """Of the loop's thread: less than a quarter of `ms` means that the process or the machine was paused."""
    cause: str
    """`request`, `background`, `other` or `pause`."""
    work: str = ""
    """The background work."""
    api: str = ""
    """Of the request that ran; of cause `other` the one that ended last, if any."""
    principal: str = ""
    client_id: str = ""
    peer: str = ""
    size_bytes: int = -1


class BrokerFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """A broker's event loop."""

    node_id: int
    now_ms: int
    since_ms: int
    """Start of the counts."""
    counts: dict[str, int] = {}
    """Stalls by cause."""
    recent: tuple[StallFacts, ...] = ()
    """The last ones, newest first."""
    longest: StallFacts | None = None
    """Of those that were no pause."""
    sources: tuple[str, ...] = ()
    is_disk_full: bool = False
    """True if it refuses records for want of space."""


class GroupPartition(msgspec.Struct, frozen=True, omit_defaults=True):
    """One partition as a group has read it."""

    partition: str
    committed: int
    """-1 for nothing: a member reads it and has not committed yet."""
    last_stable: int
    high_watermark: int
    pending: bool = False
    """True if an open transaction holds offsets of the group for it."""
    records: int = -1
    """Records that a reader of committed records will still get; -1 if they were not counted."""
    control_records: int = 0
    """Before the last stable offset, where that was counted."""
    log_start: int = 0
    """The first offset of the log: records below it have been deleted."""

    @property
    def offsets_behind(self) -> int:
        """Offsets up to the last stable one, of those that are still there. Where nothing is committed a reader may
        begin anywhere: that is all of them."""
        return max(0, self.last_stable - max(self.committed, self.log_start))

    @property
    def is_uncommitted(self) -> bool:
        """True if a member reads it and the group has committed nothing for it."""
        return self.committed < 0 and not self.pending

    @property
    def is_out_of_range(self) -> bool:
        """True if a reader that begins at the committed offset gets OFFSET_OUT_OF_RANGE."""
        return 0 <= self.committed < self.log_start or self.committed > self.high_watermark

    @property
    def lag(self) -> int:
        """Records that a reader of committed records will still get; at most so many where they were not counted."""
        return self.offsets_behind if self.records < 0 else self.records

    @property
    def undecided(self) -> int:
        """Offsets behind an open transaction."""
        return max(0, self.high_watermark - self.last_stable)


class AwaitedPartition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A partition that a member of a consumer group (KIP-848) is to have, and has not got."""

    partition: str
    member: ClientIdentity
    """The member that is to have it."""
    holder: ClientIdentity | None = None
    """The member that has not given it up; None if nobody has it, so that the member gets it at its next heartbeat."""
    holder_id: str = ""
    """The member id of that one."""


class SharedPartition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A partition as a share group reads it."""

    partition: str
    start_offset: int
    """Everything before it is done with; -1 while nobody has read."""
    lag: int
    """Records from there on that are not; -1 where it is not known."""
    readers: int = 0
    end_offset: int = NO_OFFSET
    """The first offset that was never handed out. This and what follows only the partition's leader knows, once
    somebody has fetched."""
    in_flight: int = 0
    """Offsets that members have."""
    returned: int = 0
    """Offsets that members had, and that wait to be handed out again."""
    limit: int = 0
    """Offsets from the start to the end at most (share.partition.max.record.locks)."""
    deliveries: int = 0
    """Deliveries of the oldest record, one that is under way included."""
    delivery_limit: int = 0
    """Deliveries of one record at most (share.delivery.count.limit)."""
    given_up: int = 0
    """Records that nobody accepted in so many, since the leader has the partition in memory."""
    since_ms: int = NO_TIME
    """The time since which the oldest record has held back the start; -1 if nothing is under way."""
    holder: ClientIdentity | None = None
    """The member that has the oldest record; None if nobody has it."""
    until_ms: int = NO_TIME
    """The time at which its lock ends."""

    @property
    def is_at_its_limit(self) -> bool:
        """True if nothing more is handed out before the oldest record is done."""
        return self.limit > 0 and self.end_offset - self.start_offset >= self.limit


class ShareWindows(msgspec.Struct, frozen=True, omit_defaults=True):
    """The partitions of a share group with the records that one broker has under way."""

    partitions: tuple[SharedPartition, ...]


class StreamsFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The topology of a streams group (KIP-1071), and the tasks of its members."""

    topology_epoch: int = -1
    """-1 while it has no topology."""
    obstacle: str = ""
    """The reason why no tasks are dealt out, in a sentence; empty if there is none."""
    stale: tuple[ClientIdentity, ...] = ()
    """Members with an older topology."""
    is_delayed: bool = False
    """True while the first members wait for others."""
    shutdown_by: str = ""
    """The member that has asked the whole application to stop."""
    active: int = 0
    """Tasks that members run; likewise the next."""
    standby: int = 0
    warmup: int = 0


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
    """The recorded events of the group; None if they were not recorded."""
    pending_in: TransactionFacts | None = None
    """The transaction that its pending offsets are in, where that is certain."""
    sources: tuple[str, ...] = ()
    last_commit_ms: int = NO_TIME
    """The last commit of any of its offsets; -1 if there was none, or if nobody tells."""
    arrived: int = -1
    """Offsets that its partitions have got since that commit; -1 if unknown."""
    epoch: int = -1
    """The group epoch of a consumer group (KIP-848); -1 for a classic one."""
    assignment_epoch: int = -1
    """The group epoch that its target was computed at."""
    awaited: tuple[AwaitedPartition, ...] = ()
    """The partitions that are still to change hands, a few of them."""
    idle: tuple[ClientIdentity, ...] = ()
    """Members of a share or streams group that have nothing, and are to have nothing."""
    streams: StreamsFacts | None = None
    """Of a streams group; None for one of another kind."""
    shared: tuple[SharedPartition, ...] | None = None
    """The partitions of a share group (KIP-932), a few of them; None for one of another kind."""
    unserved: tuple[str, ...] = ()
    """The features at level 0, of which groups are refused; of a group that is not there alone."""
