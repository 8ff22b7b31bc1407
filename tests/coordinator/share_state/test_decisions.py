"""What a request asks of a state (KIP-932; share-state.md 3)."""

import pytest
from share_state_fakes import ACKNOWLEDGED, AVAILABLE, batch

from eosin.coordinator.share_state.rules import decide
from eosin.coordinator.share_state.rules.config import ShareStateConfig
from eosin.coordinator.share_state.rules.decide import Decision
from eosin.coordinator.share_state.rules.records import StateSnapshot, StateUpdate, StoredState, applied
from eosin.coordinator.share_states import DeliveryState, ShareStateSummary, StateBatch
from eosin.protocol.errors import ErrorCode

NOW_MS = 1_700_000_000_000
CONFIG = ShareStateConfig(snapshot_update_records_per_snapshot=3)
NONE = ErrorCode.NONE


def after(state: StoredState | None, decision: Decision) -> StoredState | None:
    """The state when the records of a decision are written."""
    assert decision.error is NONE, decision.error.name
    for record in decision.records:
        state = applied(state, record, offset=7)
    return state


def initialized(*, state_epoch: int = 2, start_offset: int = -1) -> StoredState:
    begun = decide.initialize(None, state_epoch=state_epoch, start_offset=start_offset, now_ms=NOW_MS)
    state = after(None, begun)
    assert state is not None
    return state


def read(state: StoredState, leader_epoch: int) -> StoredState:
    result = after(state, decide.read(state, leader_epoch=leader_epoch))
    assert result is not None
    return result


def write(state: StoredState | None, *batches: StateBatch, **changed: int) -> Decision:
    asked = {"state_epoch": 2, "leader_epoch": 5, "start_offset": -1, "delivery_complete_count": -1} | changed
    return decide.write(state, batches, now_ms=NOW_MS, config=CONFIG, **asked)


def written(state: StoredState, *batches: StateBatch, **changed: int) -> StoredState:
    result = after(state, write(state, *batches, **changed))
    assert result is not None
    return result


def test_a_state_begins_with_a_snapshot_of_nothing() -> None:
    decision = decide.initialize(None, state_epoch=2, start_offset=-1, now_ms=NOW_MS)
    assert decision.records == (StateSnapshot(0, 2, 0, -1, -1, NOW_MS, NOW_MS, ()),)


def test_a_state_begins_anew_and_an_older_epoch_does_not_begin_it() -> None:
    state = written(read(initialized(), 5), batch(0, 9), start_offset=4)
    assert decide.initialize(state, state_epoch=1, start_offset=-1, now_ms=NOW_MS) == Decision(
        ErrorCode.FENCED_STATE_EPOCH
    )
    anew = after(state, decide.initialize(state, state_epoch=3, start_offset=100, now_ms=NOW_MS))
    assert anew is not None
    assert (anew.state_epoch, anew.start_offset, anew.batches, anew.snapshot_epoch) == (3, 100, (), 1)


def test_a_state_that_begins_anew_still_fences_older_leaders() -> None:
    state = read(initialized(), 5)
    anew = after(state, decide.initialize(state, state_epoch=3, start_offset=100, now_ms=NOW_MS))
    assert anew is not None
    assert write(anew, leader_epoch=4, state_epoch=3).error is ErrorCode.FENCED_LEADER_EPOCH


def test_an_offset_that_a_state_begins_at_is_of_the_log_of_the_leader_of_then() -> None:
    for state in (None, read(initialized(), 5)):
        begun = decide.initialize(state, state_epoch=3, start_offset=100, leader_epoch=7, now_ms=NOW_MS)
        assert decide.summary_of(after(state, begun)).leader_epoch == 7
        begun = decide.initialize(state, state_epoch=3, start_offset=-1, leader_epoch=7, now_ms=NOW_MS)
        assert decide.summary_of(after(state, begun)).leader_epoch == (0 if state is None else 5)


def test_of_a_state_that_begins_at_an_offset_nothing_is_complete_beyond_it() -> None:
    assert decide.summary_of(initialized(start_offset=100)) == ShareStateSummary(2, 0, 100, 0)


def test_the_same_initialization_again_undoes_nothing() -> None:
    state = written(read(initialized(), 5), batch(0, 9))
    assert decide.initialize(state, state_epoch=2, start_offset=-1, now_ms=NOW_MS) == decide.NOTHING_TO_DO
    moved = after(state, decide.initialize(state, state_epoch=2, start_offset=3, now_ms=NOW_MS))
    assert moved is not None
    assert (moved.start_offset, moved.batches) == (3, ())


@pytest.mark.parametrize("leader_epoch", [-1, 5])
def test_a_read_of_the_same_leader_writes_nothing(leader_epoch: int) -> None:
    assert decide.read(read(initialized(), 5), leader_epoch=leader_epoch) == decide.NOTHING_TO_DO


