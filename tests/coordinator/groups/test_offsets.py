"""Committed and pending offsets, and the rule of the record offset (groups.md 10)."""

import pytest

from eosin.coordinator.groups.rules.offset_store import CommittedOffset, OffsetStore
from eosin.protocol.names import TopicPartition

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def value(offset: int, at: int) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", 0, record_offset=at)


def visible(store: OffsetStore, partition: TopicPartition = P0, group_id: str = "g") -> int | None:
    committed = store.get(group_id, partition)
    return None if committed is None else committed.offset


def test_a_plain_commit_is_visible_at_once() -> None:
    store = OffsetStore()
    store.put("g", P0, value(7, at=0))
    assert visible(store) == 7
    assert visible(store, P1) is None
    assert visible(store, group_id="other") is None


def test_a_transactions_offset_is_invisible_until_it_commits() -> None:
    store = OffsetStore()
    store.put_pending(1, "g", P0, value(7, at=0))
    assert visible(store) is None
    assert store.is_pending("g", P0)
    assert not store.is_empty("g")
    store.complete(1, commit=True)
    assert visible(store) == 7
    assert not store.is_pending("g", P0)


def test_an_aborted_transaction_leaves_the_previous_value() -> None:
    store = OffsetStore()
    store.put("g", P0, value(3, at=0))
    store.put_pending(1, "g", P0, value(7, at=1))
    store.complete(1, commit=False)
    assert visible(store) == 3
    assert not store.is_pending("g", P0)


def test_a_plain_commit_between_the_transactions_offset_and_its_marker_wins() -> None:
    store = OffsetStore()
    store.put_pending(1, "g", P0, value(10, at=100))
    store.put("g", P0, value(20, at=101))
    store.complete(1, commit=True)
    assert visible(store) == 20


def test_the_later_record_of_two_transactions_wins_whichever_ends_first() -> None:
    for order in ((1, 2), (2, 1)):
        store = OffsetStore()
        store.put_pending(1, "g", P0, value(10, at=100))
        store.put_pending(2, "g", P0, value(20, at=101))
        for producer_id in order:
            store.complete(producer_id, commit=True)
        assert visible(store) == 20


def test_a_second_offset_of_one_transaction_replaces_the_first() -> None:
    store = OffsetStore()
    store.put_pending(1, "g", P0, value(10, at=0))
    store.put_pending(1, "g", P0, value(11, at=1))
    store.complete(1, commit=True)
    assert visible(store) == 11


def test_one_marker_completes_every_group_of_the_producer_and_no_other_producer() -> None:
    store = OffsetStore()
    store.put_pending(1, "g", P0, value(1, at=0))
    store.put_pending(1, "h", P0, value(2, at=1))
    store.put_pending(2, "g", P1, value(3, at=2))
    store.complete(1, commit=True)
    assert (visible(store), visible(store, group_id="h"), visible(store, P1)) == (1, 2, None)
    assert store.is_pending("g", P1)


def test_a_repeated_marker_changes_nothing() -> None:
    store = OffsetStore()
    store.put_pending(1, "g", P0, value(1, at=0))
    store.complete(1, commit=True)
    store.complete(1, commit=False)
    store.complete(99, commit=True)
    assert visible(store) == 1


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_brings_back_no_offset_that_a_tombstone_removed(commit: bool) -> None:
    store = OffsetStore()
    store.put("g", P0, value(1, at=0))
    store.put_pending(1, "g", P0, value(2, at=1))
    store.put_pending(2, "g", P0, value(3, at=2))
    store.remove("g", P0)
    for producer_id in (1, 2):
        store.complete(producer_id, commit=commit)
    assert visible(store) is None
    assert store.is_empty("g")


def test_a_tombstone_inside_of_a_transaction_takes_back_only_its_own_offset() -> None:
    store = OffsetStore()
    store.put_pending(1, "g", P0, value(2, at=1))
    store.put_pending(2, "g", P0, value(3, at=2))
    store.remove_pending(1, "g", P0)
    store.remove_pending(1, "g", P0)
    store.complete(1, commit=True)
    assert visible(store) is None
    assert store.is_pending("g", P0)


def test_partitions_and_groups_are_listed_once_each() -> None:
    store = OffsetStore()
    store.put("g", P0, value(1, at=0))
    store.put_pending(1, "g", P0, value(2, at=1))
    store.put_pending(1, "g", P1, value(2, at=2))
    store.put_pending(1, "h", P1, value(2, at=3))
    assert list(store.partitions("g")) == [P0, P1]
    assert list(store.group_ids()) == ["g", "h"]
    assert list(store.open_producers()) == [1]


def test_nothing_is_left_of_what_is_gone() -> None:
    store = OffsetStore()
    store.put("g", P0, value(1, at=0))
    store.put_pending(1, "g", P1, value(2, at=1))
    store.remove("g", P0)
    store.remove("g", P1)
    store.remove("g", P1)
    assert store.is_empty("g")
    assert not store.group_ids()
    assert not list(store.open_producers())
