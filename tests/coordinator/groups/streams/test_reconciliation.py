"""A member of a streams group on its way to its target (streams-groups.md 6)."""

from msgspec.structs import replace

from eosin.coordinator.groups.streams.assignors.tasks import MemberTasks, Task
from eosin.coordinator.groups.streams.rules.group import (
    HeldTasks,
    StreamsGroup,
    StreamsMember,
    StreamsMemberState,
    with_member,
)
from eosin.coordinator.groups.streams.rules.reconciliation import OwnedTasks, reconciled

A, B, C = (Task("0", number) for number in range(3))
NOTHING = OwnedTasks()


def member(name: str, process: str, *active: Task, standby: tuple[Task, ...] = ()) -> StreamsMember:
    """A member at epoch 1 that has come to its target."""
    held = HeldTasks(dict.fromkeys(active, 1), frozenset(standby))
    return StreamsMember(name, process_id=process, epoch=1, previous_epoch=1, assigned=held)


def group_of(*members: StreamsMember) -> StreamsGroup:
    group = StreamsGroup("g")
    for each in members:
        group = with_member(group, each)
    return group


def step(
    group: StreamsGroup, name: str, *active: Task, standby: tuple[Task, ...] = (), owned: OwnedTasks | None = None
) -> StreamsMember:
    """The next step of a member to this target, whose epoch is 2."""
    return reconciled(
        group.members[name],
        target=MemberTasks(frozenset(active), frozenset(standby)),
        target_epoch=2,
        owned=owned,
        owners=group.owners,
        copies=group.copies,
    )


def test_free_tasks_are_given_at_once_with_the_epoch_of_the_target() -> None:
    after = step(group_of(member("m", "p", A)), "m", A, B, standby=(C,))
    assert (after.epoch, after.previous_epoch, after.state) == (2, 1, StreamsMemberState.STABLE)
    assert after.assigned == HeldTasks({A: 1, B: 2}, frozenset({C}))


def test_a_task_that_is_gone_is_revoked_before_the_epoch_moves() -> None:
    group = group_of(member("m", "p", A, B))
    first = step(group, "m", A)
    assert (first.epoch, first.state) == (1, StreamsMemberState.UNREVOKED_TASKS)
    assert (first.assigned.active, first.pending.active) == ({A: 1}, {B: 1})
    waiting = with_member(group, first)
    assert step(waiting, "m", A, owned=OwnedTasks(frozenset({A, B}))) is first
    assert step(waiting, "m", A) is first, "it has not said what it has"
    after = step(waiting, "m", A, owned=OwnedTasks(frozenset({A})))
    assert (after.epoch, after.state, after.pending) == (2, StreamsMemberState.STABLE, HeldTasks())


def test_a_task_waits_until_its_former_member_has_revoked_it() -> None:
    old, new = member("old", "p", A), member("new", "q")
    group = group_of(old, new)
    waits = step(group, "new", A)
    assert (waits.epoch, waits.state, waits.assigned) == (2, StreamsMemberState.UNRELEASED_TASKS, HeldTasks())
    group = with_member(with_member(group, waits), step(group, "old"))
    assert step(group, "new", A) is waits, "the old one is to revoke it, and has not said that it did"
    group = with_member(group, step(group, "old", owned=NOTHING))
    after = step(group, "new", A)
    assert (after.state, after.assigned.active) == (StreamsMemberState.STABLE, {A: 2})


def test_a_member_of_the_same_process_waits_as_well() -> None:
    group = group_of(member("old", "p", A), member("new", "p"))
    assert step(group, "new", A).state is StreamsMemberState.UNRELEASED_TASKS


def test_a_copy_in_the_process_keeps_a_task_from_running_and_one_elsewhere_does_not() -> None:
    group = group_of(member("keeper", "p", standby=(A,)), member("m", "p"), member("other", "q"))
    assert step(group, "m", A).state is StreamsMemberState.UNRELEASED_TASKS
    assert step(group, "other", A).assigned.active == {A: 2}


def test_a_copy_waits_for_its_own_process_alone() -> None:
    group = group_of(member("owner", "p", A), member("beside", "p"), member("other", "q"))
    assert step(group, "beside", standby=(A,)).state is StreamsMemberState.UNRELEASED_TASKS
    assert step(group, "other", standby=(A,)).assigned.standby == {A}


def test_a_copy_becomes_the_running_task_after_it_was_closed() -> None:
    group = group_of(member("m", "p", standby=(A,)))
    closing = step(group, "m", A)
    assert (closing.state, closing.pending.standby) == (StreamsMemberState.UNREVOKED_TASKS, {A})
    after = step(with_member(group, closing), "m", A, owned=NOTHING)
    assert (after.state, after.assigned) == (StreamsMemberState.STABLE, HeldTasks({A: 2}))


def test_a_running_task_becomes_a_copy_after_it_was_closed() -> None:
    group = group_of(member("m", "p", A))
    closing = step(group, "m", standby=(A,))
    after = step(with_member(group, closing), "m", standby=(A,), owned=NOTHING)
    assert (after.state, after.assigned) == (StreamsMemberState.STABLE, HeldTasks({}, frozenset({A})))


def test_a_member_at_its_target_stays_the_same_object() -> None:
    group = group_of(replace(member("m", "p", A), epoch=2))
    assert step(group, "m", A) is group.members["m"]


def test_warm_ups_of_another_brokers_log_are_revoked() -> None:
    warming = replace(member("m", "p"), assigned=HeldTasks({}, frozenset(), frozenset({A})))
    after = step(group_of(warming), "m", A)
    assert (after.state, after.pending.warmup) == (StreamsMemberState.UNREVOKED_TASKS, {A})
