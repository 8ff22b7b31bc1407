"""Finds the offsets of a consumer group that have outlived their retention (consumer-groups.md 10.5). Pure."""

from collections.abc import Iterable

from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup
from eosin.coordinator.groups.rules.offset_store import NO_EXPIRY, OffsetStore
from eosin.protocol.names import TopicPartition


def expired_of_consumer_group(
    group: ConsumerGroup, offsets: OffsetStore, partitions: Iterable[TopicPartition], *, now_ms: int, retention_ms: int
) -> list[TopicPartition]:
    """The expired ones of `partitions`: the group is not subscribed to their topics, and their offsets were committed
    long ago. A group without members keeps its offsets for the retention since its last member left, as a classic one
    does."""
    empty_since_ms = -1 if group.members else group.state_timestamp_ms
    subscribed = group.subscribed_names()
    committed = offsets.committed(group.group_id)
    expired = []
    for partition in partitions:
        value = committed.get(partition)
        if value is None or partition.topic in subscribed or offsets.is_pending(group.group_id, partition):
            continue
        ends_ms = value.expire_timestamp_ms
        if ends_ms == NO_EXPIRY:
            ends_ms = max(value.commit_timestamp_ms, empty_since_ms) + retention_ms
        if now_ms >= ends_ms:
            expired.append(partition)
    return expired
