"""The contents of records of `__share_group_state`, and `applied`: the only way in which a state changes, while
requests are served and when the log is read.

Always true: a snapshot replaces what there is, an update is merged into it, and one that finds nothing stands for
itself. Leader epochs only grow, as long as there is a state. So memory is what a reading of the log would give.
"""

from typing import Final, NamedTuple

from msgspec import Struct

from eosin.coordinator.share_state.rules.batches import Batches, merged
from eosin.coordinator.share_states import UNKNOWN_COUNT, UNKNOWN_OFFSET

NO_EPOCH: Final = -1
"""An epoch that nobody has told, and that is not checked."""


class StateSnapshot(NamedTuple):
    """Kind 0: all of a state."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    created_ms: int
    written_ms: int
    batches: Batches


class StateUpdate(NamedTuple):
    """Kind 1: what has changed in a state."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Batches


Change = StateSnapshot | StateUpdate | None
"""A record; None is the tombstone of a state."""


class StoredState(Struct, frozen=True, gc=False):
    """All that is known of a share partition."""

    snapshot_epoch: int = 0
    """Number of its last snapshot."""
    state_epoch: int = 0
    leader_epoch: int = NO_EPOCH
    start_offset: int = UNKNOWN_OFFSET
    delivery_complete_count: int = UNKNOWN_COUNT
    created_ms: int = -1
    snapshot_ms: int = -1
    """The time of its last snapshot."""
    snapshot_offset: int = -1
    """The offset of its last snapshot: no record of it before that is needed. Without one, that of its first update."""
    updates: int = 0
    """Updates since its last snapshot."""
    batches: Batches = ()


def applied(before: StoredState | None, change: Change, *, offset: int) -> StoredState | None:
    """The state after a record at `offset`."""
    if isinstance(change, StateSnapshot):
        return StoredState(
            change.snapshot_epoch,
            change.state_epoch,
            change.leader_epoch if before is None else max(change.leader_epoch, before.leader_epoch),
            change.start_offset,
            change.delivery_complete_count,
            change.created_ms,
            change.written_ms,
            offset,
            0,
            merged((), change.batches, start_offset=change.start_offset),
        )
    if isinstance(change, StateUpdate):
        return _updated(before or StoredState(change.snapshot_epoch, snapshot_offset=offset), change)
    return None


def _updated(before: StoredState, update: StateUpdate) -> StoredState:
    start_offset = before.start_offset if update.start_offset == UNKNOWN_OFFSET else update.start_offset
    return StoredState(
        before.snapshot_epoch,
        before.state_epoch,
        max(update.leader_epoch, before.leader_epoch),
        start_offset,
        update.delivery_complete_count,
        before.created_ms,
        before.snapshot_ms,
        before.snapshot_offset,
        before.updates + 1,
        merged(before.batches, update.batches, start_offset=start_offset),
    )
