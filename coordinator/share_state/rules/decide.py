"""The decisions of the share coordinator (KIP-932): what each request asks of a state, as an error or as records.

Nothing here changes anything: `applied` does, once a record is in the log. Checks are made in Kafka's order.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from eosin.coordinator.share_state.rules.batches import Batches, merged
from eosin.coordinator.share_state.rules.config import ShareStateConfig
from eosin.coordinator.share_state.rules.records import NO_EPOCH, Change, StateSnapshot, StateUpdate, StoredState
from eosin.coordinator.share_states import (
    UNKNOWN_COUNT,
    UNKNOWN_OFFSET,
    DeliveryState,
    ShareState,
    ShareStateSummary,
    StateBatch,
)
from eosin.protocol.errors import ErrorCode

_MAX_COUNT: Final = (1 << 15) - 1
_INT_MAX: Final = (1 << 31) - 1

FIRST_LEADER_EPOCH: Final = 0
"""The leader epoch of a state that no leader has read."""

MAX_BATCHES: Final = 40_000
"""Batches of one state: four times the widest window, and a snapshot of them fits into one record (760 KB)."""


class Decision(NamedTuple):
    """The outcome of a request."""

    error: ErrorCode = ErrorCode.NONE
    records: tuple[Change, ...] = ()
    """To be written, in this order, before the answer."""


NOTHING_TO_DO: Final = Decision()
_INVALID: Final = Decision(ErrorCode.INVALID_REQUEST)


def initialize(
    state: StoredState | None,
    *,
    state_epoch: int,
    start_offset: int,
    now_ms: int,
    leader_epoch: int = NO_EPOCH,
    is_broken: bool = False,
) -> Decision:
    """Begin a state anew. With the epoch that the state has already, and without an offset, this is a request that came
    twice: to begin anew would undo what leaders have written since. `leader_epoch` is that of the share partition's
    leader now: of its log the offset speaks. `is_broken`: there was a state, which cannot be read."""
    if start_offset < UNKNOWN_OFFSET:
        return _INVALID
    count, of_leader = (UNKNOWN_COUNT, NO_EPOCH) if start_offset == UNKNOWN_OFFSET else (0, leader_epoch)
    if state is None:
        first = max(of_leader, FIRST_LEADER_EPOCH)
        made = StateSnapshot(0, state_epoch, first, start_offset, count, now_ms, now_ms, ())
        return Decision(records=(None, made) if is_broken else (made,))
    if NO_EPOCH != state_epoch < state.state_epoch:
        return Decision(ErrorCode.FENCED_STATE_EPOCH)
    epoch = max(state_epoch, state.state_epoch)
    if epoch == state.state_epoch and start_offset == UNKNOWN_OFFSET:
        return NOTHING_TO_DO
    newest = max(of_leader, state.leader_epoch)
    begun = StateSnapshot(_after(state.snapshot_epoch), epoch, newest, start_offset, count, now_ms, now_ms, ())
    return Decision(records=(begun,))


def read(state: StoredState | None, *, leader_epoch: int, confirms: bool = False) -> Decision:
    """Let a leader read a state. A new leader epoch is written first: it fences what older leaders still write. With
    `confirms` the present one is written, too: a coordinator that was deposed, and has not heard so, cannot."""
    if state is None:
        return _INVALID
    if NO_EPOCH != leader_epoch < state.leader_epoch:
        return Decision(ErrorCode.FENCED_LEADER_EPOCH)
    epoch = max(leader_epoch, state.leader_epoch)
    if epoch == state.leader_epoch and not confirms:
        return NOTHING_TO_DO
    update = StateUpdate(state.snapshot_epoch, epoch, state.start_offset, state.delivery_complete_count, ())
    return Decision(records=(update,))


def write(
    state: StoredState | None,
    batches: Sequence[StateBatch],
    *,
    state_epoch: int,
    leader_epoch: int,
    start_offset: int,
    delivery_complete_count: int,
    now_ms: int,
    config: ShareStateConfig,
) -> Decision:
    """Merge batches into a state. Its start offset never goes back, and for one start offset the count of complete
    deliveries only grows: so it does not matter which of two writes comes late. Now and then all of a state is written,
    so that older records can go."""
    if state is None or start_offset < UNKNOWN_OFFSET or not all(map(_is_valid, batches)):
        return _INVALID
    if NO_EPOCH != leader_epoch < state.leader_epoch:
        return Decision(ErrorCode.FENCED_LEADER_EPOCH)
    if state_epoch not in (NO_EPOCH, state.state_epoch):  # a higher one is of a state that was deleted
        return Decision(ErrorCode.FENCED_STATE_EPOCH)
    if len(state.batches) + 2 * len(batches) > MAX_BATCHES:
        return _INVALID
    update = StateUpdate(
        state.snapshot_epoch,
        max(leader_epoch, state.leader_epoch),
        max(start_offset, state.start_offset),
        _complete_count(state, start_offset, delivery_complete_count),
        tuple(map(_kept, batches)),
    )
    if state.updates < config.snapshot_update_records_per_snapshot:
        return Decision(records=(update,))
    return Decision(records=(_snapshot_with(state, update, now_ms=now_ms),))


def delete(state: StoredState | None, *, is_broken: bool = False) -> Decision:
    """Forget a state. `is_broken`: there is one, which cannot be read."""
    return NOTHING_TO_DO if state is None and not is_broken else Decision(records=(None,))


def snapshot(state: StoredState, *, now_ms: int) -> StateSnapshot:
    """All of a state as a record."""
    return StateSnapshot(
        _after(state.snapshot_epoch),
        state.state_epoch,
        state.leader_epoch,
        state.start_offset,
        state.delivery_complete_count,
        state.created_ms,
        now_ms,
        state.batches,
    )


def state_of(state: StoredState) -> ShareState:
    """The state as a leader gets it."""
    return ShareState(state.state_epoch, state.start_offset, state.batches)


def summary_of(state: StoredState | None) -> ShareStateSummary:
    """The summary of a state that may not be there."""
    if state is None:
        return ShareStateSummary(0, 0, UNKNOWN_OFFSET, UNKNOWN_COUNT)
    return ShareStateSummary(state.state_epoch, state.leader_epoch, state.start_offset, state.delivery_complete_count)


def _complete_count(state: StoredState, start_offset: int, count: int) -> int:
    if start_offset < state.start_offset:
        return state.delivery_complete_count
    return count if start_offset > state.start_offset else max(count, state.delivery_complete_count)


def _snapshot_with(state: StoredState, update: StateUpdate, *, now_ms: int) -> StateSnapshot:
    batches: Batches = merged(state.batches, update.batches, start_offset=update.start_offset)
    return StateSnapshot(
        _after(state.snapshot_epoch),
        state.state_epoch,
        update.leader_epoch,
        update.start_offset,
        update.delivery_complete_count,
        state.created_ms,
        now_ms,
        batches,
    )


def _after(snapshot_epoch: int) -> int:
    return min(snapshot_epoch + 1, _INT_MAX)


def _is_valid(batch: StateBatch) -> bool:
    return 0 <= batch.first <= batch.last and 0 <= batch.delivery_count <= _MAX_COUNT


def _kept(batch: StateBatch) -> StateBatch:
    """A batch as it is kept: nobody who takes over knows of locks. What is archiving stays so: whoever takes over
    writes its dead letters (KIP-1191)."""
    return batch._replace(state=DeliveryState.AVAILABLE) if batch.state is DeliveryState.ACQUIRED else batch
