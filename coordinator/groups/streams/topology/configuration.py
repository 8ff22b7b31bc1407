"""`configured`: a topology over the topics that there are (KIP-1071, streams-groups.md 3): the tasks of each
subtopology, and which topics are missing or have the wrong number of partitions.

It is worked out anew when a topic of the topology changes, and never stored.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from eosin.coordinator.groups.streams.topology.topology import (
    NOT_SAID,
    CopartitionGroup,
    InternalTopic,
    Subtopology,
    Topology,
    flowing,
    unsaid,
)


class InvalidTopology(Exception):
    """The topology can never run. The text is a sentence."""


class TopologyStatus(IntEnum):
    """Statuses of a member that come from its topology (StreamsGroupHeartbeatResponse)."""

    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3


class ConfiguredSubtopology(NamedTuple):
    """A subtopology whose topics are known."""

    task_count: int
    """Its tasks are numbered from 0; each reads the partition of its number of each topic that has one."""
    is_stateful: bool
    inputs: Mapping[str, int]
    """The topics that it reads, with their numbers of partitions."""


class ConfiguredTopology(NamedTuple):
    """A topology over the topics that there are."""

    subtopologies: Mapping[str, ConfiguredSubtopology]
    """By id; none while the topology is not ready."""
    status: TopologyStatus | None
    """The obstacle to its being ready; None when there is none."""
    detail: str
    """The same as a sentence; empty when there is nothing."""
    missing: tuple[InternalTopic, ...]
    """Internal topics to be created, each with its number of partitions."""

    @property
    def is_ready(self) -> bool:
        """True when its tasks can be dealt out."""
        return self.status is None


def configured(topology: Topology, counts: Mapping[str, int]) -> ConfiguredTopology:
    """The topology over existing topics and their numbers of partitions. Raises InvalidTopology."""
    within = {topic.name for each in topology.subtopologies for topic in each.repartition_source_topics}
    sources = {name for each in topology.subtopologies for name in each.source_topics} - within
    absent = sorted(name for name in sources if name not in counts)
    if absent:
        return _not_ready(TopologyStatus.MISSING_SOURCE_TOPICS, f"Source topics {_named(absent)} are missing.")
    known = {name: counts[name] for name in sources}
    _count_repartitions(topology, known)
    for each in topology.subtopologies:
        for group in each.copartition_groups:
            problem = _copartition(each, group, known)
            if problem is not None:
                return _not_ready(TopologyStatus.INCORRECTLY_PARTITIONED_TOPICS, problem)
    wanted = {topic.name: topic for topic in _internal_topics(topology, known)}
    wrong = [
        f"{name} ({counts[name]} instead of {topic.partitions})"
        for name, topic in sorted(wanted.items())
        if counts.get(name, topic.partitions) != topic.partitions
    ]
    if wrong:
        problem = f"Internal topics have the wrong number of partitions: {_named(wrong)}."
        return _not_ready(TopologyStatus.INCORRECTLY_PARTITIONED_TOPICS, problem)
    missing = tuple(topic for name, topic in sorted(wanted.items()) if name not in counts)
    if missing:
        problem = f"Internal topics {_named([topic.name for topic in missing])} are missing."
        return ConfiguredTopology({}, TopologyStatus.MISSING_INTERNAL_TOPICS, problem, missing)
    return ConfiguredTopology(
        {each.subtopology_id: _tasks(each, known) for each in topology.subtopologies}, None, "", ()
    )


def _not_ready(status: TopologyStatus, detail: str) -> ConfiguredTopology:
    return ConfiguredTopology({}, status, detail, ())


def _named(names: list[str]) -> str:
    """Some names of many: an answer has no room for 10,000."""
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def _count_repartitions(topology: Topology, known: dict[str, int]) -> None:
    """Add the numbers of partitions of topics that subtopologies repartition through: as the topology says, else the
    highest number of what flows into them."""
    for each in topology.subtopologies:
        for topic in each.repartition_source_topics:
            if topic.partitions != NOT_SAID:
                known[topic.name] = topic.partitions
    found = flowing(topology, known)
    waiting = sorted(unsaid(topology) - found.keys())
    if waiting:
        raise InvalidTopology(
            f"The numbers of partitions of {_named(waiting)} depend on each other: the topology has a loop."
        )
    known.update(found)
    for each in topology.subtopologies:
        if not any(each.inputs):
            raise InvalidTopology(f"Subtopology {each.subtopology_id} reads no topic.")
        for name in each.inputs:
            if name not in known:
                raise InvalidTopology(f"Nothing writes to {name}, which subtopology {each.subtopology_id} reads.")


def _highest(subtopology: Subtopology, known: Mapping[str, int]) -> int:
    return max((known[name] for name in subtopology.inputs), default=0)


def _copartition(subtopology: Subtopology, group: CopartitionGroup, known: dict[str, int]) -> str | None:
    """Give the topics of a group one number of partitions, where the topology has left it open. Returns what stands
    against it, as a sentence."""
    outside = [subtopology.source_topics[position] for position in group.source_topics]
    within = [subtopology.repartition_source_topics[position] for position in group.repartition_source_topics]
    fixed = [*outside, *(topic.name for topic in within if topic.partitions != NOT_SAID)]
    flexible = [topic.name for topic in within if topic.partitions == NOT_SAID]
    if len({known[name] for name in fixed}) > 1:
        counts = ", ".join(f"{name} ({known[name]})" for name in sorted(fixed))
        return f"Topics that are joined need one number of partitions: {counts}."
    if fixed or flexible:
        count = known[fixed[0]] if fixed else max(known[name] for name in flexible)
        known.update(dict.fromkeys(flexible, count))
    return None


def _internal_topics(topology: Topology, known: Mapping[str, int]) -> Iterator[InternalTopic]:
    """The internal topics, each with its number of partitions."""
    for each in topology.subtopologies:
        for topic in each.repartition_source_topics:
            yield topic._replace(partitions=known[topic.name])
        for topic in each.changelog_topics:
            yield topic._replace(partitions=_highest(each, known))


def _tasks(subtopology: Subtopology, known: Mapping[str, int]) -> ConfiguredSubtopology:
    inputs = {name: known[name] for name in subtopology.inputs}
    return ConfiguredSubtopology(max(inputs.values()), bool(subtopology.changelog_topics), inputs)
