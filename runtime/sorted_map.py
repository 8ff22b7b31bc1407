"""A map that never changes, sorted by key, of which a changed copy costs what has changed.

The image of a cluster holds tens of thousands of partitions, and a new image follows every batch of the metadata log; a
consumer group has 10,000 members, and another group follows every decision: a copied `dict` would cost all of it each
time. This is a B+ tree whose nodes are shared between copies; an
`Editor` copies the nodes on the way to what it changes, each at most once.

Always true: a `SortedMap` shows the same entries for ever, so that it can be read across an await and by any thread;
iteration is in the order of the keys. Keys of one map must be comparable with each other.
"""

from bisect import bisect_left, bisect_right
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import Any, Final, Generic, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")
Key = Any
"""A key inside the tree, where `K` need not say that it can be compared."""

_MOST: Final = 64
"""Entries of a node, children as well; a node that has more is split in two."""
_NOBODY: Final = object()
_NOTHING: Final[Any] = object()


class _Leaf:
    """Keys in ascending order, and the value of each."""

    __slots__ = ("keys", "owner", "values")

    def __init__(self, keys: list[Key], values: list[Any], owner: object) -> None:
        self.keys = keys
        self.values = values
        self.owner = owner
        """The editor that may change this node in place; no other may."""


class _Branch:
    """At least one child; `keys[i]` is not above any key of `children[i]`, and above all of those before it."""

    __slots__ = ("children", "keys", "owner")

    def __init__(self, keys: list[Key], children: "list[_Node]", owner: object) -> None:
        self.keys = keys
        self.children = children
        self.owner = owner

    def index_of(self, key: Key) -> int:
        """The child under which `key` belongs."""
        return max(bisect_right(self.keys, key) - 1, 0)


_Node = _Leaf | _Branch


