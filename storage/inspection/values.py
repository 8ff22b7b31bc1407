"""The content of files, as values: each is one line of `eosin dump-log`.

Always true: a value names the file that it was found in, and `msgspec` can turn it into JSON with its kind as `type`.
"""

from typing import Any

import msgspec

from eosin.protocol.records.fields import Header

ERROR = "error"
WARNING = "warning"


class Value(msgspec.Struct, frozen=True, tag_field="type"):
    """Base of everything that is found."""

    file: str


class FileProblem(Value, frozen=True, kw_only=True, tag="problem"):
    """Something that is not as it should be."""

    reason: str
    position: int | None = None
    """Bytes from the start of the file."""
    offset: int | None = None
    """The record offset that it is about."""
    severity: str = ERROR

    @property
    def place(self) -> str:
        """The place in the file, in words; empty when the problem is about the whole file."""
        if self.position is None:
            return "" if self.offset is None else f"offset {self.offset}"
        return f"byte {self.position}" + ("" if self.offset is None else f" (offset {self.offset})")


class FileStart(Value, frozen=True, kw_only=True, tag="file"):
    """The first value of each file."""

    kind: str
    size: int
    """Bytes."""
    base_offset: int | None = None
    """The offset in the name of the file."""


class Batch(Value, frozen=True, kw_only=True, tag="batch"):
    """The header of a record batch. Times in ms, sizes in bytes."""

    position: int
    base_offset: int
    last_offset: int
    records_count: int
    size: int
    partition_leader_epoch: int
    magic: int
    crc: int
    is_valid: bool
    """True if the checksum fits."""
    compression: str
    timestamp_type: str
    base_timestamp: int
    max_timestamp: int
    delete_horizon_ms: int | None
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    is_transactional: bool
    is_control: bool
    control: str | None
    """The kind of the control record: COMMIT, ABORT or another."""
    coordinator_epoch: int | None
    """Of a COMMIT or ABORT."""


class Decoded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A decoded record of an internal topic."""

    kind: str
    key_version: int
    key: dict[str, Any]
    value_version: int | None = None
    value: dict[str, Any] | None = None
    """None for a tombstone, and for a kind that is not known."""


class RecordFound(Value, frozen=True, kw_only=True, tag="record"):
    """One record."""

    offset: int
    timestamp: int
    """ms"""
    sequence: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    control: str | None = None
    coordinator_epoch: int | None = None
    decoded: Decoded | None = None


class OffsetEntry(Value, frozen=True, kw_only=True, tag="offset_entry"):
    """A row of an offset index."""

    offset: int
    position: int


class TimeEntry(Value, frozen=True, kw_only=True, tag="time_entry"):
    """A row of a time index."""

    timestamp: int
    offset: int


class AbortedEntry(Value, frozen=True, kw_only=True, tag="aborted_transaction"):
    """A row of a transaction index."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ProducerFound(Value, frozen=True, kw_only=True, tag="producer"):
    """A producer in a snapshot; -1 where there is nothing."""

    producer_id: int
    producer_epoch: int
    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_first_offset: int


class LeaderEpochFound(Value, frozen=True, kw_only=True, tag="leader_epoch"):
    """An entry of `leader-epoch-checkpoint`."""

    epoch: int
    start_offset: int


class PartitionOffset(Value, frozen=True, kw_only=True, tag="partition_offset"):
    """An entry of an offset checkpoint."""

    topic: str
    partition: int
    offset: int


class GroupFound(Value, frozen=True, kw_only=True, tag="journal_group"):
    """One write to the journal."""

    position: int
    generation: int
    sequence: int
    oldest_generation: int


class EntryFound(Value, frozen=True, kw_only=True, tag="journal_entry"):
    """The entry of one log in a group of the journal."""

    position: int
    topic: str
    partition: int
    topic_id: str
    leader_epoch: int
    base_offset: int
    end_offset: int
    size: int
    """Bytes of its batches."""


class Property(Value, frozen=True, kw_only=True, tag="property"):
    """A named fact in a small text file."""

    name: str
    value: str
