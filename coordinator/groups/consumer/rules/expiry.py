"""Finds the offsets of a consumer or streams group that have outlived their retention (consumer-groups.md 10.5,
streams-groups.md 4). Pure."""

from collections.abc import Collection, Iterable
from typing import Protocol

from eosin.coordinator.groups.rules.offset_store import NO_EXPIRY, OffsetStore
from eosin.protocol.names import TopicPartition


class Subscribing(Protocol):
    """A group, as far as the end of its offsets depends on it."""

    @property
    def group_id(self) -> str:
        """Its name."""

    @property
    def members(self) -> Collection[str]:
        """The ids of its members."""

    @property
    def state_timestamp_ms(self) -> int:
        """The time since which it is as it is; -1 if it is not known."""

    def subscribed_names(self) -> frozenset[str]:
        """The topics that its members need."""


def expired_of_consumer_group(
    group: Subscribing, offsets: OffsetStore, partitions: Iterable[TopicPartition], *, now_ms: int, retention_ms: int
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
