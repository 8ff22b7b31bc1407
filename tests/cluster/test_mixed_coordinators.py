"""Coordinators that move between an Eosin broker and one of Apache Kafka: transactions, offsets and producers go on as
if nothing had happened (cluster.md 6.9)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, NamedTuple

import pytest
from joined_broker import JoinedBroker
from kraft_node import KafkaBroker, QuorumController
from real_clients import confluent
from toolchains import skipped_without
from wire import Wire, unique
from wire_producer import RawProducer

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from eosin.protocol.schemas.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from eosin.protocol.schemas.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from eosin.protocol.schemas.elect_leaders import ElectLeadersRequest, TopicPartitions
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from eosin.protocol.schemas.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics

EOSIN, KAFKA = 1, 2
INTERNAL = (TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC)
_SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
}
_LATER = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REASSIGNMENT_IN_PROGRESS,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
}
"""What a client asks again after."""


class Brokers(NamedTuple):
    eosin: JoinedBroker
    kafka: KafkaBroker

    @property
    def addresses(self) -> str:
        return f"{self.eosin.address},{self.kafka.address}"

    def address(self, node_id: int) -> str:
        return self.eosin.address if node_id == EOSIN else self.kafka.address


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """A cluster of this module's own: each of its internal topics has one partition, on both brokers."""
    folder = tmp_path_factory.mktemp("mixed")
    with skipped_without():
        controller = QuorumController(folder / "controller")
    with (
        controller,
        KafkaBroker(folder / "kafka", controller, node_id=KAFKA, settings=_SETTINGS) as kafka,
        JoinedBroker(folder / "eosin", controller, node_id=EOSIN, durability="fsync", settings=_SETTINGS) as eosin,
    ):
        yield Brokers(eosin, kafka)


class Cluster:
    """A connection to each broker, and what a client does with them."""

    def __init__(self, wires: dict[int, Wire]) -> None:
        self.wires = wires

    async def move(self, node_id: int) -> None:
        """Have that broker lead both internal topics."""
        other = EOSIN + KAFKA - node_id
        wire = self.wires[node_id]
        replicas = ReassignablePartition(0, (node_id, other))
        await firmly(
            lambda: wire.ask(
                AlterPartitionReassignmentsRequest(
                    topics=tuple(ReassignableTopic(each, (replicas,)) for each in INTERNAL)
                ),
                0,
            ),
            lambda answer: max(each.partitions[0].error_code for each in answer.responses),
        )
        wanted = tuple(TopicPartitions(each, (0,)) for each in INTERNAL)
        await firmly(
            lambda: wire.ask(ElectLeadersRequest(0, wanted, 10_000), 2),
            lambda answer: max(
                [each.partition_result[0].error_code for each in answer.replica_election_results
                 if each.partition_result[0].error_code != ErrorCode.ELECTION_NOT_NEEDED] or [0]
            ),
        )  # fmt: skip
        for each in self.wires.values():
            for topic in INTERNAL:
                await leads(each, topic, node_id)

    async def topic(self, node_id: int) -> TopicPartition:
        """The only partition of a new topic, on that broker alone."""
        name = unique("topic")
        assignment = {0: (node_id,)}
        await create(self.wires[node_id], name, assignment)
        for each in self.wires.values():
            await leads(each, name, node_id)
        return TopicPartition(name, 0)


async def answered(ask: Callable[[], Awaitable[Any]], code: Callable[[Any], int]) -> Any:
    """What `ask` answers when the broker is ready for it, as a client waits for that."""
    async with asyncio.timeout(30):
        while True:
            answer = await ask()
            if code(answer) not in _LATER:
                return answer
            await asyncio.sleep(0.05)


async def firmly(ask: Callable[[], Awaitable[Any]], code: Callable[[Any], int]) -> Any:
    """The same, where it must succeed."""
    answer = await answered(ask, code)
    assert code(answer) == ErrorCode.NONE, ErrorCode(code(answer))
    return answer


async def leads(wire: Wire, topic: str, node_id: int) -> None:
    """Wait until the broker of `wire` knows that `node_id` leads the topic."""
    async with asyncio.timeout(30):
        while True:
            answer = await wire.ask(MetadataRequest(topics=(MetadataRequestTopic(name=topic),)), 12)
            told = answer.topics[0].partitions
            if told and told[0].leader_id == node_id:
                return
            await asyncio.sleep(0.05)


