"""`SortedMap`: a map that is never changed, only replaced, in the order of its keys.

A group of 10,000 members is one value, of which each decision makes the next, so a copy must not cost more than what
changes. The entries are in chunks by ranges of keys; the next map has new chunks where something has changed, and
shares the others. Always true: the keys of a chunk are not below its bound, and below the next one; a chunk has at most
`MOST` entries. A search is one bisection and one look into a dict; a change copies a chunk and the list of chunks.
"""

from bisect import bisect_right
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from itertools import chain
from typing import Any, Final, Protocol, TypeVar, overload

MOST: Final = 64
"""Entries of one chunk: one of more is cut in two. Smaller ones make the list of them longer, which is copied too."""


class Ordered(Protocol):
    """A key: it has an order, and a hash."""

    def __lt__(self, other: Any, /) -> bool: ...

    def __hash__(self) -> int: ...


_K = TypeVar("_K", bound=Ordered)
_V = TypeVar("_V")
_D = TypeVar("_D")


class SortedMap(Mapping[_K, _V]):
    """A map. `SortedMap()` is the empty one, `SortedMap.of` one of many entries."""

    __slots__ = ("_bounds", "_chunks", "_count")

    def __init__(
        self, chunks: tuple[dict[_K, _V], ...] = ({},), bounds: tuple[_K, ...] = (), count: int | None = None
    ) -> None:
        """For this module alone. `bounds` are those of all chunks but the first, which has none."""
        self._chunks = chunks
        self._bounds = bounds
        self._count = sum(map(len, chunks)) if count is None else count

    @staticmethod
    def of(entries: Mapping[_K, _V]) -> "SortedMap[_K, _V]":
        """A map with these entries."""
        keys = sorted(entries)
        starts = range(0, len(keys), MOST // 2) or range(1)
        parts = [keys[start : start + MOST // 2] for start in starts]
        chunks = tuple({key: entries[key] for key in part} for part in parts)
        return SortedMap(chunks, tuple(part[0] for part in parts[1:]), len(keys))

    # The map that follows

    def put(self, key: _K, value: _V) -> "SortedMap[_K, _V]":
        """The map with an entry that is new, or in the place of the one of the same key."""
        place = bisect_right(self._bounds, key)
        before = self._chunks[place]
        chunk = before.copy()
        chunk[key] = value
        if len(chunk) > MOST:
            return self._with({place: chunk})
        chunks = (*self._chunks[:place], chunk, *self._chunks[place + 1 :])
        return SortedMap(chunks, self._bounds, self._count + len(chunk) - len(before))

    def without(self, key: _K) -> "SortedMap[_K, _V]":
        """The map without an entry; the same if it has none."""
        return self.changed({}, (key,)) if key in self else self

    def changed(self, put: Mapping[_K, _V], gone: Iterable[_K] = ()) -> "SortedMap[_K, _V]":
        """The map without the entries of some keys, and then with others."""
        chunks: dict[int, dict[_K, _V]] = {}
        for key in gone:
            self._copied(key, chunks).pop(key, None)
        for key, value in put.items():
            self._copied(key, chunks)[key] = value
        return self._with(chunks) if chunks else self

    def _copied(self, key: _K, chunks: dict[int, dict[_K, _V]]) -> dict[_K, _V]:
        """The chunk of a key among those that change."""
        place = bisect_right(self._bounds, key)
        chunk = chunks.get(place)
        if chunk is None:
            chunk = chunks[place] = self._chunks[place].copy()
        return chunk

    def _with(self, changed: Mapping[int, dict[_K, _V]]) -> "SortedMap[_K, _V]":
        """The map with other chunks in these places."""
        count = self._count
        for place, chunk in changed.items():
            count += len(chunk) - len(self._chunks[place])
        chunks, bounds = list(self._chunks), self._bounds
        for place in sorted(changed, reverse=True):
            chunk = changed[place]
            if len(chunk) > MOST:
                parts = SortedMap.of(chunk)
                chunks[place : place + 1] = parts._chunks
                bounds = (*bounds[:place], *parts._bounds, *bounds[place:])
            elif chunk or len(chunks) == 1:
                chunks[place] = chunk
            else:
                del chunks[place]
                cut = max(place - 1, 0)  # of the first chunk goes the bound of the second
                bounds = (*bounds[:cut], *bounds[cut + 1 :])
        return SortedMap(tuple(chunks), bounds, count)

    # The map itself

    def __getitem__(self, key: _K) -> _V:
        return self._chunks[bisect_right(self._bounds, key)][key]

    @overload
    def get(self, key: _K, /) -> _V | None: ...

    @overload
    def get(self, key: _K, /, default: _V | _D) -> _V | _D: ...

    def get(self, key: _K, /, default: _V | _D | None = None) -> _V | _D | None:
        """The value of a key; `default` if there is none."""
        return self._chunks[bisect_right(self._bounds, key)].get(key, default)

    def __contains__(self, key: Any) -> bool:
        return key in self._chunks[bisect_right(self._bounds, key)]

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[_K]:
        return chain.from_iterable(map(sorted, self._chunks))

    def values(self) -> ValuesView[_V]:
        """The values in the order of their keys."""
        return _Values(self)

    def items(self) -> ItemsView[_K, _V]:
        """The entries in the order of their keys."""
        return _Items(self)

    def entries(self) -> Iterator[tuple[_K, _V]]:
        """The entries in the order of their keys, faster than by looking up each."""
        for chunk in self._chunks:
            for key in sorted(chunk):
                yield key, chunk[key]

    def __repr__(self) -> str:
        return f"SortedMap.of({dict(self.entries())!r})"


class _Items(ItemsView[_K, _V]):
    _mapping: SortedMap[_K, _V]

    def __iter__(self) -> Iterator[tuple[_K, _V]]:
        return self._mapping.entries()


class _Values(ValuesView[_V]):
    _mapping: SortedMap[Any, _V]

    def __iter__(self) -> Iterator[_V]:
        return (value for _, value in self._mapping.entries())
