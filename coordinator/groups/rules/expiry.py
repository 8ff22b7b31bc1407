"""Finds the offsets and groups that have outlived their retention (groups.md 11). Pure."""

from collections.abc import Callable, Iterable

from eosin.coordinator.groups.rules.group import Group, GroupState
from eosin.coordinator.groups.rules.offset_store import NO_EXPIRY, CommittedOffset, OffsetStore
from eosin.coordinator.groups.rules.subscription import CONSUMER_PROTOCOL, subscribed_topics
from eosin.protocol.names import TopicPartition


def expired_offsets(
    group: Group, offsets: OffsetStore, partitions: Iterable[TopicPartition], *, now_ms: int, retention_ms: int
) -> list[TopicPartition]:
    """Those of `partitions` whose committed offset has expired. One that an open transaction is about to replace has
    not."""
    retention_start = _retention_start(group)
    committed = offsets.committed(group.group_id)
    expired = []
    for partition in partitions:
        value = committed.get(partition)
        if value is None or offsets.is_pending(group.group_id, partition):
            continue
        if value.expire_timestamp_ms != NO_EXPIRY:
            if now_ms >= value.expire_timestamp_ms:
                expired.append(partition)
            continue
        start = retention_start(partition, value)
        if start is not None and now_ms - start >= retention_ms:
            expired.append(partition)
    return expired


def _retention_start(group: Group) -> Callable[[TopicPartition, CommittedOffset], int | None]:
    """From when a value's retention counts, in ms; None while it does not count at all."""
    if group.is_simple:
        return lambda _, value: value.commit_timestamp_ms
    if group.state is GroupState.EMPTY:
        since = group.state_timestamp_ms
        return lambda _, value: since if since >= 0 else value.commit_timestamp_ms
    topics = subscribed_topics(group)
    if group.state is GroupState.STABLE and group.protocol_type == CONSUMER_PROTOCOL and topics is not None:
        return lambda partition, value: None if partition.topic in topics else value.commit_timestamp_ms
    return lambda _, __: None


def may_vanish(group: Group) -> bool:
    """True if a group that holds no offsets (any more) can be dropped: it has no member, and none is about to join."""
    return group.state is GroupState.EMPTY and not group.pending_members
