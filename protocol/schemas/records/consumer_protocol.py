"""Messages between consumers, through the group coordinator: subscriptions in JoinGroup, assignments in SyncGroup.

The coordinator passes them on unread, except to learn which topics a group is subscribed to. Clients of newer versions
add fields at the end, so a reader takes what it knows and leaves the rest.
"""

from __future__ import annotations

from typing import Annotated, Final

from eosin.protocol.types import Int32, Message, RecordSchema


class TopicPartitions(Message):
    """Partitions of one topic."""

    topic: str = ""
    partitions: tuple[Int32, ...] = ()


class ConsumerProtocolSubscription(Message):
    topics: tuple[str, ...] = ()
    user_data: bytes | None = None
    owned_partitions: Annotated[tuple[TopicPartitions, ...], "1+"] = ()
    generation_id: Annotated[Int32, "2+"] = -1
    rack_id: Annotated[str | None, "3+"] = None


class ConsumerProtocolAssignment(Message):
    assigned_partitions: tuple[TopicPartitions, ...] = ()
    user_data: bytes | None = None


SUBSCRIPTION: Final = RecordSchema(
    ConsumerProtocolSubscription, versions=range(0, 4), flexible_from=None, tolerant=True
)
ASSIGNMENT: Final = RecordSchema(ConsumerProtocolAssignment, versions=range(0, 4), flexible_from=None, tolerant=True)
