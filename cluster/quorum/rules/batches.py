"""Batches of the metadata log, as fetches and snapshots bring them (cluster.md 3.4).

Always true: a batch that comes from here is whole and has the right checksum; one that was cut off at the end of an
answer is left out.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from eosin.cluster.quorum.rules.errors import QuorumUnreadable
from eosin.protocol.records.batch import CorruptRecords, batches, iter_records, verify_crc
from eosin.protocol.records.compression import BytesLike
from eosin.protocol.records.metadata import decode_metadata_record, decode_quorum_control
from eosin.protocol.schemas.records.quorum import SnapshotFooterRecord, SnapshotHeaderRecord
from eosin.protocol.types import DecodeError, Message


class LogBatch(NamedTuple):
    """One batch, its records still to be read."""

    base_offset: int
    last_offset: int
    epoch: int
    """The raft epoch in which it was written."""
    is_control: bool
    data: bytes

    @property
    def end_offset(self) -> int:
        """The offset behind it."""
        return self.last_offset + 1


class OffsetRecord(NamedTuple):
    """One record and where it stands."""

    offset: int
    record: Message


_NO_KEY: Final = b""


def whole_batches(data: BytesLike) -> list[LogBatch]:
    """The batches in `data`, without one that is cut off at its end. Raises CorruptRecords."""
    found = []
    view = memoryview(data)
    for position, header in batches(data):
        if not verify_crc(data, position, header):
            raise CorruptRecords(f"the batch at offset {header.base_offset} has a wrong checksum")
        found.append(
            LogBatch(
                base_offset=header.base_offset,
                last_offset=header.last_offset,
                epoch=header.partition_leader_epoch,
                is_control=header.is_control,
                data=bytes(view[position : position + header.size]),
            )
        )
    return found


def data_records(batch: LogBatch) -> Iterator[OffsetRecord]:
    """The metadata records of a batch that is no control batch. Raises QuorumUnreadable."""
    return _read(batch, lambda key, value: decode_metadata_record(value))


def control_records(batch: LogBatch) -> Iterator[OffsetRecord]:
    """The records of a control batch. Raises QuorumUnreadable."""
    return _read(batch, decode_quorum_control)


def is_whole_snapshot(found: list[LogBatch]) -> bool:
    """True if batches begin with the header of a snapshot and end with its footer. Raises QuorumUnreadable."""
    if not found or not found[0].is_control or not found[-1].is_control:
        return False
    first, last = list(control_records(found[0])), list(control_records(found[-1]))
    return (
        bool(first and last)
        and isinstance(first[0].record, SnapshotHeaderRecord)
        and isinstance(last[-1].record, SnapshotFooterRecord)
    )


def _read(batch: LogBatch, decode: Any) -> Iterator[OffsetRecord]:
    offset = batch.base_offset
    try:
        for record in iter_records(batch.data):
            offset = record.offset
            yield OffsetRecord(offset, decode(record.key or _NO_KEY, record.value or _NO_KEY))
    except (DecodeError, CorruptRecords) as error:
        raise QuorumUnreadable(f"offset {offset} of the metadata log cannot be read: {error}") from error
