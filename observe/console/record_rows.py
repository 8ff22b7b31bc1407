"""The rows of the page of records: values cut to a length that a page can hold. Values only, and pure (console.md 5.2).

Always true: no part of an answer is longer than it was asked to be, whatever is in the log; bytes that are no text come
as hexadecimal digits.
"""

import codecs
from typing import Final

import msgspec

from eosin.observe.console.log_rows import CONTROL, PLAIN
from eosin.protocol.names import METADATA_TOPIC
from eosin.protocol.records.batch import BatchHeader, Record
from eosin.protocol.records.compression import CorruptRecords
from eosin.protocol.records.control import parse_control_record
from eosin.storage.inspection.internal_records import KINDS_BY_TOPIC, Undecodable, decode
from eosin.storage.inspection.values import Decoded

MOST_HEADERS: Final = 50
LONGEST_DECODED: Final = 64 * 1024
"""Bytes of a value of an internal topic that is decoded; of a longer one its bytes are shown."""


class Piece(msgspec.Struct, omit_defaults=True):
    """A key or a value, or its beginning."""

    size: int
    """Bytes in all."""
    text: str | None = None
    hex: str | None = None
    """The bytes as hexadecimal digits, if they are no text in UTF-8."""
    is_cut: bool = False
    is_hidden: bool = False
    """True if it may not be shown."""


class HeaderSeen(msgspec.Struct, omit_defaults=True):
    """One header of a record."""

    name: str
    value: Piece | None = None


class RecordSeen(msgspec.Struct, omit_defaults=True):
    """One record, or a control record."""

    offset: int
    timestamp: int
    batch: int
    """The first offset of its batch."""
    outcome: str = PLAIN
    producer_id: int = -1
    epoch: int = -1
    key: Piece | None = None
    value: Piece | None = None
    headers: list[HeaderSeen] = []
    headers_left_out: int = 0
    marker: str = ""
    is_visible: bool = False
    """True if readers of committed records get it already."""
    decoded: Decoded | None = None
    """Of an internal topic."""


class RecordsAnswer(msgspec.Struct):
    """Some records of a partition."""

    partition: str
    now_ms: int
    log_start: int
    last_stable: int
    high_watermark: int
    log_end: int
    first: int
    next: int
    """The offset for the next question."""
    looked_at: int
    """Number of records that were looked at."""
    is_end: bool
    """True if a reader of this isolation gets nothing more for now."""
    records: list[RecordSeen]
    producers: dict[str, str]
    shown: str
    """`full` or `keys`."""


def cut(data: bytes | None, longest: int, *, is_hidden: bool = False) -> Piece | None:
    """The beginning of `data`."""
    if data is None:
        return None
    if is_hidden:
        return Piece(len(data), is_hidden=True)
    begin = data[:longest]
    is_cut = len(data) > longest
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(begin, final=not is_cut)
    except UnicodeDecodeError:
        return Piece(len(data), hex=begin.hex(), is_cut=is_cut)
    return Piece(len(data), text=text, is_cut=is_cut)


def record_row(topic: str, header: BatchHeader, record: Record, longest: int, *, with_value: bool) -> RecordSeen:
    """A record; what became of it is told later."""
    is_secret = topic == METADATA_TOPIC  # it has what passwords could be guessed from; `decode` leaves that out
    seen = RecordSeen(
        record.offset,
        record.timestamp,
        header.base_offset,
        producer_id=header.producer_id,
        epoch=header.producer_epoch,
        key=cut(record.key, longest, is_hidden=is_secret),
        value=cut(record.value, longest, is_hidden=is_secret or not with_value),
        headers=[
            HeaderSeen(_printable(name), cut(value, longest, is_hidden=is_secret or not with_value))
            for name, value in record.headers[:MOST_HEADERS]
        ],
        headers_left_out=max(0, len(record.headers) - MOST_HEADERS),
    )
    if header.is_control:
        seen.outcome = CONTROL
        try:
            marker = parse_control_record(record)
        except CorruptRecords:
            marker = None
        seen.marker = CONTROL if marker is None else marker.type.name
    elif topic in KINDS_BY_TOPIC and len(record.value or b"") <= LONGEST_DECODED:
        try:
            seen.decoded = decode(topic, record.key, record.value if with_value else None)
        except Undecodable:
            seen.decoded = None
    return seen


def _printable(name: str) -> str:
    """A header's name that JSON can carry, cut."""
    return name[:200].encode("utf-8", "replace").decode()
