"""Batches of updates merge into one state, whatever their order (KIP-932; share-state.md 3)."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from share_state_fakes import ACKNOWLEDGED, ARCHIVED, AVAILABLE, batch

from eosin.coordinator.share_state.rules.batches import Batches, merged
from eosin.coordinator.share_states import StateBatch

OFFSETS = 30

some_batch = st.builds(
    lambda first, length, state, count: StateBatch(first, first + length, state, count),
    st.integers(0, OFFSETS),
    st.integers(0, 8),
    st.sampled_from([AVAILABLE, ACKNOWLEDGED, ARCHIVED]),
    st.integers(1, 3),
)
some_batches = st.lists(some_batch, max_size=8)
some_start = st.integers(-1, OFFSETS + 10)


def by_offset(*updates: Sequence[StateBatch], start_offset: int) -> dict[int, tuple[int, int]]:
    """What counts for each offset, found the slow way."""
    found: dict[int, tuple[int, int]] = {}
    for update in updates:
        for each in update:
            for offset in range(max(each.first, start_offset), each.last + 1):
                found[offset] = max(found.get(offset, (0, 0)), (each.delivery_count, each.state))
    return found


def offsets_of(batches: Batches) -> dict[int, tuple[int, int]]:
    """The same of a result."""
    return {
        offset: (each.delivery_count, each.state) for each in batches for offset in range(each.first, each.last + 1)
    }


@given(some_batches, some_batches, some_start)
def test_of_batches_over_one_offset_the_highest_counts(
    stored: list[StateBatch], update: list[StateBatch], start_offset: int
) -> None:
    result = merged(merged((), stored, start_offset=-1), update, start_offset=start_offset)
    assert offsets_of(result) == by_offset(stored, update, start_offset=start_offset)


@given(some_batches, some_batches, some_start)
def test_a_result_is_in_order_and_as_short_as_it_can_be(
    stored: list[StateBatch], update: list[StateBatch], start_offset: int
) -> None:
    result = merged(merged((), stored, start_offset=-1), update, start_offset=start_offset)
    for one, other in pairwise(result):
        assert one.last < other.first
        if one.last + 1 == other.first:
            assert (one.state, one.delivery_count) != (other.state, other.delivery_count)


@given(some_batches, some_batches, some_start)
def test_an_update_that_comes_twice_changes_nothing_more(
    stored: list[StateBatch], update: list[StateBatch], start_offset: int
) -> None:
    once = merged(merged((), stored, start_offset=-1), update, start_offset=start_offset)
    assert merged(once, update, start_offset=start_offset) == once


@given(st.lists(some_batches, max_size=4), some_start, st.randoms())
def test_the_order_of_updates_does_not_matter(updates: list[list[StateBatch]], start_offset: int, random) -> None:  # type: ignore[no-untyped-def]
    def outcome(order: Sequence[list[StateBatch]]) -> Batches:
        state: Batches = ()
        for update in order:
            state = merged(state, update, start_offset=start_offset)
        return state

    shuffled = list(updates)
    random.shuffle(shuffled)
    assert outcome(shuffled) == outcome(updates)


@given(some_batches, some_batch, st.integers(0, OFFSETS))
def test_a_release_never_undoes_an_acknowledgement_of_the_same_delivery(
    stored: list[StateBatch], release: StateBatch, offset: int
) -> None:
    acknowledged = merged(merged((), stored, start_offset=-1), [batch(offset, offset, count=3)], start_offset=-1)
    released = merged(acknowledged, [release._replace(state=AVAILABLE)], start_offset=-1)
    assert offsets_of(released)[offset] == offsets_of(acknowledged)[offset]


def test_batches_before_the_start_offset_go_and_one_around_it_is_cut() -> None:
    stored = merged((), [batch(0, 4), batch(5, 9, ARCHIVED), batch(12, 14)], start_offset=-1)
    assert merged(stored, [], start_offset=7) == (batch(7, 9, ARCHIVED), batch(12, 14))
    assert merged(stored, [batch(0, 3, AVAILABLE, 3)], start_offset=15) == ()


def test_neighbours_that_are_alike_become_one() -> None:
    stored = merged((), [batch(0, 4), batch(6, 9)], start_offset=-1)
    assert merged(stored, [batch(5, 5)], start_offset=-1) == (batch(0, 9),)
    assert merged(stored, [batch(5, 5, count=2)], start_offset=-1) == (batch(0, 4), batch(5, 5, count=2), batch(6, 9))


def test_a_batch_amid_another_one_splits_it() -> None:
    stored = merged((), [batch(0, 9, AVAILABLE)], start_offset=-1)
    assert merged(stored, [batch(4, 5)], start_offset=-1) == (
        batch(0, 3, AVAILABLE),
        batch(4, 5),
        batch(6, 9, AVAILABLE),
    )
