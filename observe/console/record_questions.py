"""Questions about records, as the page of records asks them, and the same for every console (console.md 5.2)."""

from enum import Enum
from typing import Final, NamedTuple

from starlette.datastructures import QueryParams

from eosin.observe.console.record_access import Shown

MOST_RECORDS: Final = 500
CUT: Final = 1024
"""Bytes of a key or a value in a list."""
LONGEST: Final = 1024 * 1024
"""Bytes of a key or a value of one record."""
LONGEST_NEEDLE: Final = 200
LAST_OFFSET: Final = 2**63 - 1
LONGEST_NUMBER: Final = 19


class BadQuestion(Exception):
    """A parameter is not what it should be; the text says which."""


class ShownRecords(Enum):
    """The isolation level of the reader to imitate."""

    COMMITTED = "committed"
    UNCOMMITTED = "uncommitted"
    EVERYTHING = "everything"


class RecordsQuestion(NamedTuple):
    """A question about records."""

    first: int | None
    """None: the last ones, or from `time_ms` on."""
    time_ms: int | None
    limit: int
    isolation: ShownRecords
    key: bytes
    """The bytes that the key must contain; empty for any."""
    value: bytes
    longest: int
    """Bytes of a key or a value to show."""


def records_question(asked: QueryParams, shown: Shown) -> RecordsQuestion:
    """The question of a query. Raises BadQuestion."""
    names = [each.value for each in ShownRecords]
    isolation = asked.get("isolation", ShownRecords.COMMITTED.value)
    if isolation not in names:
        raise BadQuestion(f"isolation must be one of {', '.join(names)}, not {isolation[:40]!r}")
    key, value = asked.get("key", ""), asked.get("value", "")
    if max(len(key), len(value)) > LONGEST_NEEDLE:
        raise BadQuestion(f"key and value may have {LONGEST_NEEDLE} characters")
    if value and shown is not Shown.ALL:
        raise BadQuestion("values are not shown here, and not searched: eosin.console.records is keys")
    first, at_ms = requested_offset(asked, "from"), requested_offset(asked, "time")
    if first is not None and at_ms is not None:
        raise BadQuestion("give from, or time, not both")
    return RecordsQuestion(
        first,
        at_ms,
        requested_number(asked, "limit", 100, most=MOST_RECORDS),
        ShownRecords(isolation),
        key.encode("utf-8", "replace"),
        value.encode("utf-8", "replace"),
        requested_number(asked, "cut", CUT, most=LONGEST),
    )


def requested_offset(asked: QueryParams, name: str) -> int | None:
    """An offset of the query; None where there is none. Raises BadQuestion."""
    text = asked.get(name)
    return None if text is None or text == "" else _number(name, text, LAST_OFFSET)


def requested_number(asked: QueryParams, name: str, default: int, *, most: int) -> int:
    """A number of the query, from 1 to `most`. Raises BadQuestion."""
    text = asked.get(name)
    if text is None or text == "":
        return default
    return max(1, min(most, _number(name, text, LAST_OFFSET)))


def _number(name: str, text: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER and int(text) <= most):
        raise BadQuestion(f"{name} must be a number from 0 on, not {text[:40]!r}")
    return int(text)
