"""Batches and records of a segment as values."""

from collections.abc import Iterator
from typing import Final

from eosin.protocol.records.batch import NO_SEQUENCE, BatchHeader, CorruptRecords, Record, iter_records, next_sequence
from eosin.protocol.records.control import ControlType, parse_control_record
from eosin.storage.inspection.internal_records import Undecodable, decode
from eosin.storage.inspection.segment_walk import FoundBatch
from eosin.storage.inspection.values import Batch, FileProblem, RecordFound

_CONTROL_NAMES: Final = {
    0: "ABORT",
    1: "COMMIT",
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}
"""The types of control record that Apache Kafka writes; only the first two are about transactions."""


def batch_value(file: str, found: FoundBatch) -> Batch:
    """The header of a batch, and its kind if it is a marker."""
    header = found.header
    control, coordinator_epoch = _control_of(found) if header.is_control else (None, None)
    return Batch(
        file,
        position=found.position,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        records_count=header.records_count,
        size=header.size,
        partition_leader_epoch=header.partition_leader_epoch,
        magic=header.magic,
        crc=header.crc,
        is_valid=found.is_valid,
        compression=_compression(header),
        timestamp_type="LogAppendTime" if header.is_log_append_time else "CreateTime",
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        delete_horizon_ms=header.base_timestamp if header.has_delete_horizon else None,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        last_sequence=header.last_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        control=control,
        coordinator_epoch=coordinator_epoch,
    )


def _compression(header: BatchHeader) -> str:
    try:
        return header.compression.name.lower()
    except CorruptRecords as error:
        return str(error)


def _control_of(found: FoundBatch) -> tuple[str | None, int | None]:
    try:
        for record in iter_records(found.data):
            return _control(record)
    except CorruptRecords:
        return None, None
    return None, None


def _control(record: Record) -> tuple[str | None, int | None]:
    """The name of a control record's type, and the coordinator epoch of a marker. Raises CorruptRecords."""
    marker = parse_control_record(record)
    if marker is not None:
        return ControlType(marker.type).name, marker.coordinator_epoch
    number = int.from_bytes((record.key or b"")[2:4], "big", signed=True)
    return _CONTROL_NAMES.get(number, f"type {number}"), None


def record_values(file: str, found: FoundBatch, topic: str | None) -> Iterator[RecordFound | FileProblem]:
    """Every record of a batch, decoded as one of the internal `topic`, and their faults."""
    header = found.header
    least = header.base_offset
    try:
        for record in iter_records(found.data):
            if not least <= record.offset <= header.last_offset:
                yield _problem(file, found, f"a record with offset {record.offset}, not {least} or more", record.offset)
            least = record.offset + 1
            yield from _record_values(file, found, record, topic)
    except CorruptRecords as error:
        yield _problem(file, found, f"the records of the batch cannot be read: {error}", header.base_offset)


def _record_values(
    file: str, found: FoundBatch, record: Record, topic: str | None
) -> Iterator[RecordFound | FileProblem]:
    header = found.header
    control = coordinator_epoch = decoded = failure = None
    if header.is_control:
        control, coordinator_epoch = _control(record)
    elif topic is not None:
        try:
            decoded = decode(topic, record.key, record.value)
        except Undecodable as error:
            failure = f"no record of {topic}: {error}"
    delta = record.offset - header.base_offset
    yield RecordFound(
        file,
        offset=record.offset,
        timestamp=record.timestamp,
        sequence=NO_SEQUENCE if header.base_sequence < 0 else next_sequence(header.base_sequence, delta),
        key=record.key,
        value=record.value,
        headers=record.headers,
        control=control,
        coordinator_epoch=coordinator_epoch,
        decoded=decoded,
    )
    if failure is not None:
        yield _problem(file, found, failure, record.offset)


def _problem(file: str, found: FoundBatch, reason: str, offset: int) -> FileProblem:
    return FileProblem(file, reason=reason, position=found.position, offset=offset)
