"""`Table`: rows by key with the version at which each changed last, so that any page can be told what it has missed
(console.md 5.1).

Pure. Always true: a page that has every change up to version v, and then applies `since(v)`, has exactly the rows of
now, however slow it was: what it missed in between is never queued. A row is encoded once, for all pages.
"""

from collections.abc import Hashable, Iterator, Mapping
from itertools import takewhile
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

Key = TypeVar("Key", bound=Hashable)

MOST_GONE: Final = 5000
"""Rows that are gone of which the table still knows: a page that has missed more begins anew."""


class Changes(NamedTuple):
    """The changes that a page has missed."""

    is_reset: bool
    """It forgets what it has first."""
    rows: list[msgspec.Raw]
    """New and changed ones, the oldest change first."""
    gone: list[Any]
    """Keys."""


class Table(Generic[Key]):
    """The rows of one kind."""

    def __init__(self) -> None:
        self._rows: dict[Key, tuple[int, msgspec.Raw]] = {}
        """By key, the oldest change first."""
        self._gone: dict[Key, int] = {}
        """The version at which each row went, oldest first."""
        self._whole_since = 0
        """A page with an older version than this has missed rows that went and are forgotten."""

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: Key) -> bool:
        return key in self._rows

    def keys(self) -> list[Key]:
        """Every key."""
        return list(self._rows)

    def put(self, key: Key, row: Any, version: int) -> None:
        """A new or changed row."""
        self._rows.pop(key, None)
        self._gone.pop(key, None)
        self._rows[key] = (version, msgspec.Raw(msgspec.json.encode(row)))

    def remove(self, key: Key, version: int) -> None:
        """A row that is no more."""
        if self._rows.pop(key, None) is None:
            return
        self._gone[key] = version
        while len(self._gone) > MOST_GONE:
            self._whole_since = self._gone.pop(next(iter(self._gone)))

    def since(self, version: int) -> Changes:
        """The changes that a page with `version` lacks; version 0 has nothing."""
        if version < max(1, self._whole_since):
            return Changes(True, [raw for _, raw in self._rows.values()], [])
        rows = [raw for _, raw in _newer(version, reversed(self._rows.values()))]
        rows.reverse()
        gone = [key for key, at in takewhile(lambda each: each[1] > version, reversed(self._gone.items()))]
        return Changes(False, rows, gone)


def _newer(version: int, rows: Iterator[tuple[int, msgspec.Raw]]) -> Iterator[tuple[int, msgspec.Raw]]:
    return takewhile(lambda each: each[0] > version, rows)


class KeptRows(Generic[Key]):
    """Rows that are found whole in each round, and put into a table only where they have changed."""

    def __init__(self, table: Table[Key]) -> None:
        self._table = table
        self._rows: dict[Key, Any] = {}

    def put_all(self, rows: Mapping[Key, Any], version: int) -> None:
        """The table has these rows from now on, and no others."""
        for key in [each for each in self._rows if each not in rows]:
            self._table.remove(key, version)
        for key, row in rows.items():
            if self._rows.get(key) != row:
                self._table.put(key, row, version)
        self._rows = dict(rows)
