"""`decide`: what happens to a group. Pure: the same group, event and time always give the same answer.

Every event goes through here; the steps are in the modules named beside them. The rules of the machine:

* An effect is carried out before the next one starts, so the record of a generation is in the log before anything that
  was decided later. `Persist` ends in `GroupAppended` or `GroupAppendFailed`, and those ask again whether the group is
  still where the write found it: a rebalance may have overtaken it.
* Every request gets exactly one answer. A request that is replaced by a newer one of the same member is answered too.
* A member's session does not run out while one of its requests waits for us; each answer restarts its session.
* A timer belongs to the generation in which it was started; one that fires in another is ignored. (All but the timer of
  a handed-out id, which is in no generation yet.)
"""

from typing import assert_never

from eosin.coordinator.groups.rules import conversion, join_group, leave_group, rebalance, sync_group
from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.coordinator.groups.rules.decision import GroupDecision
from eosin.coordinator.groups.rules.effects import Effect
from eosin.coordinator.groups.rules.events import (
    AssignmentStored,
    BecameClassic,
    Converted,
    DeleteFailed,
    Deleting,
    EmptyStored,
    Event,
    GroupAppended,
    GroupAppendFailed,
    GroupLoaded,
    Join,
    Leave,
    Rebalance,
    ReplacementStored,
    Sync,
    TimerFired,
    TimerKind,
    Unloaded,
)
from eosin.coordinator.groups.rules.group import Group, GroupState
from eosin.coordinator.groups.rules.write_errors import of_group_record


def decide(group: Group, event: Event, *, now_ms: int, config: GroupConfig) -> tuple[Group, tuple[Effect, ...]]:
    """The group that follows, and what must be done, in order."""
    decision = GroupDecision(group, now_ms=now_ms, config=config)
    _apply(decision, event)
    return decision.group, tuple(decision.effects)


def _apply(decision: GroupDecision, event: Event) -> None:
    match event:
        case Join():
            join_group.join(decision, event)
        case Sync():
            sync_group.sync(decision, event)
        case Leave():
            leave_group.leave(decision, event)
        case TimerFired():
            _timer_fired(decision, event)
        case GroupAppended():
            _appended(decision, event)
        case GroupAppendFailed():
            _append_failed(decision, event)
        case GroupLoaded():
            leave_group.loaded(decision)
        case Unloaded():
            leave_group.unloaded(decision)
        case BecameClassic():
            conversion.became_classic(decision, event)
        case Converted():
            conversion.converted(decision)
        case Rebalance():
            rebalance.start_again(decision)
        case Deleting():
            leave_group.deleting(decision)
        case DeleteFailed():
            leave_group.delete_failed(decision)
        case _:
            assert_never(event)


def _timer_fired(decision: GroupDecision, event: TimerFired) -> None:
    kind, member_id = event.timer
    stale = event.generation_id != decision.group.generation_id and kind is not TimerKind.PENDING
    if stale or decision.group.state is GroupState.DEAD:
        return
    match kind:
        case TimerKind.SESSION:
            leave_group.session_expired(decision, member_id)
        case TimerKind.PENDING:
            join_group.pending_expired(decision, member_id)
        case TimerKind.JOIN:
            rebalance.join_timer_fired(decision)
        case TimerKind.SYNC:
            sync_group.sync_timer_fired(decision)
        case _:
            assert_never(kind)


def _appended(decision: GroupDecision, event: GroupAppended) -> None:
    match event.what:
        case AssignmentStored():
            sync_group.assignment_stored(decision, event.what)
        case ReplacementStored():
            join_group.replacement_stored(decision, event.what)
        case EmptyStored():
            pass  # no request waits for it
        case _:
            assert_never(event.what)


def _append_failed(decision: GroupDecision, event: GroupAppendFailed) -> None:
    error = of_group_record(event.error)
    match event.what:
        case AssignmentStored():
            sync_group.assignment_failed(decision, event.what, error)
        case ReplacementStored():
            join_group.replacement_failed(decision, event.what, error)
        case EmptyStored():
            pass  # the group is empty all the same; the log's owner has reported the failure
        case _:
            assert_never(event.what)
