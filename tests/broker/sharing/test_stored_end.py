"""How far a stored state counts for a log that was cut, and has perhaps grown again (share-partitions.md 2)."""

from types import SimpleNamespace

import pytest

from eosin.broker.sharing.rules.stored_end import kept_of, stored_end
from eosin.coordinator.share_states import DeliveryState, ShareState, ShareStateSummary, StateBatch
from eosin.storage.log.leader_epochs import LeaderEpochs

STATE = ShareState(1, 90, ())


def cut(*entries: tuple[int, int], leader_epoch: int, end: int) -> SimpleNamespace:
    """A log with these leader epochs, each from its offset on."""
    epochs = LeaderEpochs(list(entries))
    return SimpleNamespace(
        leader_epoch=leader_epoch,
        log_end_offset=end,
        end_of_epoch=lambda epoch: epochs.end_offset_for(epoch, end),
    )


def known(leader_epoch: int, *, state_epoch: int = 1, start: int = 90) -> ShareStateSummary:
    return ShareStateSummary(state_epoch, leader_epoch, start, 0)


@pytest.mark.parametrize(
    ("epoch", "end"),
    [(5, 200), (4, 80), (3, 80), (2, 50), (9, 200)],
    ids=["its own", "lost as a whole", "cut", "older", "later than its own"],
)
def test_a_state_counts_as_far_as_the_leader_epoch_reaches_in_which_it_was_changed_last(epoch: int, end: int) -> None:
    log = cut((2, 0), (3, 50), (5, 80), leader_epoch=5, end=200)
    assert stored_end(known(epoch), STATE, log) == end


def test_a_log_that_has_lost_everything_has_nothing_that_a_state_speaks_of() -> None:
    assert stored_end(known(4), STATE, cut((5, 0), leader_epoch=5, end=200)) == 0


def test_a_log_that_is_empty_in_its_new_epoch_ends_where_it_was_cut() -> None:
    assert stored_end(known(4), STATE, cut((3, 0), leader_epoch=5, end=40)) == 40


@pytest.mark.parametrize(
    ("before", "state"),
    [
        (known(0), STATE),
        (known(3, state_epoch=0), STATE),
        (known(3, start=80), STATE),
        (known(3, start=-1), ShareState(1, -1, ())),
    ],
    ids=["perhaps never read", "begun anew since", "moved since", "undecided"],
)
def test_of_a_state_that_is_not_the_work_of_a_known_leader_nothing_is_taken_back(
    before: ShareStateSummary, state: ShareState
) -> None:
    log = cut((0, 0), (3, 10), (5, 20), leader_epoch=5, end=200)
    assert stored_end(before, state, log) == 200


def test_batches_are_always_the_work_of_a_leader() -> None:
    state = ShareState(1, 90, (StateBatch(95, 99, DeliveryState.ACKNOWLEDGED, 1),))
    assert stored_end(known(0), state, cut((0, 0), (1, 93), leader_epoch=1, end=200)) == 93


def test_what_lies_below_the_cut_is_kept() -> None:
    done = DeliveryState.ACKNOWLEDGED
    state = ShareState(1, 10, (StateBatch(12, 15, done, 1), StateBatch(18, 30, done, 1), StateBatch(40, 50, done, 1)))
    kept, count = kept_of(state, 10, 20)
    assert kept == ShareState(1, 10, (StateBatch(12, 15, done, 1), StateBatch(18, 19, done, 1)))
    assert count == 6
    assert kept_of(state, 10, 5) == (ShareState(1, 5, ()), 0)
