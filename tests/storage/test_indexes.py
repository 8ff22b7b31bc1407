"""The three indexes of a segment: rows, look-ups, files (storage.md section 8)."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eosin.lab.disk.lying_disk import LyingDisk
from eosin.storage.indexes.aborted import AbortedIndex, AbortedRow
from eosin.storage.indexes.offset_and_time import OffsetIndex, TimeIndex


def disk() -> LyingDisk:
    made = LyingDisk()
    made.make_directory("/p")
    return made


def stored(index: OffsetIndex | TimeIndex | AbortedIndex) -> None:
    write = index.write()
    write.run()
    index.mark_stored(write.rows)


def test_an_offset_index_row_is_a_relative_offset_and_a_position() -> None:
    on = disk()
    index = OffsetIndex(on, "/p/0.index")
    index.add(7, 4200)
    index.add(20, 9000)
    stored(index)
    assert on.read_whole("/p/0.index") == struct.pack(">iiii", 7, 4200, 20, 9000)


def test_a_time_index_row_is_a_timestamp_and_a_relative_offset() -> None:
    on = disk()
    index = TimeIndex(on, "/p/0.timeindex")
    index.add_if_later(1_700_000_000_000, 7)
    index.add_if_later(1_700_000_000_000, 9)
    index.add_if_later(1_700_000_000_001, 9)
    index.add_if_later(-1, 12)
    stored(index)
    assert on.read_whole("/p/0.timeindex") == struct.pack(">qiqi", 1_700_000_000_000, 7, 1_700_000_000_001, 9)


def test_a_transaction_index_row_has_34_bytes() -> None:
    on = disk()
    index = AbortedIndex(on, "/p/0.txnindex")
    index.add(AbortedRow(5, 10, 20, 21))
    stored(index)
    assert on.read_whole("/p/0.txnindex") == struct.pack(">hqqqq", 0, 5, 10, 20, 21)


def test_a_file_that_was_half_written_is_repaired_by_the_next_write() -> None:
    on = disk()
    index = OffsetIndex(on, "/p/0.index")
    index.add(1, 100)
    stored(index)
    on.add_bytes("/p/0.index", b"\1\2\3\4\5")
    index.add(2, 200)
    stored(index)
    assert on.read_whole("/p/0.index") == struct.pack(">iiii", 1, 100, 2, 200)
    on.add_bytes("/p/0.index", b"\1\2\3")
    assert OffsetIndex.load(on, "/p/0.index").count == 2


def test_rows_written_during_a_write_stay_for_the_next() -> None:
    on = disk()
    index = OffsetIndex(on, "/p/0.index")
    assert not index.is_stored
    index.add(1, 100)
    write = index.write()
    index.add(2, 200)
    write.run()
    index.mark_stored(write.rows)
    assert not index.is_stored
    assert index.count == 2
    stored(index)
    assert index.is_stored
    assert OffsetIndex.load(on, "/p/0.index").rows() == [(1, 100), (2, 200)]


@given(
    st.lists(st.integers(1, 9), max_size=40).map(lambda steps: [sum(steps[: n + 1]) for n in range(len(steps))]),
    st.integers(0, 40),
    st.booleans(),
)
def test_look_ups_agree_with_a_search_through_the_rows(keys: list[int], split: int, released: bool) -> None:
    on = disk()
    index = OffsetIndex(on, "/p/0.index")
    for key in keys[:split]:
        index.add(key, key * 10)
    stored(index)
    if released:
        index.release()
    for key in keys[split:]:
        index.add(key, key * 10)
    rows = [(key, key * 10) for key in keys]
    for key in range(0, (keys[-1] if keys else 0) + 3):
        assert index.floor(key) == max((row for row in rows if row[0] <= key), default=None)
        assert index.ceiling(key) == min((row for row in rows if row[0] >= key), default=None)
        assert index.floor_value(key * 10 + 5) == max((row for row in rows if row[1] <= key * 10 + 5), default=None)
        assert index.position_before(key) == max((row[1] for row in rows if row[0] <= key), default=0)
        assert index.boundary_before(key * 10) == max((row[1] for row in rows if row[1] <= key * 10), default=0)
    assert index.rows() == rows


@pytest.mark.parametrize("released", [True, False])
def test_rows_beyond_an_offset_are_dropped_from_memory_and_file(released: bool) -> None:
    on = disk()
    index = OffsetIndex(on, "/p/0.index")
    for key in range(1, 9):
        index.add(key, key * 100)
    stored(index)
    if released:
        index.release()
    index.add(9, 900)
    index.drop_from(5, 10_000)
    assert index.rows() == [(1, 100), (2, 200), (3, 300), (4, 400)]
    assert (index.last_key, index.last_value) == (4, 400)
    assert not index.is_stored
    index.add(6, 650)
    stored(index)
    assert OffsetIndex.load(on, "/p/0.index").rows() == [(1, 100), (2, 200), (3, 300), (4, 400), (6, 650)]


@pytest.mark.parametrize("rows", [[(0, 0)] * 4, [(5, 100), (3, 200)], [(5, 100), (6, 100)], [(-3, 100)]])
def test_rows_that_are_not_in_order_are_all_dropped(rows: list[tuple[int, int]]) -> None:
    on = disk()
    on.write_atomic("/p/0.index", b"".join(struct.pack(">ii", *row) for row in rows))
    index = OffsetIndex.load(on, "/p/0.index")
    index.drop_from(1000, 1000)
    assert index.rows() == []


def test_rows_that_point_beyond_the_log_are_dropped() -> None:
    index = OffsetIndex(disk(), "/p/0.index")
    index.add(1, 100)
    index.add(2, 200)
    index.drop_from(1000, 200)
    assert index.rows() == [(1, 100)]


def test_time_rows_beyond_an_offset_are_dropped() -> None:
    index = TimeIndex(disk(), "/p/0.timeindex")
    for offset, timestamp in ((3, 10), (3, 11), (8, 20)):
        index.add_if_later(timestamp, offset)
    index.drop_from(8)
    assert index.rows() == [(10, 3), (11, 3)]
    index.drop_from(0)
    assert (index.rows(), index.last_key) == ([], -1)


def test_aborted_transactions_are_collected_for_a_range() -> None:
    index = AbortedIndex(disk(), "/p/0.txnindex")
    index.add(AbortedRow(1, 0, 10, 5))
    index.add(AbortedRow(2, 5, 20, 15))
    index.add(AbortedRow(3, 15, 30, 31))

    def collect(first: int, end: int) -> tuple[list[int], bool]:
        found: list[AbortedRow] = []
        done = index.collect(first, end, found)
        return [row.producer_id for row in found], done

    assert collect(0, 5) == ([1], True)
    assert collect(0, 6) == ([1, 2], True)
    assert collect(11, 14) == ([2], True)
    assert collect(21, 22) == ([3], True)
    assert collect(21, 40) == ([3], False)
    assert collect(31, 40) == ([], False)


def test_aborted_transactions_can_be_released_loaded_and_dropped() -> None:
    on = disk()
    index = AbortedIndex(on, "/p/0.txnindex")
    rows = [AbortedRow(1, 0, 10, 11), AbortedRow(2, 12, 20, 21)]
    for row in rows:
        index.add(row)
    index.release()
    assert index.rows() == rows
    stored(index)
    index.release()
    on.add_bytes("/p/0.txnindex", b"half a row")
    loaded = AbortedIndex.load(on, "/p/0.txnindex")
    assert loaded.rows() == rows
    loaded.drop_from(20)
    stored(loaded)
    assert AbortedIndex.load(on, "/p/0.txnindex").rows() == rows[:1]


@given(st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1)), max_size=20))
def test_an_offset_index_is_read_as_a_whole_as_it_is_row_by_row(rows: list[tuple[int, int]]) -> None:
    on = disk()
    on.write_atomic("/p/0.index", b"".join(struct.pack(">ii", *row) for row in rows))
    assert OffsetIndex.load(on, "/p/0.index").rows() == rows
