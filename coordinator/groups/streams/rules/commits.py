"""Checks of offsets that members of streams groups commit and read (streams-groups.md 4). They are those of consumer
groups (KIP-1251), with the tasks that read a partition in its place. Pure."""

from collections.abc import Iterable

from eosin.coordinator.groups.consumer.rules.commits import FIRST_MEMBER_EPOCH_VERSION, FIRST_TXN_VERSION_WITH_EPOCHS
from eosin.coordinator.groups.streams.assignors.tasks import Task
from eosin.coordinator.groups.streams.rules.group import StreamsGroup, StreamsMember
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition


def commit(
    group: StreamsGroup,
    *,
    member_id: str,
    member_epoch: int,
    partitions: Iterable[TopicPartition],
    api_version: int,
    transactional: bool,
) -> ErrorCode:
    """Check that a member, or a client outside of the group, may commit offsets of these partitions now, itself or in a
    transaction. A producer that names no member is fenced by its own epoch alone."""
    if member_epoch < 0 and (not group.members or (transactional and not member_id)):
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not transactional and api_version < FIRST_MEMBER_EPOCH_VERSION:
        return ErrorCode.UNSUPPORTED_VERSION
    if _may(group, member, member_epoch, partitions):
        return ErrorCode.NONE
    knows_epochs = not transactional or api_version >= FIRST_TXN_VERSION_WITH_EPOCHS
    return ErrorCode.STALE_MEMBER_EPOCH if knows_epochs else ErrorCode.ILLEGAL_GENERATION


def fetch(group: StreamsGroup, *, member_id: str | None, member_epoch: int) -> ErrorCode:
    """Check that a member reads the offsets of what it has now."""
    if not member_id and member_epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if member.epoch == member_epoch else ErrorCode.STALE_MEMBER_EPOCH


def _may(group: StreamsGroup, member: StreamsMember, member_epoch: int, partitions: Iterable[TopicPartition]) -> bool:
    """A member that has not heard of its newest epoch yet may commit what it has had since the one that it knows."""
    if member_epoch >= member.epoch:
        return member_epoch == member.epoch
    return all(
        any(_has_since(member, task, member_epoch) for task in _tasks(group, partition)) for partition in partitions
    )


def _tasks(group: StreamsGroup, partition: TopicPartition) -> Iterable[Task]:
    """The tasks that read a partition."""
    for each in () if group.topology is None else group.topology.subtopologies:
        if partition.topic in each.inputs:
            yield Task(each.subtopology_id, partition.partition)


def _has_since(member: StreamsMember, task: Task, member_epoch: int) -> bool:
    since = member.assigned.active.get(task, member.pending.active.get(task))
    return since is not None and member_epoch >= since
