"""A map that is only replaced: what a dict says, in the order of keys, and older values stay as they were."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from eosin.coordinator.groups.consumer.rules.sorted_map import MOST, SortedMap

KEYS = st.integers(0, 3 * MOST)
CHANGES = st.one_of(
    st.tuples(st.just("put"), KEYS, st.integers()),
    st.tuples(st.just("without"), KEYS),
    st.tuples(st.just("changed"), st.dictionaries(KEYS, st.integers(), max_size=2 * MOST), st.lists(KEYS)),
    st.tuples(st.just("changed"), st.just({}), st.just(list(range(2 * MOST)))),
)


def check(made: SortedMap[int, int], expected: dict[int, int]) -> None:
    keys = sorted(expected)
    assert list(made) == keys
    assert (list(made.items()), list(made.values())) == (
        [(key, expected[key]) for key in keys],
        [*map(expected.get, keys)],
    )
    assert made == expected
    assert (len(made), bool(made)) == (len(expected), bool(expected))
    assert [key in made for key in range(3 * MOST)] == [key in expected for key in range(3 * MOST)]
    assert [made.get(key, -1) for key in range(3 * MOST)] == [expected.get(key, -1) for key in range(3 * MOST)]
    assert all(len(chunk) <= MOST for chunk in made._chunks), "a chunk has grown"
    assert len(made._chunks) == 1 or all(made._chunks), "an empty chunk is left"


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(KEYS, st.integers()), st.lists(CHANGES, max_size=20))
def test_it_says_what_a_dict_says_and_so_does_every_older_one(
    begin: dict[int, int], changes: list[tuple[Any, ...]]
) -> None:
    made, expected = SortedMap.of(begin), dict(begin)
    older = [(made, dict(expected))]
    for kind, *fields in changes:
        match kind:
            case "put":
                made = made.put(*fields)
                expected[fields[0]] = fields[1]
            case "without":
                made = made.without(*fields)
                expected.pop(fields[0], None)
            case "changed":
                made = made.changed(*fields)
                expected = {key: value for key, value in expected.items() if key not in fields[1]} | fields[0]
        older.append((made, dict(expected)))
    for each, known in older:
        check(each, known)


def test_a_change_shares_all_but_one_chunk() -> None:
    before = SortedMap.of(dict.fromkeys(range(100 * MOST), 0))
    after = before.put(50, 1)
    others = [new for old, new in zip(before._chunks, after._chunks, strict=True) if new is not old]
    assert len(others) == 1


def test_what_has_no_entry_is_taken_away_at_no_cost() -> None:
    made = SortedMap.of({1: 1})
    assert made.without(2) is made
    assert made.changed({}) is made
