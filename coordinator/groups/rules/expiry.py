"""Finds the offsets and groups that have outlived their retention (groups.md 11). Pure."""

import functools
from collections.abc import Callable, Iterable

from eosin.coordinator.groups.rules.group import Group, GroupState
from eosin.coordinator.groups.rules.offset_store import NO_EXPIRY, CommittedOffset, OffsetStore
from eosin.coordinator.groups.rules.subscription import CONSUMER_PROTOCOL, subscribed_topics
from eosin.protocol.names import TopicPartition

Subscribed = Callable[[Group], frozenset[str] | None]
"""Returns the topics that the members are subscribed to; None while they are unknown."""


def expired_offsets(
    group: Group,
    offsets: OffsetStore,
    partitions: Iterable[TopicPartition],
    subscribed: Subscribed = subscribed_topics,
    *,
    now_ms: int,
    retention_ms: int,
) -> list[TopicPartition]:
    """The `partitions` whose committed offset has expired. One that an open transaction is about to replace has not.
    `subscribed` is called only if it matters: to know may take long."""
    retention_start = _retention_start(group)
    topics = functools.cache(lambda: subscribed(group))
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
        start = retention_start(value)
        if start is None or now_ms - start < retention_ms:
            continue
        if not group.members or ((known := topics()) is not None and partition.topic not in known):
            expired.append(partition)
    return expired


def _retention_start(group: Group) -> Callable[[CommittedOffset], int | None]:
    """From when a value's retention counts, in ms, for topics without a subscription; None while it does not count."""
    if group.state is GroupState.EMPTY and not group.is_simple:
        since = group.state_timestamp_ms
        return lambda value: since if since >= 0 else value.commit_timestamp_ms
    is_stable = group.state is GroupState.STABLE and group.protocol_type == CONSUMER_PROTOCOL
    if group.is_simple or is_stable:
        return lambda value: value.commit_timestamp_ms
    return lambda _: None


def may_vanish(group: Group) -> bool:
    """True if a group that holds no offsets (any more) can be dropped: it has no member, and none is about to join."""
    return group.state is GroupState.EMPTY and not group.pending_members
