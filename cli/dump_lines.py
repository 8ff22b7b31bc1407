"""Found values as lines for people: aligned, with times as dates, with `!!` in front of what is wrong."""

import json
from datetime import UTC, datetime
from typing import Any, Final

from eosin.cli.common.output import raw_headers
from eosin.storage.inspection.internal_records import UNKNOWN
from eosin.storage.inspection.values import (
    AbortedEntry,
    Batch,
    Decoded,
    EntryFound,
    FileProblem,
    FileStart,
    GroupFound,
    LeaderEpochFound,
    OffsetEntry,
    PartitionOffset,
    ProducerFound,
    Property,
    RecordFound,
    TimeEntry,
    Value,
)

_SHOWN_BYTES: Final = 200
_INDENT: Final = " " * 12


def line(value: Value) -> str:
    """One value as one line."""
    match value:
        case FileStart():
            return f"{value.file}: {value.kind}, {value.size:,} bytes"
        case FileProblem():
            return problem_line(value)
        case Batch():
            return _batch(value)
        case RecordFound():
            return _record(value)
        case OffsetEntry():
            return f"  offset {value.offset:<12} at byte {value.position}"
        case TimeEntry():
            return f"  {moment(value.timestamp)}  at offset {value.offset}"
        case LeaderEpochFound():
            return f"  leader epoch {value.epoch:<6} from offset {value.start_offset}"
        case PartitionOffset():
            return f"  {f'{value.topic}-{value.partition}':<30} offset {value.offset}"
        case GroupFound():
            return f"{value.position:>10}  round {value.generation}  group {value.sequence}"
        case EntryFound():
            name = f"{value.topic}-{value.partition}"
            offsets = _span(value.base_offset, value.end_offset - 1)
            return f"{_INDENT}{name:<30} offsets {offsets:<15} {value.size:>8} bytes  topic id {value.topic_id}"
        case Property():
            return f"  {value.name} = {value.value}"
        case AbortedEntry() | ProducerFound():
            return _producer_line(value)
        case _:
            raise AssertionError(f"no line for {value}")


def problem_line(problem: FileProblem) -> str:
    """The line for a problem: its place and its reason."""
    where = f"{problem.place}: " if problem.place else ""
    return f"!! {where}{problem.reason}"


def moment(timestamp_ms: int) -> str:
    """A timestamp as a date in UTC; the number itself where there is no such date."""
    if timestamp_ms < 0:
        return f"{'no time':<24}"
    try:
        date = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms:<24}"
    return f"{date:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03}Z"


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}..{last}"


def _batch(batch: Batch) -> str:
    offsets = _span(batch.base_offset, batch.last_offset)
    parts = [
        f"{batch.position:>10}  offsets {offsets:<15} {batch.records_count:>6} records {batch.size:>8} bytes"
        f"  {batch.compression:<6}  {moment(batch.max_timestamp)}  leader epoch {batch.partition_leader_epoch}"
    ]
    if batch.producer_id >= 0:
        parts.append(f"producer {batch.producer_id}/{batch.producer_epoch}")
    if batch.base_sequence >= 0:
        parts.append(f"sequences {_span(batch.base_sequence, batch.last_sequence)}")
    if batch.is_control:
        epoch = "" if batch.coordinator_epoch is None else f" by coordinator epoch {batch.coordinator_epoch}"
        parts.append(f"{batch.control or 'empty control batch'}{epoch}")
    elif batch.is_transactional:
        parts.append("transactional")
    if batch.timestamp_type != "CreateTime":
        parts.append(batch.timestamp_type)
    if batch.delete_horizon_ms is not None:
        parts.append(f"delete horizon {moment(batch.delete_horizon_ms)}")
    if not batch.is_valid:
        parts.append("WRONG CHECKSUM")
    return "  ".join(parts)


def _record(record: RecordFound) -> str:
    parts = [f"{_INDENT}{record.offset:<10}  {moment(record.timestamp)}"]
    if record.sequence >= 0:
        parts.append(f"sequence {record.sequence}")
    if record.control is not None:
        epoch = "" if record.coordinator_epoch is None else f" by coordinator epoch {record.coordinator_epoch}"
        parts.append(f"{record.control}{epoch}")
    elif record.decoded is not None:
        decoded = record.decoded
        parts.append(
            f"{decoded.kind} {_fields(decoded.key)}".rstrip() if decoded.kind != UNKNOWN else _unknown(decoded)
        )
        if record.value is None:
            parts.append("tombstone")
        elif decoded.value is not None:
            parts.append(f"-> {_fields(decoded.value)}")
    else:
        parts += [f"key {shown(record.key)}", f"value {shown(record.value)}"]
    if record.headers:
        parts.append("headers " + " ".join(f"{shown(name)}={shown(value)}" for name, value in raw_headers(record)))
    return "  ".join(parts)


def _unknown(decoded: Decoded) -> str:
    return f"a kind that is not known (key version {decoded.key_version})"


def _fields(fields: dict[str, Any]) -> str:
    """The fields that say something: -1 stands for nothing in all these records."""
    return " ".join(f"{name}={_field(value)}" for name, value in fields.items() if value != -1)


def _field(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=lambda data: data.hex())


def shown(data: bytes | None) -> str:
    """Bytes as quoted text, or in hexadecimal where they are no text; long ones are cut."""
    if data is None:
        return "null"
    cut = f"... ({len(data)} bytes)" if len(data) > _SHOWN_BYTES else ""
    head = data[:_SHOWN_BYTES]
    try:
        return json.dumps(head.decode(errors="strict" if not cut else "ignore"), ensure_ascii=False) + cut
    except UnicodeDecodeError:
        return f"0x{head.hex()}{cut}"


def _producer_line(value: AbortedEntry | ProducerFound) -> str:
    if isinstance(value, AbortedEntry):
        return (
            f"  producer {value.producer_id:<10} aborted {_span(value.first_offset, value.last_offset)}"
            f"  last stable offset {value.last_stable_offset}"
        )
    parts = [f"  producer {f'{value.producer_id}/{value.producer_epoch}':<12} {moment(value.last_timestamp)}"]
    if value.last_offset >= 0:
        parts.append(f"offsets {_span(value.last_offset - value.offset_delta, value.last_offset)}")
    if value.last_sequence >= 0:
        parts.append(f"sequences {_span(value.first_sequence, value.last_sequence)}")
    if value.coordinator_epoch >= 0:
        parts.append(f"coordinator epoch {value.coordinator_epoch}")
    if value.transaction_first_offset >= 0:
        parts.append(f"open transaction from offset {value.transaction_first_offset}")
    return "  ".join(parts)
