"""The target of a streams group: when the next one is computed, and what of it is new (streams-groups.md 5)."""

from collections.abc import Iterator

from eosin.coordinator.groups.consumer.rules.targets import MOST_AT_ONCE, PART, in_pieces, is_due, weight_of
from eosin.coordinator.groups.streams.assignors import sticky
from eosin.coordinator.groups.streams.assignors.tasks import NO_TASKS, MemberTasks, TaskCount, TaskMember
from eosin.coordinator.groups.streams.rules.decision import StreamsDecision
from eosin.coordinator.groups.streams.rules.events import StreamsTargetsComputed
from eosin.coordinator.groups.streams.rules.group import StreamsGroup
from eosin.coordinator.steps import InSteps, finished

__all__ = ["MOST_AT_ONCE", "compute_target", "computed", "target_in_steps", "task_counts"]


def task_counts(group: StreamsGroup) -> dict[str, TaskCount]:
    """The tasks of the group by subtopology; none while topics are missing."""
    if group.configured is None:
        return {}
    return {name: TaskCount(each.task_count, each.is_stateful) for name, each in group.configured.subtopologies.items()}


def compute_target(decision: StreamsDecision) -> None:
    """Bring the target to the group epoch if it is behind and its time has come, or ask for it if that takes long."""
    group, config = decision.group, decision.config
    if decision.is_computing or group.is_delayed or group.configured is None:
        return
    if not is_due(group, interval_ms=config.assignment_interval_ms, now_ms=decision.now_ms):
        return
    tasks = sum(each.tasks for each in task_counts(group).values()) * (1 + config.num_standby_replicas)
    if len(group.members) * weight_of(group.group_id) + tasks > decision.most_at_once:
        decision.wants_target = True
        return
    for part in finished(target_in_steps(group, standby_replicas=config.num_standby_replicas)):
        computed(decision, part)


def target_in_steps(
    group: StreamsGroup, *, standby_replicas: int, size: int = PART
) -> InSteps[Iterator[StreamsTargetsComputed]]:
    """Compute the target of a group, each of its members in it: in steps of at most about a millisecond, and in parts
    whose records are quickly written."""
    members = [TaskMember(member.member_id, member.process_id) for member in group.members.values()]
    yield
    target = yield from sticky.assign_in_steps(
        members, task_counts(group), dict(group.targets.items()), standby_replicas=standby_replicas
    )
    pieces = in_pieces(
        target, weight=weight_of(group.group_id), size=size, count=lambda each: len(each.active) + len(each.standby)
    )
    return (StreamsTargetsComputed(group.epoch, part, group.members, is_last) for part, is_last in pieces)


def computed(decision: StreamsDecision, event: StreamsTargetsComputed) -> None:
    """Keep a part of a target: of the members that are still there, and of those that have replaced a static one. The
    target counts when its last part is kept. One that is not newer than the present one is of no use any more."""
    before = decision.group
    if event.epoch <= before.assignment_epoch:
        return
    changed: dict[str, MemberTasks] = {}
    for name, target in event.targets.items():
        member_id = name if name in before.members else _successor(before, name, event)
        if member_id is not None and before.targets.get(member_id) != target:
            changed[member_id] = target
    decision.put_targets(changed)
    if event.is_last:
        # A target without tasks is no reason to wait with the one that will have some.
        is_empty = all(each == NO_TASKS for each in decision.group.targets.values())
        decision.store_target_epoch(0 if is_empty else decision.now_ms, epoch=event.epoch)


def _successor(group: StreamsGroup, name: str, event: StreamsTargetsComputed) -> str | None:
    """The member that has replaced a static one since a target was computed; None if there is none."""
    gone = event.members.get(name)
    holder = None if gone is None or gone.instance_id is None else group.holder(gone.instance_id)
    return None if holder is None or holder.member_id in event.members else holder.member_id
