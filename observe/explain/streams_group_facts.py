"""The facts of a streams group (KIP-1071) that its members' tasks make, whoever tells of these. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from eosin.client.streams_groups import TaskNames
from eosin.coordinator.groups.streams.assignors.tasks import Task
from eosin.coordinator.groups.streams.rules.group import StreamsGroup, StreamsMember
from eosin.observe.explain.facts import AwaitedPartition, StreamsFacts
from eosin.observe.recorder.events import ClientIdentity


class TaskHolder(NamedTuple):
    """A member, as far as its tasks go."""

    member_id: str
    who: ClientIdentity
    topology_epoch: int
    tasks: TaskNames
    target: TaskNames


def holders_of(group: StreamsGroup) -> list[TaskHolder]:
    """The members of a group, in order, with the names of their tasks. A member still has what it is to give up."""
    return [_holder(group, each) for each in group.members.values()]


def _holder(group: StreamsGroup, member: StreamsMember) -> TaskHolder:
    target, has, going = group.target(member.member_id), member.assigned, member.pending
    return TaskHolder(
        member.member_id,
        ClientIdentity(client_id=member.client_id, peer=member.client_host.lstrip("/")),
        member.topology_epoch,
        TaskNames(
            _names((*has.active, *going.active)),
            _names((*has.standby, *going.standby)),
            _names((*has.warmup, *going.warmup)),
        ),
        TaskNames(_names(target.active), _names(target.standby)),
    )


def _names(tasks: Iterable[Task]) -> tuple[str, ...]:
    return tuple(f"{each.subtopology_id}_{each.partition}" for each in sorted(tasks))


def streams_facts(
    members: Sequence[TaskHolder],
    *,
    topology_epoch: int,
    obstacle: str = "",
    is_delayed: bool = False,
    shutdown_by: str = "",
) -> StreamsFacts:
    """The facts of a group with these members; `obstacle` is why no tasks are dealt out."""
    return StreamsFacts(
        topology_epoch,
        obstacle,
        tuple(each.who for each in members if each.topology_epoch < topology_epoch),
        is_delayed,
        shutdown_by,
        sum(len(each.tasks.active) for each in members),
        sum(len(each.tasks.standby) for each in members),
        sum(len(each.tasks.warmup) for each in members),
    )


def awaited_tasks(members: Sequence[TaskHolder]) -> Iterator[AwaitedPartition]:
    """The active tasks that members are to have and have not got; those that another one has first."""
    holders = {task: each for each in members for task in each.tasks.active}
    found = [
        (member, task, holders.get(task))
        for member in members
        for task in member.target.active
        if holders.get(task) != member
    ]
    for member, task, holder in sorted(found, key=lambda each: (each[2] is None, each[1])):
        if holder is None:
            yield AwaitedPartition(f"task {task}", member.who)
        else:
            yield AwaitedPartition(f"task {task}", member.who, holder.who, holder.member_id)


def idle_members(members: Sequence[TaskHolder]) -> tuple[ClientIdentity, ...]:
    """The members that have no task, and are to have none, while others have some."""
    if all(each.target.are_none for each in members):
        return ()
    return tuple(each.who for each in members if each.tasks.are_none and each.target.are_none)
