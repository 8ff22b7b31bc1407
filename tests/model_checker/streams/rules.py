"""What must be true of every state, and how it is said that it is not."""

from collections import Counter
from typing import Final

from eosin.coordinator.groups.streams.assignors.tasks import Task
from eosin.coordinator.groups.streams.rules import commits
from eosin.coordinator.groups.streams.rules.group import (
    STATIC_LEAVE_EPOCH,
    ProcessTask,
    StreamsGroup,
    StreamsGroupState,
    StreamsMemberState,
)
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from model_checker.membership.rules import COMMON, EPOCHS, LAST_VERSION, check_replayed
from model_checker.membership.values import member_id
from model_checker.streams.coordinating import durable_part, stored
from model_checker.streams.values import COUNTED, READ, TOPOLOGIES, State
from model_checker.violation import Violation

ONE_RUNNER: Final = "a task is active at one member"
ONE_COMMITTER: Final = "a task has one member whose commits count"
OWN_TASKS: Final = "what a member runs is its own"
ONE_HOLDER: Final = "a process has the state of a task once"
ONE_TOPOLOGY: Final = "nobody runs a newer topology than the group's"
COMES_TO_REST: Final = "in the end every task runs, where it is to run"

RULES: Final = {
    ONE_RUNNER: "no two members have a task as active, assigned or to be revoked, and the owners are what members say",
    OWN_TASKS: "each task that a member runs is assigned to it or to be revoked, unless a late copy of a request has"
    " come, or the member was removed and has not heard of it",
    ONE_COMMITTER: "of all who run a task at most one could commit an offset of it now, by its epoch",
    ONE_HOLDER: "no two members of a process have a task, in whatever role",
    ONE_TOPOLOGY: "a member with another topology than the group's has an older one, and was told so",
    **COMMON,
    COMES_TO_REST: "from every state, without new faults, the group gets stable: each member that lives has its target,"
    " runs that and nothing else, and no task is left out; or topics are missing, and nothing runs",
}

_SOURCES: Final = {"0": READ, "1": COUNTED}


def check(state: State) -> None:
    """Raises Violation."""
    group = state.coordinator.group
    _check_owners(group)
    _check_processes(group)
    if not state.is_confused:
        _check_runners(state)
    _check_committers(state)
    for name, member in group.members.items():
        if group.topology is None or member.topology_epoch > group.topology.epoch:
            raise Violation(ONE_TOPOLOGY, f"{name} is at {member.topology_epoch}, the group at {group.topology}")
    kept = stored(state.coordinator)
    check_replayed(kept and durable_part(kept), durable_part(group), is_stored=group.is_stored)


def _check_owners(group: StreamsGroup) -> None:
    owners: dict[Task, str] = {}
    for name, member in group.members.items():
        if member.pending.is_empty is (member.state is StreamsMemberState.UNREVOKED_TASKS):
            raise Violation(ONE_RUNNER, f"{name} is {member.state.name} and is to revoke {member.pending}")
        if not member.epoch <= group.assignment_epoch <= group.epoch:
            raise Violation(EPOCHS, f"{name} is at {member.epoch}, the group at {group.assignment_epoch}")
        for task, epoch in (*member.assigned.active.items(), *member.pending.active.items()):
            if task in owners:
                raise Violation(ONE_RUNNER, f"{task} is that of {owners[task]} and of {name}")
            if epoch > member.epoch and member.epoch != STATIC_LEAVE_EPOCH:
                raise Violation(EPOCHS, f"{name} has {task} since {epoch}, and is at {member.epoch}")
            owners[task] = name
    known = {task: owner.member_id for task, owner in group.owners.items()}
    if owners != known:
        raise Violation(ONE_RUNNER, f"the members have {owners}, the group {known}")


def _check_processes(group: StreamsGroup) -> None:
    copies = Counter(ProcessTask(each.process_id, task) for each in group.members.values() for task in each.kept())
    if dict(copies) != dict(group.copies):
        raise Violation(ONE_HOLDER, f"the members keep {copies}, the group {group.copies}")
    holders: dict[ProcessTask, str] = {}
    for name, member in group.members.items():
        for task in {*member.active(), *member.kept()}:
            other = holders.setdefault(ProcessTask(member.process_id, task), name)
            if other != name:
                raise Violation(ONE_HOLDER, f"{other} and {name} are of one process, and have {task}")


def _check_runners(state: State) -> None:
    for index, member in enumerate(state.members):
        known = state.coordinator.group.members.get(member_id(index, member))
        if known is None or member.epoch == 0:
            continue
        others = member.owned.active.difference(known.active())
        if others:
            raise Violation(OWN_TASKS, f"{known.member_id} runs {sorted(others)}, and has {sorted(known.active())}")


def _check_committers(state: State) -> None:
    committers: dict[Task, str] = {}
    for index, member in enumerate(state.members):
        name = member_id(index, member)
        for task in member.owned.active:
            error = commits.commit(
                state.coordinator.group,
                member_id=name,
                member_epoch=member.epoch,
                partitions=(TopicPartition(_SOURCES[task.subtopology_id], task.partition),),
                api_version=LAST_VERSION,
                transactional=False,
            )
            if error is not ErrorCode.NONE:
                continue
            if task in committers:
                raise Violation(ONE_COMMITTER, f"{committers[task]} and {name} may commit {task}")
            committers[task] = name


def unfinished(state: State) -> Violation | None:
    """The reason why a group that comes to rest so is not as it should be."""
    group = state.coordinator.group
    alive = {member_id(index, each): each for index, each in enumerate(state.members) if not each.is_gone}
    is_ready = group.topology is not None and all(
        source != READ or state.topics[0].partitions
        for each in group.topology.subtopologies
        for source in each.source_topics
    )
    good = StreamsGroupState.STABLE if is_ready else StreamsGroupState.NOT_READY
    if group.state not in (good, StreamsGroupState.EMPTY):
        return Violation(COMES_TO_REST, f"the group is {group.state.value}: {group.members}")
    for name, member in alive.items():
        known = group.members.get(name)
        if known is None:
            if group.members and group.topology not in (None, TOPOLOGIES[member.topology]):
                continue  # it runs another topology than others, who go on
            return Violation(COMES_TO_REST, f"{name} is no member")
        if member.epoch != known.epoch or member.owned != known.assigned.without_epochs():
            return Violation(COMES_TO_REST, f"{name} has {member.owned}, and is to have {known.assigned}")
        if known.assigned.without_epochs() != group.target(name):
            return Violation(COMES_TO_REST, f"{name} has {known.assigned}, of {group.target(name)}")
    ghosts = [name for name in group.members if name not in alive]
    if ghosts:
        return Violation(COMES_TO_REST, f"{ghosts} stay members for ever")
    configured = group.configured
    wanted = set()
    if group.members and configured is not None:
        wanted = {Task(name, n) for name, each in configured.subtopologies.items() for n in range(each.task_count)}
    if wanted != set(group.owners):
        return Violation(COMES_TO_REST, f"{sorted(group.owners)} run, of {sorted(wanted)}")
    return None
