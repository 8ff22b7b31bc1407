"""Endpoints of members, by which an application finds the member that has a key (interactive queries,
streams-groups.md 9). Pure."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from eosin.coordinator.groups.streams.assignors.tasks import Task
from eosin.coordinator.groups.streams.rules.group import StreamsGroup, UserEndpoint
from eosin.coordinator.groups.streams.topology.configuration import ConfiguredSubtopology

TopicPartitions = tuple[tuple[str, tuple[int, ...]], ...]
"""Topics with their partitions, both in order."""


class EndpointPartitions(NamedTuple):
    """The partitions of topics whose state one member answers for, or keeps a copy of."""

    endpoint: UserEndpoint
    active: TopicPartitions
    standby: TopicPartitions


def endpoints_of(group: StreamsGroup) -> tuple[EndpointPartitions, ...]:
    """The endpoints of all members that have one, in the order of their ids."""
    configured = {} if group.configured is None else group.configured.subtopologies
    return tuple(
        EndpointPartitions(
            member.endpoint,
            _partitions(member.assigned.active, configured),
            _partitions(member.assigned.standby, configured),
        )
        for member in group.members.values()
        if member.endpoint is not None
    )


def _partitions(tasks: Iterable[Task], subtopologies: Mapping[str, ConfiguredSubtopology]) -> TopicPartitions:
    """The partitions that tasks read. A topic with fewer partitions than there are tasks has none for the last ones.
    (Apache Kafka takes the first partitions instead.)"""
    found: dict[str, list[int]] = {}
    for subtopology_id, number in sorted(tasks):
        subtopology = subtopologies.get(subtopology_id)
        for topic, count in () if subtopology is None else subtopology.inputs.items():
            if number < count:
                found.setdefault(topic, []).append(number)
    return tuple((topic, tuple(numbers)) for topic, numbers in sorted(found.items()))
