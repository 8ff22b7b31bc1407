"""What a page of the console is told: the changes that it has missed, however long it slept (console.md 5.1)."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from eosin.observe.console.tables import MOST_GONE, Table


class Row(msgspec.Struct, frozen=True):
    key: int
    value: int


def applied(page: dict[int, int], table: "Table[int]", version: int) -> None:
    """What the page's own `apply` does with the changes since a version."""
    changes = table.since(version)
    if changes.is_reset:
        page.clear()
    for key in changes.gone:
        page.pop(key, None)
    for raw in changes.rows:
        row = msgspec.json.decode(raw, type=Row)
        page[row.key] = row.value


def test_a_new_page_gets_every_row_and_forgets_what_it_had() -> None:
    table: Table[int] = Table()
    table.put(1, Row(1, 10), 1)
    table.put(2, Row(2, 20), 1)
    page = {9: 9}
    applied(page, table, 0)
    assert page == {1: 10, 2: 20}


def test_a_page_that_has_everything_is_told_nothing() -> None:
    table: Table[int] = Table()
    table.put(1, Row(1, 10), 1)
    assert table.since(1) == (False, [], [])


def test_of_a_row_that_changed_often_a_slow_page_gets_the_last_state_alone() -> None:
    table: Table[int] = Table()
    for version in range(1, 100):
        table.put(1, Row(1, version), version)
    assert [bytes(raw) for raw in table.since(1).rows] == [b'{"key":1,"value":99}']


def test_a_row_that_went_and_came_back_is_there() -> None:
    table: Table[int] = Table()
    table.put(1, Row(1, 10), 1)
    table.remove(1, 2)
    assert table.since(1).gone == [1]
    table.put(1, Row(1, 30), 3)
    page = {1: 10}
    applied(page, table, 1)
    assert page == {1: 30}


def test_a_page_that_has_missed_more_than_is_remembered_begins_anew() -> None:
    table: Table[int] = Table()
    for key in range(MOST_GONE + 2):
        table.put(key, Row(key, 0), 1)
    for key in range(MOST_GONE + 1):
        table.remove(key, key + 2)
    assert table.since(1).is_reset
    assert not table.since(2).is_reset
    assert len(table.since(2).gone) == MOST_GONE


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.booleans()), max_size=60),
    st.sets(st.integers(0, 60)),
)
def test_a_page_that_looks_now_and_then_has_the_rows_of_now(
    changes: list[tuple[int, int, bool]], looks: set[int]
) -> None:
    table: Table[int] = Table()
    truth: dict[int, int] = {}
    page: dict[int, int] = {}
    seen = 0
    for version, (key, value, is_there) in enumerate(changes, start=1):
        if is_there:
            table.put(key, Row(key, value), version)
            truth[key] = value
        else:
            table.remove(key, version)
            truth.pop(key, None)
        if version in looks:
            applied(page, table, seen)
            seen = version
            assert page == truth
