"""The needs of the share coordinator, declared by it: topics, and the deletion of records."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import Uuid


class ShareTopics(Protocol):
    """The topics of the cluster, as far as the share coordinator needs them."""

    def has_partition(self, topic_id: Uuid, partition: int) -> bool:
        """True if there is such a topic, and it has this partition."""

    def leader_epoch(self, topic_id: Uuid, partition: int) -> int:
        """The leader epoch of a partition now; -1 when there is no such partition."""

    def want_state_topic(self) -> None:
        """Begin to create `__share_group_state`, unless it is there or being created."""


Prune = Callable[[int, int], Awaitable[ErrorCode]]
"""Deletes the records of a partition of `__share_group_state` below an offset, as DeleteRecords does."""
