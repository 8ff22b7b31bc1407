"""A topology as its application tells it, and `fault_of`, what is wrong with one whatever topics there are (KIP-1071,
streams-groups.md 3)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

NOT_SAID: Final = 0
"""The number of partitions of an internal topic that the broker is to work out."""


class InternalTopic(NamedTuple):
    """A topic that the application owns: a changelog, or one that it repartitions through."""

    name: str
    partitions: int
    """Their number; `NOT_SAID` where it follows from what flows into the topic."""
    replication_factor: int
    """-1 or 0 for the broker's own default."""
    configs: tuple[tuple[str, str], ...]


class CopartitionGroup(NamedTuple):
    """Topics of one subtopology that must have the same number of partitions, as positions in its lists."""

    source_topics: tuple[int, ...]
    source_topic_regexes: tuple[int, ...]
    repartition_source_topics: tuple[int, ...]


class Subtopology(NamedTuple):
    """A part of a topology that shares no state with the others."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    source_topic_regexes: tuple[str, ...]
    changelog_topics: tuple[InternalTopic, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[InternalTopic, ...]
    copartition_groups: tuple[CopartitionGroup, ...]

    @property
    def inputs(self) -> Iterator[str]:
        """The names of all topics that it reads, changelogs left out."""
        yield from self.source_topics
        for topic in self.repartition_source_topics:
            yield topic.name


class Topology(NamedTuple):
    """The program that the members of a streams group run."""

    epoch: int
    subtopologies: tuple[Subtopology, ...]

    @property
    def topics(self) -> frozenset[str]:
        """The names of all topics that it needs, internal ones too."""
        names: set[str] = set()
        for each in self.subtopologies:
            names.update(each.inputs)
            names.update(topic.name for topic in each.changelog_topics)
        return frozenset(names)


def topology_bytes(topology: Topology) -> int:
    """The characters of all names and settings of a topology."""
    return sum(map(_subtopology_bytes, topology.subtopologies))


def _subtopology_bytes(subtopology: Subtopology) -> int:
    internal = (*subtopology.changelog_topics, *subtopology.repartition_source_topics)
    names = (subtopology.subtopology_id, *subtopology.source_topics, *subtopology.repartition_sink_topics)
    settings = sum(len(key) + len(value) for topic in internal for key, value in topic.configs)
    return sum(map(len, names)) + sum(len(topic.name) for topic in internal) + settings


def fault_of(topology: Topology) -> str | None:
    """A sentence about what is wrong with a topology whatever topics exist; None for a good one."""
    names = [each.subtopology_id for each in topology.subtopologies]
    if len(set(names)) < len(names):
        return "two subtopologies have one id"
    written = {name for each in topology.subtopologies for name in each.repartition_sink_topics}
    for each in topology.subtopologies:
        if not any(each.inputs):
            return f"subtopology {each.subtopology_id} reads no topic"
        for topic in each.changelog_topics:
            if topic.partitions != NOT_SAID:
                return f"changelog {topic.name} must have the partitions of its tasks, and says {topic.partitions}"
        for topic in each.repartition_source_topics:
            if topic.name not in written:
                return f"nothing writes to {topic.name}, which subtopology {each.subtopology_id} reads"
        for group in each.copartition_groups:
            if not _stand_in(group.source_topics, each.source_topics) or not _stand_in(
                group.repartition_source_topics, each.repartition_source_topics
            ):
                return f"a copartition group of subtopology {each.subtopology_id} names a topic that it does not read"
    return _loop(topology)


def _stand_in(positions: Sequence[int], names: Sequence[object]) -> bool:
    return all(0 <= position < len(names) for position in positions)


def _loop(topology: Topology) -> str | None:
    """The counts that are not said must follow from topics outside: something has to flow into each loop. (A stream
    that is joined or merged with its own repartition is such a one.)"""
    unknown = unsaid(topology)
    outside = {name: 1 for each in topology.subtopologies for name in each.inputs if name not in unknown}
    waiting = sorted(unknown - flowing(topology, outside).keys())
    if waiting:
        return f"the numbers of partitions of {', '.join(waiting[:3])} depend on each other: the topology has a loop"
    return None


def unsaid(topology: Topology) -> frozenset[str]:
    """Topics of repartitions whose number of partitions is to be worked out."""
    said = {
        topic.name
        for each in topology.subtopologies
        for topic in each.repartition_source_topics
        if topic.partitions != NOT_SAID
    }
    return frozenset(name for each in topology.subtopologies for name in each.repartition_sink_topics) - said


def flowing(topology: Topology, known: Mapping[str, int]) -> dict[str, int]:
    """The highest known number of partitions that flows into each topic whose own is not said, around loops, too; those
    that nothing flows into are left out. Each subtopology is passed once."""
    unknown = unsaid(topology)
    readers: dict[str, list[Subtopology]] = {}
    for each in topology.subtopologies:
        for name in each.inputs:
            readers.setdefault(name, []).append(each)
    found: dict[str, int] = {}
    for source in sorted(known, key=known.__getitem__, reverse=True):  # who is reached first is reached by the highest
        reached = [source]
        while reached:
            for reader in readers.pop(reached.pop(), ()):
                for name in reader.repartition_sink_topics:
                    if name in unknown and name not in found:
                        found[name] = known[source]
                        reached.append(name)
    return found
