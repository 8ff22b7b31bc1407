"""What consumers say to each other through the group coordinator: subscriptions in JoinGroup, assignments in SyncGroup.

The coordinator passes them on unread, except to learn which topics a group is subscribed to. Clients of newer versions
add fields at the end, so a reader takes what it knows and leaves the rest.
"""

from typing import Final

from eosin.protocol.types import Int32, Layout, Message, RecordSchema, array, blob, message, string, when


class TopicPartitions(Message):
    """Partitions of one topic."""

    topic: str = ""
    partitions: tuple[int, ...] = ()


class ConsumerProtocolSubscription(Message):
    topics: tuple[str, ...] = ()
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartitions, ...] = ()
    generation_id: int = -1
    rack_id: str | None = None


class ConsumerProtocolAssignment(Message):
    assigned_partitions: tuple[TopicPartitions, ...] = ()
    user_data: bytes | None = None


def _topic_partitions() -> Layout:
    return message(TopicPartitions, False, "topic" / string(False), "partitions" / array(Int32, False))


def consumer_protocol_subscription(version: int) -> Layout:
    """A member's subscription at `version`."""
    return message(
        ConsumerProtocolSubscription,
        False,
        "topics" / array(string(False), False),
        "user_data" / blob(False, nullable=True),
        *when(version >= 1, "owned_partitions" / array(_topic_partitions(), False)),
        *when(version >= 2, "generation_id" / Int32),
        *when(version >= 3, "rack_id" / string(False, nullable=True)),
    )


def consumer_protocol_assignment(version: int) -> Layout:
    """A member's assignment; every version has the same layout."""
    return message(
        ConsumerProtocolAssignment,
        False,
        "assigned_partitions" / array(_topic_partitions(), False),
        "user_data" / blob(False, nullable=True),
    )


SUBSCRIPTION: Final = RecordSchema(
    ConsumerProtocolSubscription, versions=range(0, 4), layout=consumer_protocol_subscription, tolerant=True
)
ASSIGNMENT: Final = RecordSchema(
    ConsumerProtocolAssignment, versions=range(0, 4), layout=consumer_protocol_assignment, tolerant=True
)
