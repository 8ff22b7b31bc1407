"""`TopicView`: one topic with its settings and where they come from, its partitions, producers and groups (console.md
5.2).

Always true: a look takes a millisecond of the event loop at a time, and shows at most `MOST_PARTITIONS`,
`MOST_PRODUCERS` and `MOST_GROUPS`; what is left out is counted.
"""

from itertools import islice
from typing import Final

import msgspec

from eosin.broker.config.entries import ConfigSource, topic_entries
from eosin.broker.services import Services
from eosin.coordinator.groups.share.rules.group import ShareGroup
from eosin.model.cluster import Topic
from eosin.observe.console.rounds import Rounds
from eosin.observe.survey.any_group import live
from eosin.observe.survey.group_positions import GroupPositions, behind_in_slices
from eosin.observe.survey.slices import GROUP, ROW, Slices, in_slices
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition, uuid_text
from eosin.runtime.turns import next_turn
from eosin.storage.log.partition_log import PartitionLog

MOST_PARTITIONS: Final = 1000
MOST_PRODUCERS: Final = 200
MOST_GROUPS: Final = 50
MOST_GROUPS_ASKED: Final = 500

SOURCES: Final = {
    ConfigSource.DYNAMIC_TOPIC: "topic",
    ConfigSource.DYNAMIC_BROKER: "broker, changed while it ran",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "all brokers, changed while they ran",
    ConfigSource.STATIC_BROKER: "broker",
    ConfigSource.DEFAULT: "default",
}
"""The source of a value, in words."""


class ConfigSeen(msgspec.Struct):
    """A setting of the topic."""

    key: str
    value: str | None
    source: str
    """One of `SOURCES`."""
    help: str
    is_own: bool = False
    """True if it was set for this topic."""


class ReplicasSeen(msgspec.Struct):
    """The replicas of one partition."""

    partition: int
    leader: int
    """-1 for none."""
    replicas: list[int]
    in_sync: list[int]
    segments: int = -1
    """Files of its log; -1 where this broker has none of it."""


class ProducerSeen(msgspec.Struct):
    """A producer that a partition knows."""

    key: str
    partition: int
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_ms: int
    """The time of its last record, by this broker's clock; -1 if unknown."""
    first_offset: int
    """Of its open transaction; -1 for none."""
    transactional_id: str


class GroupSeen(msgspec.Struct):
    """A group that has committed offsets of the topic, or a member that has partitions of it."""

    key: str
    state: str
    members: int
    partitions: int
    """Of the topic."""
    lag: int
    is_exact: bool
    undecided: int
    uncommitted: int
    """Partitions that a member has and the group has committed nothing for."""


class TopicAnswer(msgspec.Struct):
    """The content of the page of a topic."""

    name: str
    topic_id: str
    now_ms: int
    is_internal: bool
    partitions: int
    replicas: list[ReplicasSeen]
    configs: list[ConfigSeen]
    producers: list[ProducerSeen]
    """The producers with an open transaction first, then the latest; of partitions that this broker leads."""
    producers_known: int
    groups: list[GroupSeen]
    """Of those that this broker coordinates."""
    groups_left_out: int


class TopicView:
    """Looks at the topics of one broker."""

    def __init__(self, services: Services, rounds: Rounds, positions: GroupPositions) -> None:
        self._services = services
        self._rounds = rounds
        self._positions = positions

    async def describe(self, name: str) -> TopicAnswer | None:
        """One topic; None when there is none of that name."""
        services = self._services
        topic = services.cluster.topics.get(name)
        if topic is None:
            return None
        configs = [
            ConfigSeen(
                each.name,
                None if each.is_sensitive else each.value,
                SOURCES[each.source],
                each.documentation,
                each.source is ConfigSource.DYNAMIC_TOPIC,
            )
            for each in topic_entries(topic, services.cluster, services.config)
        ]
        await next_turn()
        replicas, led = await self._replicas(topic)
        producers, known = await self._producers(led)
        groups, left_out = await self._groups(name)
        return TopicAnswer(
            name,
            uuid_text(topic.topic_id),
            services.clock.now_ms(),
            topic.internal,
            topic.partitions,
            replicas,
            configs,
            producers,
            known,
            groups,
            left_out,
        )

    async def _replicas(self, topic: Topic) -> tuple[list[ReplicasSeen], list[PartitionLog]]:
        services = self._services
        found: list[ReplicasSeen] = []
        led: list[PartitionLog] = []
        async for some in in_slices(range(min(topic.partitions, MOST_PARTITIONS)), ROW):
            for index in some:
                partition = TopicPartition(topic.name, index)
                state = services.cluster.partition_state(partition)
                log = services.partitions.replica(partition)
                segments = -1 if isinstance(log, ErrorCode) else len(log.segments)
                if state is not None:
                    found.append(ReplicasSeen(index, state.leader_id, list(state.replicas), list(state.isr), segments))
                if not isinstance(log, ErrorCode) and services.partitions.get(partition) is log:
                    led.append(log)
        return found, led

    async def _producers(self, led: list[PartitionLog]) -> tuple[list[ProducerSeen], int]:
        found: list[ProducerSeen] = []
        known = 0
        slices = Slices()
        for log in led:
            known += len(log.producer_state)
            index = log.topic_partition.partition
            for each in islice(log.producer_state, max(1, MOST_PRODUCERS - len(found))):
                found.append(
                    ProducerSeen(
                        f"{index}/{each.producer_id}",
                        index,
                        each.producer_id,
                        each.producer_epoch,
                        each.last_sequence,
                        each.last_append_ms or -1,
                        each.transaction_first_offset,
                        self._rounds.owner(each.producer_id) or "",
                    )
                )
            await slices.worked(ROW)
        found.sort(key=lambda each: (each.first_offset < 0, -each.last_ms))
        return found[:MOST_PRODUCERS], known

    async def _groups(self, topic: str) -> tuple[list[GroupSeen], int]:
        """The groups that have offsets or partitions of the topic, and how many more there may be."""
        services = self._services
        found: list[GroupSeen] = []
        left_out = max(0, services.groups.group_count - MOST_GROUPS_ASKED)
        slices = Slices()
        for group in islice(live(services.groups), MOST_GROUPS_ASKED):
            await slices.worked(GROUP)
            name = group.group_id
            error, committed = await services.groups.offsets.fetch(name, None, require_stable=False)
            if isinstance(group, ShareGroup):  # its offsets are no commits; its own page has them
                continue
            has = self._positions.had_by(group)
            places = [*(each.partition for each in committed), *has]
            if error is not ErrorCode.NONE or not any(each.topic == topic for each in places):
                continue
            if len(found) == MOST_GROUPS:
                left_out += 1
                continue
            parts = [each for each in await self._positions.of(name) if each.partition.rpartition("-")[0] == topic]
            sums = await behind_in_slices(parts)
            members = len(group.members)
            found.append(
                GroupSeen(
                    name,
                    group.state.value,
                    members,
                    len(parts),
                    sums.lag,
                    sums.is_exact,
                    sums.undecided,
                    sums.uncommitted,
                )
            )
        return found, left_out