class SortedMap(Mapping[K, V], Generic[K, V]):
    """An immutable mapping in the order of its keys."""

    __slots__ = ("_root", "_size")

    def __init__(self, entries: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        ordered: list[tuple[Key, V]] = sorted(dict(entries).items(), key=_key_of)
        nodes: list[_Node] = [
            _Leaf([key for key, _ in part], [value for _, value in part], _NOBODY)
            for part in _parts(ordered, _MOST // 2)
        ] or [_Leaf([], [], _NOBODY)]
        while len(nodes) > 1:
            nodes = [_Branch([node.keys[0] for node in part], part, _NOBODY) for part in _parts(nodes, _MOST // 2)]
        self._root: _Node = nodes[0]
        self._size = len(ordered)

    def edit(self) -> "Editor[K, V]":
        """Begin a changed copy."""
        return Editor(self)

    def put(self, key: K, value: V) -> "SortedMap[K, V]":
        """The map with an entry that is new, or in the place of the one of its key."""
        editor = Editor(self)
        editor[key] = value
        return editor.frozen()

    def without(self, key: K) -> "SortedMap[K, V]":
        """The map without an entry; the same if it has none."""
        return self.changed({}, (key,))

    def changed(self, put: Mapping[K, V], gone: Iterable[K] = ()) -> "SortedMap[K, V]":
        """The map without the entries of some keys, and then with others; the same if that is nothing."""
        editor = Editor(self)
        for key in gone:
            if key in self:
                del editor[key]
        for key, value in put.items():
            editor[key] = value
        return editor.frozen()

    @overload
    def get(self, key: K, /) -> V | None: ...

    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...

    def get(self, key: K, /, default: V | D | None = None) -> V | D | None:
        """The value of a key; `default` if there is none."""
        value: V | D | None = _value(self._root, key, default)
        return value

    def __contains__(self, key: Any) -> bool:
        return _value(self._root, key, _NOTHING) is not _NOTHING

    def __getitem__(self, key: K) -> V:
        value: V = _value(self._root, key, _NOTHING)
        if value is _NOTHING:
            raise KeyError(key)
        return value

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        return _keys(self._root)

    def items(self) -> ItemsView[K, V]:
        return _Items(self)

    def values(self) -> ValuesView[V]:
        return _Values(self)

    def parts(self) -> list[object]:
        """The parts of a map of more entries than one part has, of some entries each, for whoever lets go of it: to do
        that at once takes long. A part lives as long as any map has it, so nobody sees a map that lacks one."""
        return [] if isinstance(self._root, _Leaf) else list(_leaves(self._root))

    def __repr__(self) -> str:
        return f"SortedMap({dict(self)!r})"


class Editor(Generic[K, V]):
    """A copy in the making. The map it began with stays as it is."""

    __slots__ = ("_owner", "_root", "_size", "_unchanged")

    def __init__(self, unchanged: SortedMap[K, V]) -> None:
        self._unchanged: SortedMap[K, V] | None = unchanged
        """The map that has exactly the entries of now, if there is one."""
        self._root = unchanged._root
        self._size = len(unchanged)
        self._owner = object()

    def get(self, key: K) -> V | None:
        """The value of `key` as it is now, or None."""
        value: V | None = _value(self._root, key, None)
        return value

    def __setitem__(self, key: K, value: V) -> None:
        path = self._own(key)
        leaf = path[-1]
        assert isinstance(leaf, _Leaf)
        index = bisect_left(leaf.keys, key)
        if index < len(leaf.keys) and leaf.keys[index] == key:
            leaf.values[index] = value
            return
        leaf.keys.insert(index, key)
        leaf.values.insert(index, value)
        self._size += 1
        self._split(path)

    def __delitem__(self, key: K) -> None:
        """Remove `key`. Raises KeyError when it is not there."""
        path = self._own(key)
        leaf = path[-1]
        assert isinstance(leaf, _Leaf)
        index = bisect_left(leaf.keys, key)
        if index == len(leaf.keys) or leaf.keys[index] != key:
            raise KeyError(key)
        del leaf.keys[index], leaf.values[index]
        self._size -= 1
        self._prune(path)

    def frozen(self) -> SortedMap[K, V]:
        """The map as it is now. The editor may go on; what it changes then is copied again."""
        if self._unchanged is None:
            frozen: SortedMap[K, V] = SortedMap.__new__(SortedMap)
            frozen._root = self._root
            frozen._size = self._size
            self._unchanged = frozen
            self._owner = object()
        return self._unchanged

    def _own(self, key: Key) -> list[_Node]:
        """The nodes from the root to the leaf of `key`, all of them this editor's to change."""
        self._unchanged = None
        node = self._root = self._owned(self._root)
        path = [node]
        while isinstance(node, _Branch):
            if key < node.keys[0]:
                node.keys[0] = key
            index = node.index_of(key)
            child = node.children[index] = self._owned(node.children[index])
            node = child
            path.append(node)
        return path

    def _owned(self, node: _Node) -> _Node:
        if node.owner is self._owner:
            return node
        if isinstance(node, _Leaf):
            return _Leaf(node.keys.copy(), node.values.copy(), self._owner)
        return _Branch(node.keys.copy(), node.children.copy(), self._owner)

    def _split(self, path: list[_Node]) -> None:
        """Split the nodes of `path` that have grown too large, from the leaf up."""
        while path:
            node = path.pop()
            if len(node.keys) <= _MOST:
                return
            half = len(node.keys) // 2
            right: _Node
            if isinstance(node, _Leaf):
                right = _Leaf(node.keys[half:], node.values[half:], self._owner)
                del node.values[half:]
            else:
                right = _Branch(node.keys[half:], node.children[half:], self._owner)
                del node.children[half:]
            del node.keys[half:]
            if not path:
                self._root = _Branch([node.keys[0], right.keys[0]], [node, right], self._owner)
                return
            parent = path[-1]
            assert isinstance(parent, _Branch)
            index = parent.index_of(right.keys[0]) + 1
            parent.keys.insert(index, right.keys[0])
            parent.children.insert(index, right)

    def _prune(self, path: list[_Node]) -> None:
        """Take nodes of `path` out that have nothing left, from the leaf up."""
        while len(path) > 1 and not path[-1].keys:
            empty = path.pop()
            parent = path[-1]
            assert isinstance(parent, _Branch)
            index = next(number for number, child in enumerate(parent.children) if child is empty)
            del parent.keys[index], parent.children[index]
        if not self._root.keys:
            self._root = _Leaf([], [], self._owner)
        while isinstance(self._root, _Branch) and len(self._root.children) == 1:
            self._root = self._root.children[0]


class _Items(ItemsView[K, V]):
    """The entries, without a search for each."""

    _mapping: SortedMap[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        for leaf in _leaves(self._mapping._root):
            yield from zip(leaf.keys, leaf.values, strict=True)


class _Values(ValuesView[V]):
    """The values, without a search for each."""

    _mapping: SortedMap[Any, V]

    def __iter__(self) -> Iterator[V]:
        for leaf in _leaves(self._mapping._root):
            yield from leaf.values


def _value(node: _Node, key: Key, default: Any) -> Any:
    while isinstance(node, _Branch):  # as `index_of`, without its call
        node = node.children[max(bisect_right(node.keys, key) - 1, 0)]
    index = bisect_left(node.keys, key)
    if index < len(node.keys) and node.keys[index] == key:
        return node.values[index]
    return default


def _keys(node: _Node) -> Iterator[Any]:
    for leaf in _leaves(node):
        yield from leaf.keys


def _leaves(node: _Node) -> Iterator[_Leaf]:
    if isinstance(node, _Leaf):
        yield node
    else:
        for child in node.children:
            yield from _leaves(child)


def _key_of(entry: tuple[Key, Any]) -> Key:
    return entry[0]


T = TypeVar("T")


def _parts(items: list[T], size: int) -> Iterator[list[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


EMPTY: Final[SortedMap[Any, Any]] = SortedMap()
"""The map without entries, of which one is enough."""
