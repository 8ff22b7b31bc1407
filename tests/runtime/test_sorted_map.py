"""The map that images and consumer groups are made of: immutable, sorted, and cheap to change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eosin.runtime.sorted_map import SortedMap

KEYS = st.integers(0, 400)
STEPS = st.tuples(st.dictionaries(KEYS, st.integers()), st.sets(KEYS)) | st.tuples(
    st.dictionaries(KEYS, st.integers(), max_size=1), st.sets(KEYS, max_size=1)
)
"""Keys that are put, and keys that go."""
CHANGES = st.lists(st.tuples(st.booleans(), st.integers(0, 400)), max_size=400)


@given(st.sets(st.integers(0, 400)), st.lists(CHANGES, max_size=4))
def test_edits_give_what_a_dict_gives_and_leave_every_older_map_alone(
    first: set[int], rounds: list[list[tuple[bool, int]]]
) -> None:
    wanted = dict.fromkeys(first, 0)
    made = SortedMap(wanted)
    history = [(made, dict(wanted))]
    for number, changes in enumerate(rounds, 1):
        editor = made.edit()
        for is_removal, key in changes:
            if not is_removal:
                editor[key] = wanted[key] = number
            elif key in wanted:
                del editor[key], wanted[key]
            assert editor.get(key) == wanted.get(key)
        made = editor.frozen()
        history.append((made, dict(wanted)))
    for each, entries in history:
        assert list(each.items()) == sorted(entries.items())
        assert list(each) == sorted(entries)
        assert list(each.values()) == [entries[key] for key in sorted(entries)]
        assert len(each) == len(entries)
        assert all(each[key] == value for key, value in entries.items())
        assert each == entries


@given(st.dictionaries(KEYS, st.integers()), st.lists(STEPS, max_size=20))
def test_single_changes_give_what_a_dict_gives_and_leave_every_older_map_alone(
    first: dict[int, int], steps: list[tuple[dict[int, int], set[int]]]
) -> None:
    made, wanted = SortedMap(first), dict(first)
    history = [(made, dict(wanted))]
    for put, gone in steps:
        if (len(put), len(gone)) == (1, 0):
            ((key, value),) = put.items()
            made = made.put(key, value)
        elif (len(put), len(gone)) == (0, 1):
            made = made.without(*gone)
        else:
            made = made.changed(put, gone)
        wanted = {key: value for key, value in wanted.items() if key not in gone} | put
        history.append((made, dict(wanted)))
    for each, entries in history:
        assert list(each.items()) == sorted(entries.items())
        assert len(each) == len(entries)
        assert [each.get(key, -1) for key in range(401)] == [entries.get(key, -1) for key in range(401)]
        assert [key in each for key in range(401)] == [key in entries for key in range(401)]


def test_what_has_no_entry_is_taken_away_at_no_cost() -> None:
    made = SortedMap({1: 1})
    assert made.without(2) is made
    assert made.changed({}) is made


@given(st.lists(st.integers(), unique=True, min_size=1, max_size=300))
def test_keys_may_come_in_any_order(keys: list[int]) -> None:
    editor = SortedMap[int, int]().edit()
    for key in keys:
        editor[key] = -key
    assert list(editor.frozen()) == sorted(keys)
    for key in keys[1:]:
        del editor[key]
    assert dict(editor.frozen()) == {keys[0]: -keys[0]}


def test_a_key_that_is_not_there_raises_key_error() -> None:
    editor = SortedMap({"a": 1}).edit()
    with pytest.raises(KeyError):
        del editor["b"]
    with pytest.raises(KeyError):
        editor.frozen()["b"]
    assert editor.frozen().get("b") is None
    assert "b" not in editor.frozen()


def test_an_editor_goes_on_after_its_map_was_taken() -> None:
    editor = SortedMap({1: "a"}).edit()
    editor[2] = "b"
    taken = editor.frozen()
    assert editor.frozen() is taken
    editor[3] = "c"
    assert dict(taken) == {1: "a", 2: "b"}
    assert dict(editor.frozen()) == {1: "a", 2: "b", 3: "c"}


def test_a_change_copies_the_nodes_on_its_way_alone() -> None:
    before = SortedMap({number: number for number in range(100_000)})
    editor = before.edit()
    editor[50_000] = -1
    shared = nodes(before) & nodes(editor.frozen())
    assert len(nodes(before)) - len(shared) <= 5


def nodes(of: SortedMap[int, int]) -> set[int]:
    found, left = set(), [of._root]
    while left:
        node = left.pop()
        found.add(id(node))
        left += getattr(node, "children", [])
    return found
