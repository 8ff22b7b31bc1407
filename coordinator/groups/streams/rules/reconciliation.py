"""`reconciled`: the next step of a member on its way to its target (streams-groups.md 6). Pure.

As with partitions, a member first revokes what is not in its target, at its old epoch. Then it comes to the target's
epoch, and gets what is free; the rest follows when others have revoked it. A task is free to run when nobody runs it
and no other member of the process has its state open; a copy is kept when no other member of the process has the task.
"""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from eosin.coordinator.groups.streams.assignors.tasks import MemberTasks, Task, Tasks
from eosin.coordinator.groups.streams.rules.group import (
    NOTHING_HELD,
    HeldTasks,
    Owner,
    ProcessTask,
    StreamsMember,
    StreamsMemberState,
)


class OwnedTasks(NamedTuple):
    """The tasks that a member says it has, by role."""

    active: Tasks = frozenset()
    standby: Tasks = frozenset()
    warmup: Tasks = frozenset()

    def has_none_of(self, held: HeldTasks) -> bool:
        """True if the member has each of these no longer, in the role that it had it in."""
        return (
            self.active.isdisjoint(held.active)
            and self.standby.isdisjoint(held.standby)
            and self.warmup.isdisjoint(held.warmup)
        )


def reconciled(
    member: StreamsMember,
    *,
    target: MemberTasks,
    target_epoch: int,
    owned: OwnedTasks | None,
    owners: Mapping[Task, Owner],
    copies: Mapping[ProcessTask, int],
) -> StreamsMember:
    """The member after a heartbeat, the same object if nothing has changed. `owned`: what it says that it has; None if
    it does not say. `owners` and `copies`: what everybody in the group has, itself too."""
    match member.state:
        case StreamsMemberState.STABLE if member.epoch == target_epoch:
            return member
        case StreamsMemberState.UNREVOKED_TASKS if owned is None or not owned.has_none_of(member.pending):
            return member
    held = member.assigned
    keep = HeldTasks(
        {task: epoch for task, epoch in held.active.items() if task in target.active}, held.standby & target.standby
    )
    revoke = HeldTasks(
        {task: epoch for task, epoch in held.active.items() if task not in target.active},
        held.standby - target.standby,
        held.warmup,
    )
    if not revoke.is_empty and (owned is None or not owned.has_none_of(revoke)):
        return _to(member, StreamsMemberState.UNREVOKED_TASKS, member.epoch, keep, revoke)
    house = _House(member, owners, copies)
    run = [task for task in target.active if task not in keep.active]
    free = [task for task in run if house.may_run(task)]
    copy = target.standby - keep.standby
    room = frozenset(task for task in copy if house.may_keep(task))
    is_done = len(free) == len(run) and len(room) == len(copy)
    state = StreamsMemberState.STABLE if is_done else StreamsMemberState.UNRELEASED_TASKS
    assigned = HeldTasks({**keep.active, **dict.fromkeys(sorted(free), target_epoch)}, keep.standby | room)
    if (member.epoch, member.state, member.assigned) == (target_epoch, state, assigned):
        return member
    return _to(member, state, target_epoch, assigned, NOTHING_HELD)


def _to(
    member: StreamsMember, state: StreamsMemberState, epoch: int, assigned: HeldTasks, pending: HeldTasks
) -> StreamsMember:
    """The member after a step. The epoch before its present one is good no longer, as with consumer groups."""
    return replace(member, epoch=epoch, previous_epoch=member.epoch, state=state, assigned=assigned, pending=pending)


class _House:
    """The tasks of others, as the member sees them: of its process, and of the group."""

    __slots__ = ("_copies", "_member", "_mine", "_owners")

    def __init__(self, member: StreamsMember, owners: Mapping[Task, Owner], copies: Mapping[ProcessTask, int]) -> None:
        self._member = member
        self._owners = owners
        self._copies = copies
        self._mine = frozenset(member.kept())

    def may_run(self, task: Task) -> bool:
        """True if nobody else runs the task, and no other member of the process keeps a copy of its state."""
        owner = self._owners.get(task)
        return (owner is None or owner.member_id == self._member.member_id) and not self._is_kept_beside(task)

    def may_keep(self, task: Task) -> bool:
        """True if no other member of the process has the task."""
        owner = self._owners.get(task)
        is_run_beside = (
            owner is not None
            and owner.member_id != self._member.member_id
            and owner.process_id == self._member.process_id
        )
        return not is_run_beside and not self._is_kept_beside(task)

    def _is_kept_beside(self, task: Task) -> bool:
        count = self._copies.get(ProcessTask(self._member.process_id, task), 0)
        return count > (task in self._mine)
