"""Streams groups (KIP-1071) and share groups (KIP-932) whose coordinators move between an Eosin broker and one of
Apache Kafka, in a cluster as that one formats it: groups, states and records go on where they were (cluster.md 6.9)."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final

import pytest
from mixed_cluster import EOSIN, KAFKA, Brokers, Cluster, answered, connected, create, firmly, leads, mixed_brokers
from waiting import until
from wire import Wire, unique
from wire_share_fetcher import ACCEPT, RELEASE, Fetcher
from wire_share_group import ShareMember, alter, forget, where
from wire_share_group import described as described_share_group
from wire_streams_group import StreamsMember, counting
from wire_streams_group import described as described_streams_group

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import SHARE_GROUP_STATE_TOPIC, TopicPartition
from eosin.protocol.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic

GROUP: Final = 32
SETTINGS: Final = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.min.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.assignment.interval.ms": "0",
}
DIRECTIONS: Final = [(EOSIN, KAFKA), (KAFKA, EOSIN)]
IDS: Final = ["eosin-kafka", "kafka-eosin"]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with mixed_brokers(tmp_path_factory.mktemp("mixed"), SETTINGS) as made:
        yield made


@pytest.fixture
async def cluster(brokers: Brokers) -> AsyncIterator[Cluster]:
    async with connected(brokers) as made:
        yield made


async def shows(facts: dict[str, Any], found: Callable[[], Awaitable[dict[str, Any]]]) -> None:
    """Wait until a coordinator tells these facts. A new one of Apache Kafka tells older ones until it has heard that
    its follower has the last records, too."""
    told: dict[str, Any] = {}

    async def is_told() -> bool:
        nonlocal told
        told = await found()
        return told == facts

    await until(is_told, lambda: (told, facts), every_s=0.05)


# Streams groups -----------------------------------------------------------------------------------------------------


async def streams_facts(wire: Wire, group: str) -> dict[str, Any]:
    """What must be the same at both."""
    found = await answered(lambda: described_streams_group(wire, group), lambda found: int(found.error_code))
    members = {
        each.member_id: (each.member_epoch, _tasks(each.assignment), _tasks(each.target_assignment), each.process_id)
        for each in found.members
    }
    epochs = (found.group_epoch, found.assignment_epoch, found.topology.epoch)
    return {"state": found.group_state, "epochs": epochs, "members": members}


def _tasks(assignment: Any) -> list[tuple[str, tuple[int, ...]]]:
    return sorted((each.subtopology_id, tuple(sorted(each.partitions))) for each in assignment.active_tasks)


@pytest.mark.parametrize(("before", "after"), DIRECTIONS, ids=IDS)
async def test_a_streams_group_in_the_middle_of_a_reconciliation_is_the_same_at_the_next_coordinator_and_back(
    cluster: Cluster, before: int, after: int
) -> None:
    await cluster.move(before)
    group, source = unique("app"), unique("words")
    await create(cluster.wires[before], source, {0: (EOSIN,), 1: (KAFKA,)})
    first = StreamsMember(cluster.wires[before], group)
    topology = counting(source, group)
    await firmly(lambda: first.join(topology), lambda answer: int(answer.error_code))
    await first.has(4)  # two subtopologies; the broker has made the internal topics
    second = StreamsMember(cluster.wires[before], group)
    await firmly(lambda: second.join(topology), lambda answer: int(answer.error_code))
    await first.heartbeat()  # it is to give half of its tasks to the one that joined
    facts = await streams_facts(cluster.wires[before], group)
    assert (facts["state"], len(facts["members"])) == ("Reconciling", 2)

    for node_id in (after, before):
        await cluster.move(node_id)
        first.wire = second.wire = cluster.wires[node_id]
        await shows(facts, lambda: streams_facts(first.wire, group))
        answer = await beaten(second)
        assert answer.member_epoch == second.epoch
        told = await streams_facts(first.wire, group)
        assert told["epochs"] == facts["epochs"], "the topics are the same to both, and so no epoch begins"
    await cluster.move(after)
    first.wire = second.wire = cluster.wires[after]
    await beaten(first)  # which has revoked
    await beaten(second)
    await second.has(2)
    assert (await streams_facts(first.wire, group))["epochs"] == facts["epochs"]
    assert not first.active & second.active


async def beaten(member: StreamsMember | ShareMember) -> Any:
    """The answer to a heartbeat that the coordinator is ready for."""
    return await firmly(member.heartbeat, lambda answer: int(answer.error_code))


# Share groups -------------------------------------------------------------------------------------------------------


class Queue:
    """A topic of one partition on both brokers that a share group reads from its start."""

    def __init__(self, cluster: Cluster, topic: str, topic_id: bytes, group: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.topic_id = topic_id
        self.group = group

    @classmethod
    async def made(cls, cluster: Cluster, leader: int) -> "Queue":
        topic, group = unique("jobs"), unique("workers")
        await create(cluster.wires[leader], topic, {0: (leader, EOSIN + KAFKA - leader)})
        for wire in cluster.wires.values():
            await leads(wire, topic, leader)
        told = await cluster.wires[leader].ask(MetadataRequest(topics=(MetadataRequestTopic(name=topic),)), 12)
        resource = AlterConfigsResource(GROUP, group, (AlterableConfig("share.auto.offset.reset", 0, "earliest"),))
        await firmly(
            lambda: cluster.wires[EOSIN].ask(IncrementalAlterConfigsRequest(resources=(resource,)), 1),
            lambda answer: answer.responses[0].error_code,
        )
        return cls(cluster, topic, told.topics[0].topic_id, group)

    async def write(self, leader: int, count: int) -> None:
        await self.cluster.wires[leader].append(TopicPartition(self.topic, 0), count)

    async def member(self, coordinator: int) -> ShareMember:
        """A member that has the partition: its state is initialized."""
        member = ShareMember(self.cluster.wires[coordinator], self.group)
        await firmly(lambda: member.join(self.topic), lambda answer: int(answer.error_code))
        await member.has(1)
        return member

    def fetcher(self, leader: int) -> Fetcher:
        return Fetcher(self.cluster.wires[leader], self.group, self.topic_id)


async def share_facts(wire: Wire, group: str) -> dict[str, Any]:
    """What must be the same at both."""
    found = await answered(lambda: described_share_group(wire, group), lambda found: int(found.error_code))
    members = {
        each.member_id: (
            each.member_epoch,
            sorted((topic.topic_name, topic.partitions) for topic in each.assignment.topic_partitions),
        )
        for each in found.members
    }
    return {"state": found.group_state, "epochs": (found.group_epoch, found.assignment_epoch), "members": members}


@pytest.mark.parametrize(("before", "after"), DIRECTIONS, ids=IDS)
async def test_a_share_group_and_its_states_are_the_same_at_the_next_coordinators(
    cluster: Cluster, before: int, after: int
) -> None:
    """The partition's leader stays, so that its share coordinator is on this broker and on the other in turn."""
    await cluster.move(before)
    queue = await Queue.made(cluster, before)
    await queue.write(before, 10)
    member = await queue.member(before)
    await cluster.move(before, SHARE_GROUP_STATE_TOPIC)
    fetcher = queue.fetcher(before)
    assert await fetcher.fetch() == [(0, 9, 1)]
    assert await fetcher.acknowledge((0, 3, (ACCEPT,)), (4, 5, (RELEASE,))) == ErrorCode.NONE
    facts = await share_facts(cluster.wires[before], queue.group)

    await cluster.move(after)
    member.wire = cluster.wires[after]
    await shows(facts, lambda: share_facts(member.wire, queue.group))
    assert (await beaten(member)).member_epoch == member.epoch
    assert (await share_facts(member.wire, queue.group))["epochs"] == facts["epochs"]
    await cluster.move(after, SHARE_GROUP_STATE_TOPIC)
    assert await fetcher.acknowledge((6, 7, (ACCEPT,))) == ErrorCode.NONE
    assert await fetcher.fetch() == [(4, 5, 2)]

    async def is_told() -> bool:
        """Where the group is, by its coordinator, of a partition that another broker leads."""
        found = await where(member.wire, queue.group, queue.topic, 0)
        told = found.topics[0].partitions[0] if found.topics else None
        return told is not None and (told.start_offset, told.lag) == (4, 4)

    await until(is_told, every_s=0.05)


