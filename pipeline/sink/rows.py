"""Rows for a topic: the columns that the sink accepts, as lists and in Arrow batches.

Always true of lists: keys and values are bytes, text is UTF-8, and every list has one entry for each row.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from eosin.pipeline.common.errors import BadRows

Headers = tuple[tuple[str, bytes | None], ...]

COLUMNS: Final = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
"""The columns that the sink accepts, and the Spark types of each. Only `value` is required."""

_RECORD_OVERHEAD: Final = 32
_HEADER_OVERHEAD: Final = 8

NO_TOPIC: Final = "a row has no topic, and the sink has no default topic"


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows, column by column. A missing column is None."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    topics: Sequence[str | None] | None = None
    partitions: Sequence[int | None] | None = None
    headers: Sequence[Headers] | None = None
    timestamps: Sequence[int | None] | None = None
    """ms since 1970; None is the time of writing."""

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def from_spark(cls, rows: Sequence[Any], names: Iterable[str]) -> Self:
        """From pyspark.sql.Row objects with these columns."""
        there = set(names)

        def column(name: str) -> Any:
            return [row[name] for row in rows] if name in there else None

        return cls(
            keys=_in_bytes(column("key"), len(rows)),
            values=_in_bytes(column("value"), len(rows)),
            topics=column("topic"),
            partitions=column("partition"),
            headers=_headers(column("headers"), lambda each: (each[0], each[1])),
        )


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """The approximate size of a record in bytes, rounded up."""
    size = len(key or b"") + len(value or b"") + _RECORD_OVERHEAD
    for name, content in headers:
        size += 3 * len(name) + len(content or b"") + _HEADER_OVERHEAD  # most characters have one byte, some up to four
    return size


def check_columns(types: Iterable[tuple[str, str]], *, default_topic: str | None) -> None:
    """Raise BadRows unless the sink can write these columns, which are pairs of name and short Spark type."""
    found = dict(types)
    if "value" not in found:
        raise BadRows(f"the sink needs a column value, and the frame has {', '.join(found) or 'no columns'}")
    if default_topic is None and "topic" not in found:
        raise BadRows("the sink has no default topic, and the frame has no column topic")
    for name, kind in found.items():
        allowed = COLUMNS.get(name)
        if allowed is None:
            raise BadRows(f"the sink does not know what to do with column {name}: it takes {', '.join(COLUMNS)}")
        if kind not in allowed:
            raise BadRows(f"column {name} is {kind}, and the sink takes {' or '.join(allowed)}")


def split_by_topic(rows: Any, default: str | None) -> Iterator[tuple[str, Any]]:
    """The rows of a pyarrow.RecordBatch, topic by topic. Raises BadRows for a row without a topic."""
    if "topic" not in rows.schema.names:
        if default is None:
            raise BadRows(NO_TOPIC)
        yield default, rows
        return
    from pyarrow import compute

    topics = rows.column("topic")
    if topics.null_count:
        if default is None:
            raise BadRows(NO_TOPIC)
        topics = compute.fill_null(topics, default)
    for topic in topics.unique().to_pylist():
        yield topic, rows.filter(compute.equal(topics, topic))


def _in_bytes(column: list[Any] | None, count: int) -> list[bytes | None]:
    if column is None:
        return [None] * count
    return [each.encode() if isinstance(each, str) else None if each is None else bytes(each) for each in column]


def _headers(column: list[Any] | None, pair: Any) -> list[Headers] | None:
    if column is None:
        return None
    return [
        tuple((name, None if value is None else bytes(value)) for name, value in map(pair, each or ()))
        for each in column
    ]
