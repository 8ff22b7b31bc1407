"""Checks of offsets that members of consumer groups commit and read (consumer-groups.md 10, KIP-1251). Pure."""

from collections.abc import Iterable

from eosin.coordinator.groups.consumer.assignors.assignment import TopicIdPartition
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerMember
from eosin.coordinator.groups.consumer.rules.topics import Topics
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition

FIRST_MEMBER_EPOCH_VERSION = 9
"""Of OffsetCommit and OffsetFetch."""
FIRST_TXN_VERSION_WITH_EPOCHS = 6
"""Of TxnOffsetCommit: clients of earlier ones know no stale member epoch."""


def commit(
    group: ConsumerGroup,
    *,
    member_id: str,
    instance_id: str | None,
    member_epoch: int,
    partitions: Iterable[TopicPartition],
    topics: Topics,
    api_version: int,
) -> ErrorCode:
    """Check that a member, or a client outside of the group, may commit offsets of these partitions now."""
    if member_epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = _member(group, member_id, instance_id)
    if isinstance(member, ErrorCode):
        return member
    if member.classic is None and api_version < FIRST_MEMBER_EPOCH_VERSION:
        return ErrorCode.UNSUPPORTED_VERSION
    stale = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
    return _of_epoch(member, member_epoch, partitions, topics, stale)


def transactional_commit(
    group: ConsumerGroup,
    *,
    member_id: str,
    instance_id: str | None,
    member_epoch: int,
    partitions: Iterable[TopicPartition],
    topics: Topics,
    api_version: int,
) -> ErrorCode:
    """Check that offsets may be added to a transaction now (KIP-447). A producer that names no member is fenced by its
    own epoch alone."""
    if not member_id and member_epoch < 0 and instance_id is None:
        return ErrorCode.NONE
    if member_epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = _member(group, member_id, instance_id)
    if isinstance(member, ErrorCode):
        return member
    knows_epochs = member.classic is None and api_version >= FIRST_TXN_VERSION_WITH_EPOCHS
    stale = ErrorCode.STALE_MEMBER_EPOCH if knows_epochs else ErrorCode.ILLEGAL_GENERATION
    return _of_epoch(member, member_epoch, partitions, topics, stale)


def fetch(group: ConsumerGroup, *, member_id: str | None, member_epoch: int) -> ErrorCode:
    """Check that a member reads the offsets of what it has now."""
    if not member_id and member_epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.epoch == member_epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def _member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember | ErrorCode:
    member = group.members.get(member_id)
    if instance_id is not None:
        holder = group.holder(instance_id)
        if holder is not None and holder.member_id != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.UNKNOWN_MEMBER_ID if member is None else member


def _of_epoch(
    member: ConsumerMember,
    member_epoch: int,
    partitions: Iterable[TopicPartition],
    topics: Topics,
    stale: ErrorCode,
) -> ErrorCode:
    """A member that has not heard of its newest epoch yet may commit what it has had since the one that it knows."""
    if member_epoch == member.epoch:
        return ErrorCode.NONE
    if member_epoch > member.epoch:
        return stale
    for name, partition in partitions:
        topic = topics.get(name)
        if topic is None:
            return stale
        place = TopicIdPartition(topic.topic_id, partition)
        since = member.assigned.get(place, member.pending.get(place))
        if since is None or member_epoch < since:
            return stale
    return ErrorCode.NONE