@pytest.mark.parametrize(("before", "after"), DIRECTIONS, ids=IDS)
async def test_what_was_acknowledged_does_not_come_again_from_the_next_leader_of_the_partition(
    cluster: Cluster, before: int, after: int
) -> None:
    """Group and states stay with the old leader, so that the next one asks another broker for them."""
    await cluster.move(before)
    queue = await Queue.made(cluster, before)
    await queue.write(before, 10)
    await queue.member(before)
    await cluster.move(before, SHARE_GROUP_STATE_TOPIC)
    fetcher = queue.fetcher(before)
    assert await fetcher.fetch() == [(0, 9, 1)]
    assert await fetcher.acknowledge((0, 3, (ACCEPT,)), (6, 7, (ACCEPT,))) == ErrorCode.NONE

    await cluster.move(after, queue.topic)
    next_one = queue.fetcher(after)
    found: list[tuple[int, int, int]] = []

    async def has_all() -> bool:
        data = await answered(next_one.data, lambda data: int(data.error_code))
        found.extend((each.first_offset, each.last_offset, each.delivery_count) for each in data.acquired_records)
        return sum(last - first + 1 for first, last, _ in found) >= 4

    await until(has_all, lambda: found)
    assert [each[:2] for each in sorted(found)] == [(4, 5), (8, 9)]
    assert await next_one.acknowledge((4, 5, (ACCEPT,)), (8, 9, (ACCEPT,))) == ErrorCode.NONE
    await queue.write(after, 1)
    assert await next_one.fetch() == [(10, 10, 1)]


@pytest.mark.parametrize(("coordinator", "keeper"), DIRECTIONS, ids=IDS)
async def test_an_administrator_moves_and_deletes_the_offsets_that_another_broker_keeps(
    cluster: Cluster, coordinator: int, keeper: int
) -> None:
    await cluster.move(coordinator)
    queue = await Queue.made(cluster, keeper)
    await queue.write(keeper, 5)
    member = await queue.member(coordinator)
    await cluster.move(keeper, SHARE_GROUP_STATE_TOPIC)
    fetcher = queue.fetcher(keeper)
    assert await fetcher.fetch() == [(0, 4, 1)]
    assert await member.leave() == ErrorCode.NONE
    wire = cluster.wires[coordinator]
    moved = await firmly(lambda: alter(wire, queue.group, queue.topic, (0, 3)), lambda answer: int(answer.error_code))
    assert moved.responses[0].partitions[0].error_code == ErrorCode.NONE, moved
    assert await fetcher.acknowledge((0, 4, (ACCEPT,))) != ErrorCode.NONE, "it had read the old state"
    heir = await queue.member(coordinator)
    assert await queue.fetcher(keeper).fetch() == [(3, 4, 1)]
    assert await heir.leave() == ErrorCode.NONE
    gone = await firmly(lambda: forget(wire, queue.group, queue.topic), lambda answer: int(answer.error_code))
    assert gone.responses[0].error_code == ErrorCode.NONE, gone
    told = await where(wire, queue.group, queue.topic, 0)
    assert told.topics[0].partitions[0].start_offset == -1
