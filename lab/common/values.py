"""Values that a broker of the lab returns: records, batches, members, transactions. They travel between processes."""

import msgspec


class ReadRecord(msgspec.Struct, frozen=True):
    """A record as a reader gets it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """ms since the epoch."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class StoredBatch(msgspec.Struct, frozen=True):
    """A batch as it stands in the log, whatever became of its transaction."""

    partition: int
    base_offset: int
    last_offset: int
    records: int
    producer_id: int
    """-1 for a producer that is not idempotent."""
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    marker: str | None
    """`commit` or `abort` for a marker; None for a batch of records."""


class AbortedRange(msgspec.Struct, frozen=True):
    """An aborted transaction in one partition, as Fetch tells of it."""

    producer_id: int
    first_offset: int


class OpenInPartition(msgspec.Struct, frozen=True):
    """A transaction that a partition holds open."""

    producer_id: int
    producer_epoch: int
    first_offset: int


class PartitionName(msgspec.Struct, frozen=True, order=True):
    """One partition. Equal to what `(topic, partition)` makes."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TransactionSeen(msgspec.Struct, frozen=True):
    """One transactional id as its coordinator knows it."""

    transactional_id: str
    state: str
    """As Kafka spells it: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort."""
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    deadline: int | None
    """The time at which it is aborted unless it ends, in ms since the epoch; None if nothing is open."""
    partitions: tuple[PartitionName, ...]


class TransactionStep(msgspec.Struct, frozen=True):
    """A step in the life of a transactional id."""

    at_ms: int
    what: str
    """`begin`, `commit`, `abort`, `timeout`, `fenced` and so on."""
    producer_id: int
    producer_epoch: int
    detail: str = ""

    def __str__(self) -> str:
        return self.detail or self.what


class LabMember(msgspec.Struct, frozen=True):
    """A member of a group."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    partitions: tuple[PartitionName, ...]
    epoch: int | None = None
    """Its member epoch; None in a classic group, which has generations."""


class ConnectionInWork(msgspec.Struct, frozen=True):
    """A connection, and the requests that it waits for."""

    peer: str
    client_id: str
    software: str
    waits_for: tuple[str, ...]

    def __str__(self) -> str:
        who = " ".join(part for part in (self.client_id, self.software) if part) or "a client"
        waits = f" waits for {', '.join(self.waits_for)}" if self.waits_for else ""
        return f"{who} at {self.peer}{waits}"