async def create(wire: Wire, name: str, assignment: dict[int, tuple[int, ...]]) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=tuple(CreatableReplicaAssignment(index, node_ids) for index, node_ids in assignment.items()),
    )
    answer = await wire.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 7)
    assert [each.error_code for each in answer.topics] == [ErrorCode.NONE]


class Producer:
    """A transactional producer of a cluster: each of its requests goes where a client would send it."""

    def __init__(self, cluster: Cluster, raw: RawProducer, homes: dict[TopicPartition, int]) -> None:
        self.cluster = cluster
        self.raw = raw
        self.homes = homes

    @classmethod
    async def made(
        cls,
        cluster: Cluster,
        coordinator: int,
        homes: dict[TopicPartition, int],
        *,
        level: int,
        name: str | None = None,
    ) -> "Producer":
        name = name or unique("tx")
        answer = await firmly(lambda: cluster.wires[coordinator].init(name), lambda answer: int(answer.error_code))
        raw = RawProducer(cluster.wires[coordinator], name, answer.producer_id, answer.producer_epoch, level)
        return cls(cluster, raw, homes)

    def at(self, node_id: int) -> RawProducer:
        self.raw.wire = self.cluster.wires[node_id]
        return self.raw

    async def write(self, coordinator: int, *partitions: TopicPartition) -> None:
        """A record to each partition, within the transaction."""
        for partition in partitions:
            if self.raw.level < 2:
                await firmly(lambda each=partition: self.at(coordinator).add(each), int)
            home = self.homes[partition]
            batch = self.at(home).batch(partition)
            await firmly(
                lambda each=partition, to=home, data=batch: self.at(to).resend(each, data),
                lambda answer: answer.error_code,
            )

    async def write_offsets(self, coordinator: int, group: str, partition: TopicPartition, offset: int) -> None:
        if self.raw.level < 2:
            await firmly(lambda: self.at(coordinator).add_offsets(group), int)
        await firmly(lambda: self.at(coordinator).commit_offsets(group, partition, offset), int)

    async def end(self, coordinator: int, *, commit: bool) -> None:
        await firmly(lambda: self.at(coordinator).end(commit=commit), lambda answer: int(answer.error_code))


async def committed_offset(wire: Wire, group: str, partition: TopicPartition) -> int:
    """What a group has committed, stable (as `read_committed` consumers ask)."""
    wanted = OffsetFetchRequestTopics(name=partition.topic, partition_indexes=(partition.partition,))
    request = OffsetFetchRequest(
        groups=(OffsetFetchRequestGroup(group_id=group, topics=(wanted,)),), require_stable=True
    )
    found = -2

    def code(answer: Any) -> int:
        nonlocal found
        (told,) = answer.groups
        if told.error_code:
            return int(told.error_code)
        entries = [each for topic in told.topics if topic.name == partition.topic for each in topic.partitions]
        found = entries[0].committed_offset if entries else -1
        return ErrorCode.CONCURRENT_TRANSACTIONS if entries and entries[0].error_code else ErrorCode.NONE

    await firmly(lambda: wire.ask(request, 8), code)
    return found


def read_committed(brokers: Brokers, partition: TopicPartition, count: int) -> int:
    """How many records a `read_committed` consumer gets when it waits for `count`."""
    consumer = confluent.CLIENT.consumer(brokers.addresses, group=unique("readers"))
    consumer.assign({tuple(partition): 0})
    try:
        return len(consumer.read(count))
    finally:
        consumer.close()


@pytest.fixture
async def cluster(brokers: Brokers) -> AsyncIterator[Cluster]:
    wires = {node_id: await Wire.open(brokers.address(node_id)) for node_id in (EOSIN, KAFKA)}
    made = Cluster(wires)
    for wire in wires.values():  # the internal topics come with the first question for a coordinator
        await firmly(lambda each=wire: each.init(unique("tx")), lambda answer: 0)
        await committed_or_absent(wire)
    yield made
    for wire in wires.values():
        await wire.close()


async def committed_or_absent(wire: Wire) -> None:
    for kind in (0, 1):
        await firmly(
            lambda each=kind: wire.ask(FindCoordinatorRequest(key_type=each, coordinator_keys=("x",)), 4),
            lambda answer: answer.coordinators[0].error_code,
        )


