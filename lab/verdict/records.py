"""Records in evidence, and the shape in which they are compared. Pure."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

from eosin.lab.common.values import ReadRecord

RecordText = ReadRecord | tuple[str | bytes | None, str | bytes | None] | str | bytes | None
"""A record, a pair of key and value, or a value. Texts are UTF-8."""

_LONGEST: Final = 60
"""Characters of a key or a value."""


def text_of_record(record: ReadRecord) -> str:
    """Its place, its key and its value: `orders-0:7 k="7" "one book"`."""
    key = "" if record.key is None else f" key {text_of_id(record.key)}"
    return f"{record.topic}-{record.partition}:{record.offset}{key} {text_of_id(record.value)}"


def text_of_id(value: Any) -> str:
    """A value, cut if it is long: text in quotes, other bytes as Python writes them."""
    if isinstance(value, tuple):
        return " ".join(text_of_id(each) for each in value)
    if value is None:
        return "none"
    said = value if isinstance(value, str) else None
    if isinstance(value, bytes):
        try:
            said = value.decode()
        except UnicodeDecodeError:
            said = None
    if said is not None and said.isprintable():
        return f'"{said}"' if len(said) <= _LONGEST else f'"{said[:_LONGEST]}..."'
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def shape_of(wanted: Sequence[RecordText]) -> Callable[[RecordText], Hashable]:
    """The part of a record that is compared: all but its place and its time if `wanted` has records, else its key and
    its value, or its value alone. Raises ValueError for a mixture."""
    kinds = {_kind(each) for each in wanted}
    if len(kinds) > 1:
        raise ValueError("the records to compare with are all records, all pairs of key and value, or all values")
    return {"record": _whole, "pair": _pair}.get(next(iter(kinds), "value"), _value)


def _kind(each: RecordText) -> str:
    if isinstance(each, ReadRecord):
        return "record"
    return "pair" if isinstance(each, tuple) else "value"


def _whole(each: RecordText) -> Hashable:
    assert isinstance(each, ReadRecord)
    return each.topic, each.key, each.value, each.headers


def _pair(each: RecordText) -> Hashable:
    if isinstance(each, ReadRecord):
        return each.key, each.value
    assert isinstance(each, tuple)
    key, value = each
    return _bytes(key), _bytes(value)


def _value(each: RecordText) -> Hashable:
    if isinstance(each, ReadRecord):
        return each.value
    assert not isinstance(each, tuple)
    return _bytes(each)


def _bytes(text: str | bytes | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text
