"""`ExactlyOnceFacts`: all that a verdict is made of, as it was read from a broker. It travels between processes."""

import msgspec

from eosin.lab.common.values import ReadRecord, StoredBatch, TransactionSeen


class LoggedPartition(msgspec.Struct, frozen=True):
    """One partition, whatever became of the transactions in it."""

    topic: str
    partition: int
    records: tuple[ReadRecord, ...]
    """All of them, of aborted and of open transactions too, by offset."""
    visible: tuple[int, ...]
    """The offsets of those that readers of committed records get."""
    batches: tuple[StoredBatch, ...]
    """By offset, markers too."""
    last_stable_offset: int
    high_watermark: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class GroupPosition(msgspec.Struct, frozen=True):
    """The position of a group in one partition."""

    topic: str
    partition: int
    offset: int


class ExactlyOnceFacts(msgspec.Struct, frozen=True):
    """The input of an application, its output, and how far it has come."""

    input: tuple[LoggedPartition, ...]
    output: tuple[LoggedPartition, ...]
    group: str | None = None
    """None for an application that commits no offsets: all of the input counts as read."""
    committed: tuple[GroupPosition, ...] = ()
    """The offsets of the group, of partitions where it has any."""
    open: tuple[TransactionSeen, ...] = ()
    """Transactions that are not over."""
    is_moving: bool = False
    """True if somebody wrote or committed while the facts were read."""