DIRECTIONS = [(EOSIN, KAFKA), (KAFKA, EOSIN)]


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize(("before", "after"), DIRECTIONS, ids=["eosin-kafka", "kafka-eosin"])
async def test_an_open_transaction_goes_on_with_the_next_coordinator(
    brokers: Brokers, cluster: Cluster, before: int, after: int, level: int
) -> None:
    await cluster.move(before)
    homes = {await cluster.topic(node_id): node_id for node_id in (EOSIN, KAFKA)}
    source, group = next(iter(homes)), unique("group")
    producer = await Producer.made(cluster, before, homes, level=level)
    await producer.write(before, *homes)
    await producer.write_offsets(before, group, source, 7)
    await cluster.move(after)
    await producer.end(after, commit=True)
    assert await committed_offset(cluster.wires[after], group, source) == 7
    # And back, in the middle of the next one, which is aborted.
    await producer.write(after, *homes)
    await producer.write_offsets(after, group, source, 8)
    await cluster.move(before)
    await producer.end(before, commit=False)
    await producer.write(before, *homes)
    await producer.end(before, commit=True)
    assert await committed_offset(cluster.wires[before], group, source) == 7
    for partition in homes:
        assert await asyncio.to_thread(read_committed, brokers, partition, 2) == 2


@pytest.mark.parametrize(("before", "after"), DIRECTIONS, ids=["eosin-kafka", "kafka-eosin"])
async def test_the_next_coordinator_fences_and_aborts_what_the_last_one_knew(
    brokers: Brokers, cluster: Cluster, before: int, after: int
) -> None:
    await cluster.move(before)
    homes = {await cluster.topic(node_id): node_id for node_id in (EOSIN, KAFKA)}
    zombie = await Producer.made(cluster, before, homes, level=2)
    await zombie.write(before, *homes)
    await cluster.move(after)
    heir = await Producer.made(cluster, after, homes, level=2, name=zombie.raw.transactional_id)
    await heir.write(after, *homes)
    await heir.end(after, commit=True)
    refused = await answered(lambda: zombie.at(after).end(commit=True), lambda answer: int(answer.error_code))
    assert refused.error_code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    for partition in homes:
        assert await asyncio.to_thread(read_committed, brokers, partition, 1) == 1


@pytest.mark.parametrize(("before", "after"), DIRECTIONS, ids=["eosin-kafka", "kafka-eosin"])
async def test_a_group_keeps_its_members_and_its_offsets_with_the_next_coordinator(
    brokers: Brokers, cluster: Cluster, before: int, after: int
) -> None:
    await cluster.move(before)
    partition, group = await cluster.topic(EOSIN), unique("group")

    def consume() -> None:
        producer = confluent.CLIENT.producer(brokers.addresses)
        for number in range(20):
            producer.send(partition.topic, b"%d" % number, partition=0)
        producer.flush()

    await asyncio.to_thread(consume)
    consumer = confluent.CLIENT.consumer(brokers.addresses, group=group)
    try:
        consumer.subscribe([partition.topic])
        assert len(await asyncio.to_thread(consumer.read, 20)) == 20
        await asyncio.to_thread(consumer.commit, {tuple(partition): 20})
        await cluster.move(after)
        assert await committed_offset(cluster.wires[after], group, partition) == 20
        await asyncio.to_thread(consume)
        assert len(await asyncio.to_thread(consumer.read, 20)) == 20
        await asyncio.to_thread(consumer.commit, {tuple(partition): 40})
        assert await committed_offset(cluster.wires[after], group, partition) == 40
    finally:
        await asyncio.to_thread(consumer.close)


@pytest.mark.full
@pytest.mark.parametrize(("before", "after"), DIRECTIONS, ids=["eosin-kafka", "kafka-eosin"])
async def test_what_was_decided_before_a_kill_9_is_completed_by_the_next_coordinator(
    brokers: Brokers, cluster: Cluster, before: int, after: int
) -> None:
    await cluster.move(before)
    partition = await cluster.topic(after)
    homes = {partition: after}
    producers = [await Producer.made(cluster, before, homes, level=2) for _ in range(6)]
    for producer in producers:
        await producer.write(before, partition)
    ends = [asyncio.ensure_future(each.end(before, commit=True)) for each in producers[:3]]
    await asyncio.gather(*ends)
    node = brokers.eosin if before == EOSIN else brokers.kafka
    await asyncio.to_thread(node.kill)
    try:
        await leads(cluster.wires[after], TRANSACTION_STATE_TOPIC, after)
        for producer in producers[3:]:
            await producer.end(after, commit=True)
        assert await asyncio.to_thread(read_committed, brokers, partition, 6) == 6
    finally:
        await asyncio.to_thread(node.start)
