"""Records as lines of output: text as it is, or JSON.

Always true: a pipe is given the bytes of a record unchanged; a terminal is given nothing that could control it.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from eosin.cli.common.remote_commands import moment
from eosin.client.consumer import ConsumedRecord
from eosin.protocol.records.control import parse_control_record
from eosin.protocol.records.fields import Header, Record
from eosin.storage.inspection.internal_records import text_or_bytes

Format = Callable[[ConsumedRecord], bytes]

FIELDS: Final = ("topic", "partition", "offset", "timestamp", "producer", "headers", "key")
"""The fields that may stand in front of a value."""


def text_format(
    fields: Sequence[str] = (), *, separator: bytes = b"\t", null: bytes = b"null", for_terminal: bool = False
) -> Format:
    """Make the format that writes a record as text: these fields, then its value."""

    def line(consumed: ConsumedRecord) -> bytes:
        record = consumed.record
        parts = [_field(name, consumed, null) for name in fields]
        if consumed.batch is not None and consumed.batch.is_control:
            parts = [_field(name, consumed, b"-") for name in fields if name != "key"]
            parts.append(marker_text(consumed))
        else:
            parts.append(null if record.value is None else record.value)
        if for_terminal:
            parts = [printable(part) for part in parts]
        return separator.join(parts) + b"\n"

    return line


def json_format(*, with_producer: bool = False) -> Format:
    """Make the format that writes a record as a JSON object on one line."""

    def line(consumed: ConsumedRecord) -> bytes:
        record, batch = consumed.record, consumed.batch
        fields: dict[str, Any] = {
            "topic": consumed.partition.topic,
            "partition": consumed.partition.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
        }
        if with_producer and batch is not None:
            fields |= {"producer_id": batch.producer_id, "producer_epoch": batch.producer_epoch}
        if batch is not None and batch.is_control:
            marker = parse_control_record(record)
            fields["control"] = "UNKNOWN" if marker is None else marker.type.name
        else:
            fields["key"] = _text(record.key)
            fields["value"] = _text(record.value)
            fields["headers"] = [[text_or_bytes(_name(header)), _text(header[1])] for header in record.headers]
        return msgspec.json.encode(fields) + b"\n"

    return line


def printable(data: bytes) -> bytes:
    """Bytes as a terminal may have them: what is no text, and what would control it, is escaped."""
    text = data.decode(errors="backslashreplace")
    if text.isprintable():
        return text.encode()
    return "".join(each if each.isprintable() or each == "\t" else ascii(each)[1:-1] for each in text).encode()


def _text(data: bytes | None) -> Any:
    return None if data is None else text_or_bytes(data)


def _name(header: Header) -> bytes:
    return header[0].encode("utf-8", "surrogateescape")


def _field(name: str, consumed: ConsumedRecord, null: bytes) -> bytes:
    record, batch = consumed.record, consumed.batch
    match name:
        case "key":
            return null if record.key is None else record.key
        case "headers":
            return headers_text(record, null) or b"-"
        case "timestamp":
            return moment(record.timestamp).replace(" ", "T").encode()
        case "producer":
            return (
                b"-" if batch is None or batch.producer_id < 0 else b"%d/%d" % (batch.producer_id, batch.producer_epoch)
            )
        case "topic":
            return consumed.partition.topic.encode()
        case "partition":
            return b"%d" % consumed.partition.partition
        case _:
            return b"%d" % record.offset


def headers_text(record: Record, null: bytes = b"null") -> bytes:
    """The headers of a record: `name=value,name=value`."""
    return b",".join(_name(header) + b"=" + (null if header[1] is None else header[1]) for header in record.headers)


def marker_text(consumed: ConsumedRecord) -> bytes:
    """A control record in words."""
    assert consumed.batch is not None
    marker = parse_control_record(consumed.record)
    kind = "control record" if marker is None else f"{marker.type.name} marker"
    return f"-- {kind} of producer {consumed.batch.producer_id}/{consumed.batch.producer_epoch}".encode()