def test_a_read_of_a_new_leader_fences_the_older_one_and_changes_nothing_else() -> None:
    state = written(read(initialized(), 5), batch(3, 9), start_offset=3, delivery_complete_count=4)
    newer = read(state, 6)
    assert (newer.batches, newer.start_offset, newer.delivery_complete_count) == (state.batches, 3, 4)
    assert decide.read(newer, leader_epoch=5).error is ErrorCode.FENCED_LEADER_EPOCH
    assert write(newer, batch(0, 1), leader_epoch=5).error is ErrorCode.FENCED_LEADER_EPOCH


def test_what_was_never_initialized_is_neither_read_nor_written() -> None:
    assert decide.read(None, leader_epoch=0).error is ErrorCode.INVALID_REQUEST
    assert write(None, batch(0, 1)).error is ErrorCode.INVALID_REQUEST


def test_a_write_for_another_state_is_refused() -> None:
    assert write(initialized(), state_epoch=1).error is ErrorCode.FENCED_STATE_EPOCH
    assert write(initialized(), state_epoch=3).error is ErrorCode.FENCED_STATE_EPOCH, "its group was deleted since"
    assert write(initialized(), state_epoch=-1, leader_epoch=-1).error is NONE


@pytest.mark.parametrize(
    "wrong",
    [batch(5, 4), batch(-1, 4), batch(0, 4, count=-1), batch(0, 4, count=1 << 15)],
)
def test_batches_that_make_no_sense_are_refused(wrong: StateBatch) -> None:
    assert write(initialized(), batch(0, 1), wrong).error is ErrorCode.INVALID_REQUEST


def test_start_offsets_that_make_no_sense_are_refused() -> None:
    assert write(initialized(), start_offset=-2).error is ErrorCode.INVALID_REQUEST
    assert decide.initialize(None, state_epoch=0, start_offset=-2, now_ms=0).error is ErrorCode.INVALID_REQUEST


def test_a_state_of_more_batches_than_one_record_holds_is_refused() -> None:
    many = tuple(batch(2 * index, 2 * index) for index in range(decide.MAX_BATCHES // 2))
    state = written(initialized(), *many)
    assert write(state, *many[: len(many) // 2]).error is NONE
    assert write(state, *many[: len(many) // 2 + 1]).error is ErrorCode.INVALID_REQUEST


def test_locks_are_not_kept_and_what_is_archiving_stays_so() -> None:
    decision = write(initialized(), batch(0, 1, DeliveryState.ACQUIRED), batch(2, 3, DeliveryState.ARCHIVING))
    (update,) = decision.records
    assert isinstance(update, StateUpdate)
    assert update.batches == (batch(0, 1, AVAILABLE), batch(2, 3, DeliveryState.ARCHIVING))


def test_every_so_many_updates_all_of_a_state_is_written() -> None:
    state = read(initialized(), 5)  # an update, too
    kinds = []
    for index in range(8):
        decision = write(state, batch(2 * index, 2 * index), start_offset=index)
        kinds += map(type, decision.records)
        state = written(state, batch(2 * index, 2 * index), start_offset=index)
    assert kinds == [
        StateUpdate,
        StateUpdate,
        StateSnapshot,
        StateUpdate,
        StateUpdate,
        StateUpdate,
        StateSnapshot,
        StateUpdate,
    ]
    assert state.batches == tuple(batch(2 * index, 2 * index) for index in range(4, 8))
    assert (state.snapshot_epoch, state.start_offset, state.leader_epoch, state.state_epoch) == (2, 7, 5, 2)


def test_a_snapshot_says_what_its_updates_said() -> None:
    state = written(read(initialized(), 5), batch(0, 9), batch(4, 6, ACKNOWLEDGED, 2), delivery_complete_count=3)
    again = applied(None, decide.snapshot(state, now_ms=NOW_MS + 1), offset=90)
    assert again is not None
    assert decide.state_of(again) == decide.state_of(state)
    assert decide.summary_of(again) == decide.summary_of(state)


@pytest.mark.parametrize(
    ("start_offset", "count", "start_after", "count_after"),
    [
        (20, 3, 20, 10),
        (20, 12, 20, 12),
        (20, -1, 20, 10),
        (19, 12, 20, 10),
        (-1, 12, 20, 10),
        (25, 4, 25, 4),
        (25, -1, 25, -1),
    ],
)
def test_a_write_that_comes_late_takes_back_neither_start_nor_count(
    start_offset: int, count: int, start_after: int, count_after: int
) -> None:
    state = written(initialized(), batch(20, 29), start_offset=20, delivery_complete_count=10)
    late = written(state, start_offset=start_offset, delivery_complete_count=count)
    assert decide.summary_of(late) == ShareStateSummary(2, 5, start_after, count_after)


def test_nothing_is_known_of_a_state_that_is_not_there() -> None:
    assert decide.summary_of(None).start_offset == -1
    assert decide.delete(None) == decide.NOTHING_TO_DO
    assert decide.delete(initialized()).records == (None,)
