"""The results of appends to and reads of a partition log, as values."""

from enum import Enum
from typing import Final, NamedTuple

import msgspec

from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import NO_TIMESTAMP, STAMP_BYTES, build_control_batch
from eosin.storage.results.file_range import FileRange


class AppendOrigin(Enum):
    """The writer of a batch, which decides the checks that it must pass (storage.md section 4)."""

    CLIENT = "client"
    """A Produce request: every check."""
    COORDINATOR = "coordinator"
    """A coordinator's own records: size, CRC and producer epoch only."""


class Appended:
    """The batch is in the log at these offsets (it is durable once the high watermark has passed `last_offset`). No
    struct, for the sake of compiled code, as `BatchHeader`; nothing changes it."""

    __slots__ = ("base_offset", "duplicate", "last_offset", "log_append_time_ms", "log_start_offset")

    def __init__(
        self,
        base_offset: int,
        last_offset: int,
        log_append_time_ms: int = -1,
        log_start_offset: int = 0,
        duplicate: bool = False,
    ) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.log_append_time_ms = log_append_time_ms
        """The broker's timestamp for a LogAppendTime topic, else -1."""
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate
        """True when these are the offsets of an earlier, identical batch and nothing was written."""

    def values(self) -> tuple[int, int, int, int, bool]:
        """All of it, in order."""
        return self.base_offset, self.last_offset, self.log_append_time_ms, self.log_start_offset, self.duplicate

    def __repr__(self) -> str:
        return f"Appended{self.values()}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Appended) and self.values() == other.values()


class Refused(msgspec.Struct, frozen=True, gc=False):
    """Nothing was written; `error` says why."""

    error: ErrorCode
    message: str | None = None
    record_errors: tuple[tuple[int, str], ...] = ()
    """(index in the batch, message) of each record at fault."""

    @property
    def is_too_large(self) -> bool:
        """True if fewer records might be accepted."""
        return self.error in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


AppendResult = Appended | Refused


class FollowerAppend(msgspec.Struct, frozen=True, gc=False):
    """The part that a follower took of the batches that its leader sent."""

    end_offset: int
    """The log end now: the offset to ask for next, once it is durable."""
    appended_bytes: int
    stopped_at_epoch: int | None = None
    """The leader epoch of the batch before which it stopped: it is later than the one that was asked for."""


class Marker:
    """The marker of one transaction, to be written into each of its partitions (KIP-98). Nothing changes it."""

    __slots__ = (
        "_behind_stamp",
        "_timestamp",
        "commit",
        "coordinator_epoch",
        "producer_epoch",
        "producer_id",
        "transaction_version",
    )

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        coordinator_epoch: int,
        transaction_version: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.commit = commit
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version
        """2 asks for the strict epoch rule of KIP-1228; 0 and 1 for the older one."""
        self._timestamp = NO_TIMESTAMP
        self._behind_stamp = b""

    def behind_stamp(self, timestamp: int) -> bytes:
        """Its batch, written at `timestamp` (ms), without the stamp: the same bytes in every partition."""
        if timestamp != self._timestamp or not self._behind_stamp:
            batch = build_control_batch(
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                commit=self.commit,
                coordinator_epoch=self.coordinator_epoch,
                timestamp=timestamp,
            )
            self._timestamp, self._behind_stamp = timestamp, bytes(batch[STAMP_BYTES:])
        return self._behind_stamp


class AbortedTransaction(msgspec.Struct, frozen=True, gc=False):
    """An aborted transaction that a read_committed reader must drop, from `first_offset` to its marker."""

    producer_id: int
    first_offset: int


class ReadResult(msgspec.Struct, frozen=True, gc=False):
    """The result of a fetch from one partition."""

    error: ErrorCode
    records: bytes | memoryview | FileRange
    """A range of a file where they are many and the reader takes them like that."""
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTransaction, ...] | None
    """None for read_uncommitted."""


class ActiveProducer(NamedTuple):
    """A producer, as DescribeProducers returns it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start_offset: int


NO_RECORDS: Final = b""


class VerificationGuard:
    """A token, compared by identity, that proves which verification an append belongs to (KIP-890 part 1)."""

    __slots__ = ()
