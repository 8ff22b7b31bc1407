"""`AssignedPartitions`: the partitions that the members of a group have, as the group's leader has assigned them, or in
groups of KIP-848 its coordinator."""

import contextlib
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from eosin.coordinator.groups.consumer.assignors.assignment import TopicIdPartition
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup
from eosin.coordinator.groups.rules.group import Group, Member
from eosin.coordinator.groups.streams.rules.group import StreamsGroup, StreamsMember
from eosin.model.cluster import Topic
from eosin.protocol.names import TopicPartition, Uuid
from eosin.protocol.records.internal import decode_value
from eosin.protocol.schemas.records.consumer_protocol import ConsumerProtocolAssignment
from eosin.protocol.types import DecodeError

CONSUMER: Final = "consumer"
"""The protocol of groups whose assignments are partitions."""
MOST_KEPT: Final = 20_000
MOST_ASSIGNED: Final = 10_000
"""Partitions of one group."""


def assigned(group: Group, member: Member) -> list[TopicPartition]:
    """The partitions of one member; none while the group rebalances, and where it is no group of consumers."""
    if group.protocol_type == CONSUMER and member.assignment:
        with contextlib.suppress(DecodeError):  # whatever the group's leader has sent
            told = decode_value(ConsumerProtocolAssignment, member.assignment)
            return [TopicPartition(each.topic, index) for each in told.assigned_partitions for index in each.partitions]
    return []


def named_partitions(
    partitions: Iterable[TopicIdPartition], topic_by_id: Callable[[Uuid], Topic | None]
) -> list[TopicPartition]:
    """Partitions by the names of their topics, in order, without those of topics that are gone."""
    found = ((topic_by_id(each.topic_id), each.partition) for each in partitions)
    return sorted(TopicPartition(topic.name, index) for topic, index in found if topic is not None)


def owned(
    group: ConsumerGroup, topic_by_id: Callable[[Uuid], Topic | None], *, most: int = MOST_ASSIGNED
) -> tuple[TopicPartition, ...]:
    """The partitions that the members of a group of KIP-848 have, so many at most."""
    every = (partition for member in group.members.values() for partition in member.owned())
    return tuple(named_partitions(islice(every, most), topic_by_id))


def read_by_tasks(
    group: StreamsGroup, *members: StreamsMember, most: int = MOST_ASSIGNED
) -> tuple[TopicPartition, ...]:
    """The partitions that the tasks of members of a group of KIP-1071 read, so many at most, in order. A topic with
    fewer partitions than there are tasks has none for the last ones."""
    subtopologies = {} if group.configured is None else group.configured.subtopologies
    every = (
        TopicPartition(topic, number)
        for member in members
        for subtopology_id, number in member.active()
        if (subtopology := subtopologies.get(subtopology_id)) is not None
        for topic, count in subtopology.inputs.items()
        if number < count
    )
    return tuple(sorted(islice(every, most)))


class AssignedPartitions:
    """Reads assignments, and remembers those of each group's generation: a generation has one."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, str], tuple[TopicPartition, ...]]] = {}

    def of(self, group: Group) -> tuple[TopicPartition, ...]:
        """The partitions of all members, each once, in order."""
        if group.protocol_type != CONSUMER or not group.members:
            return ()
        moment = (group.generation_id, group.state.value)
        known = self._known.get(group.group_id)
        if known is not None and known[0] == moment:
            return known[1]
        found = sorted({each for member in group.members.values() for each in assigned(group, member)})
        told = tuple(found[:MOST_ASSIGNED])
        if known is None and len(self._known) >= MOST_KEPT:
            del self._known[next(iter(self._known))]
        self._known[group.group_id] = (moment, told)
        return told
