"""The topics and partitions in any request or response, found by the shape of its schema; and messages with some of
them left out, replaced, or put together again.

Always true: a message that names no topic is left as it is. Topics are keyed by name, or by id where there is no name.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import Message

Key = str | bytes
"""A topic's name, or its id."""
Wanted = Callable[[Key, int | None], bool]
"""True for the partitions that are meant; the partition is None for a topic without any."""

_FORGOTTEN: Final = "forgotten_topics_data"
"""Of Fetch: partitions that a client no longer reads."""
_NAMES: Final = ("name", "topic", "topic_name")
_INDEXES: Final = ("partition_index", "index", "partition")


def partitions_in(message: Message) -> Iterator[tuple[Key, int | None]]:
    """The partitions that a message names, and its topics without partitions."""
    for field, items in _lists_of(message):
        for each in items:
            if not _is_topic(field, each):
                yield from partitions_in(each)
                continue
            inner = _partitions_field(each)
            partitions = () if inner is None else getattr(each, inner) or ()
            for one in partitions:
                yield _key(each), _index(one)
            if not partitions:
                yield _key(each), None


def only(message: Any, wanted: Wanted) -> Any:
    """The message with these partitions alone; topics of which none is left are gone."""
    changes: dict[str, Any] = {}
    for field, items in _lists_of(message):
        kept = []
        for each in items:
            if not _is_topic(field, each):
                kept.append(only(each, wanted))
                continue
            inner = _partitions_field(each)
            key = _key(each)
            if inner is None or not (partitions := getattr(each, inner)):
                kept += [each] if wanted(key, None) else []
                continue
            some = tuple(one for one in partitions if wanted(key, _index(one)))
            if some:
                kept.append(replace(each, **{inner: some}))
        changes[field] = tuple(kept)
    return replace(message, **changes) if changes else message


def together(first: Any, second: Any) -> Any:
    """A message with the topics of both; all else is that of the first."""
    changes: dict[str, Any] = {}
    for field in first.__struct_fields__:
        one, other = getattr(first, field), getattr(second, field)
        if field == _FORGOTTEN or not isinstance(one, tuple) or not isinstance(other, tuple) or not other:
            continue
        if not isinstance(other[0], Message):
            continue
        changes[field] = _joined(one, other)
    return replace(first, **changes) if changes else first


def _joined(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    found = {_identity(each): each for each in first}
    for each in second:
        key = _identity(each)
        found[key] = together(found[key], each) if key in found else each
    return tuple(found.values())


def _identity(part: Any) -> Any:
    names = [getattr(part, name) for name in ("transactional_id", "group_id", *_NAMES) if hasattr(part, name)]
    index = _index(part) if any(hasattr(part, name) for name in _INDEXES) else None
    return (*names, getattr(part, "topic_id", None), index)


def _lists_of(message: Message) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for field in message.__struct_fields__:
        items = getattr(message, field)
        if field != _FORGOTTEN and isinstance(items, tuple) and items and isinstance(items[0], Message):
            yield field, items


def _is_topic(field: str, part: Any) -> bool:
    named = any(hasattr(part, name) for name in _NAMES)
    return hasattr(part, "topic_id") or (named and "topic" in field)


def _key(topic: Any) -> Key:
    for name in _NAMES:
        if found := getattr(topic, name, None):
            return str(found)
    return bytes(getattr(topic, "topic_id", ZERO_UUID))


def _partitions_field(topic: Any) -> str | None:
    for field in topic.__struct_fields__:
        items = getattr(topic, field)
        if isinstance(items, tuple) and "partition" in field:
            return str(field)
    return None


def _index(part: Any) -> int:
    if isinstance(part, int):
        return part
    return next(int(getattr(part, name)) for name in _INDEXES if hasattr(part, name))
