"""Runs of one producer in several partitions are put together to the transactions that it made."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numpy")

from eosin.pipeline.audit.joining import join


def run(partition: int, begin_ms: int, marker_ms: int = -1, **fields: Any) -> dict[str, Any]:
    return {
        "topic": "t", "partition": partition, "producer_id": 1, "first_offset": 0, "last_offset": 4, "last_epoch": 0,
        "batches": 1, "records": 5, "bytes": 100, "begin_ms": begin_ms, "end_ms": begin_ms,
        "marker": 1 if marker_ms >= 0 else -1, "marker_offset": 5, "marker_ms": marker_ms,
        "marker_epoch": 0 if marker_ms >= 0 else -1, "coordinator_epoch": 3,
    } | fields  # fmt: skip


def partitions_of(runs: list[dict[str, Any]]) -> list[tuple[str, list[int]]]:
    return [(each["outcome"], [place["partition"] for place in each["partitions"]]) for each in join(runs)]


def test_partitions_of_one_transaction_are_one_row() -> None:
    (found,) = join([run(0, 10, 20), run(1, 15, 22)])
    assert (found["records"], found["bytes"], found["begin_ms"], found["end_ms"]) == (10, 200, 10, 22)
    assert (found["duration_ms"], found["coordinator_epoch"], found["outcome"]) == (12, 3, "committed")


def test_transactions_of_one_epoch_are_separated_by_time() -> None:
    runs = [run(1, 30, 40), run(0, 10, 20), run(0, 31, 41), run(2, 50, 60)]
    assert partitions_of(runs) == [("committed", [0]), ("committed", [0, 1]), ("committed", [2])]


def test_a_transaction_has_each_partition_once_even_if_the_next_follows_at_once() -> None:
    assert partitions_of([run(0, 10, 10), run(0, 10, 10, first_offset=6, marker_offset=11)]) == [("committed", [0])] * 2


def test_transactions_of_one_ms_are_separated_by_epoch_and_outcome() -> None:
    runs = [run(0, 10, 10), run(1, 10, 10, last_epoch=1, marker_epoch=1), run(2, 10, 10, marker=0)]
    assert sorted(partitions_of(runs)) == [("aborted", [2]), ("committed", [0]), ("committed", [1])]


def test_a_producer_clock_that_is_ahead_splits_no_transaction() -> None:
    assert partitions_of([run(0, 5000, 20), run(1, 5001, 22)]) == [("committed", [0, 1])]


def test_an_open_transaction_has_no_end() -> None:
    (ended, left_open) = join([run(0, 10, 20), run(0, 30, first_offset=6), run(1, 31, first_offset=6)])
    assert ended["outcome"] == "committed"
    assert (left_open["outcome"], left_open["end_ms"], left_open["duration_ms"]) == ("open", None, None)
    assert [place["marker_offset"] for place in left_open["partitions"]] == [None, None]


def test_a_marker_without_data_is_no_transaction() -> None:
    assert list(join([run(0, -1, 20, batches=0)])) == []


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, 4), min_size=1), st.integers(0, 9), st.integers(0, 3), st.integers(0, 1)),
        max_size=12,
    ),
    st.randoms(use_true_random=False),
)
def test_every_transaction_of_an_old_producer_is_found_again(
    made: list[tuple[set[int], int, int, int]], chance: Any
) -> None:
    runs, expected, now = [], [], 100
    for partitions, length, spread, commit in made:
        now += 1
        for partition in sorted(partitions):
            runs.append(run(partition, now + length // 2, now + length + chance.randint(0, spread), marker=commit))
        now += length + spread + 1
        expected.append(("committed" if commit else "aborted", sorted(partitions)))
    chance.shuffle(runs)
    assert partitions_of(runs) == expected
