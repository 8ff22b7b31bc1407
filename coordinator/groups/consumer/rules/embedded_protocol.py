"""Messages between classic consumers, as far as a consumer group reads and writes them: subscriptions in JoinGroup,
assignments in SyncGroup (consumer-groups.md 15). Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions, TopicIdPartition
from eosin.coordinator.groups.consumer.rules.topics import Topics
from eosin.protocol.names import Uuid
from eosin.protocol.records.internal import decode_value, encode_value
from eosin.protocol.schemas.records.consumer_protocol import (
    ASSIGNMENT,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from eosin.protocol.types import DecodeError

_VERSION_BYTES: Final = 2
_NEWEST: Final = ASSIGNMENT.versions[-1]


_SELF_SUFFICIENT: Final = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""Assignors of clients whose members need no data from the leader. (librdkafka's sticky ones send it back all the same,
and Apache Kafka refuses their groups.)"""


class CustomAssignor(DecodeError):
    """An assignment has data of a client's own assignor, which nobody here can pass on."""


class Subscription(NamedTuple):
    """The subscription of a classic member."""

    topics: tuple[str, ...]
    """Sorted, each once."""
    owned: Partitions
    """The partitions that it has kept; none of a member that gives up everything before it joins."""
    rack_id: str | None


def read_subscription(metadata: bytes, topics: Topics) -> Subscription:
    """The subscription that a member has sent with a protocol. Raises DecodeError."""
    read: ConsumerProtocolSubscription = decode_value(ConsumerProtocolSubscription, metadata)
    owned = frozenset(_with_ids(read.owned_partitions, topics))
    return Subscription(tuple(sorted(set(read.topics))), owned, read.rack_id or None)


def read_assignment(assignment: bytes, topics: Topics, protocol_name: str) -> Partitions:
    """The partitions of an assignment, but for those of topics that are gone; empty bytes are none. Raises DecodeError,
    and CustomAssignor."""
    if not assignment:
        return frozenset()
    read: ConsumerProtocolAssignment = decode_value(ConsumerProtocolAssignment, assignment)
    if read.user_data and protocol_name not in _SELF_SUFFICIENT:
        raise CustomAssignor("an assignment has data of a custom assignor")
    return frozenset(_with_ids(read.assigned_partitions, topics))


def names_by_id(names: Iterable[str], topics: Topics) -> Mapping[Uuid, str]:
    """The names of those topics that there are."""
    return {topic.topic_id: name for name in names if (topic := topics.get(name)) is not None}


def assignment_bytes(partitions: Iterable[TopicIdPartition], names: Mapping[Uuid, str], *, like: bytes) -> bytes:
    """An assignment of those partitions that are of topics with a name, in the version of the subscription `like`."""
    by_name: dict[str, list[int]] = {}
    for place in sorted(partitions):
        if place.topic_id in names:
            by_name.setdefault(names[place.topic_id], []).append(place.partition)
    assigned = tuple(TopicPartitions(name, tuple(by_name[name])) for name in sorted(by_name))
    version = int.from_bytes(like[:_VERSION_BYTES], "big", signed=True)
    return encode_value(ConsumerProtocolAssignment(assigned), min(max(version, 0), _NEWEST))


def _with_ids(partitions: Iterable[TopicPartitions], topics: Topics) -> Iterator[TopicIdPartition]:
    for each in partitions:
        topic = topics.get(each.topic)
        if topic is not None:
            yield from (TopicIdPartition(topic.topic_id, number) for number in each.partitions if number >= 0)
