"""An Eosin broker and one of Apache Kafka in one cluster, which follow each other: coordinators move between the
two, and a producer sends each request where a client would.

    with mixed_brokers(folder) as brokers:
        async with connected(brokers) as cluster:
            await cluster.move(KAFKA)  # Apache Kafka coordinates
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from joined_broker import JoinedBroker, replicated
from kraft_node import SHORT_SESSIONS, KafkaBroker, QuorumController
from real_clients import confluent
from toolchains import skipped_without
from waiting import HANG_S, until
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

EOSIN: Final = 1
KAFKA: Final = 2
INTERNAL: Final = (TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC)
SETTINGS: Final = replicated(2, partitions=1)
_LATER: Final = {
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
"""The errors after which a client asks again."""


class Addresses(Protocol):
    """Two brokers, 1 and 2."""

    def address(self, node_id: int) -> str:
        """The address of one of them."""


class Brokers(NamedTuple):
    """The two, and their controller."""

    controller: QuorumController
    eosin: JoinedBroker
    kafka: KafkaBroker

    @property
    def addresses(self) -> str:
        """The bootstrap servers."""
        return f"{self.eosin.address},{self.kafka.address}"

    def address(self, node_id: int) -> str:
        """The address of one of them."""
        return self.eosin.address if node_id == EOSIN else self.kafka.address


@contextmanager
def mixed_brokers(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[Brokers]:
    """A cluster of its own: each of its internal topics has one partition, on both brokers. `settings` are for both.
    Without Java the test is skipped."""
    made = {**SETTINGS, **(settings or {})}
    with skipped_without():
        # Tests kill these brokers and start them again, which the controller allows when a session is over.
        controller = QuorumController(folder / "controller", settings=SHORT_SESSIONS)
    with (
        controller,
        KafkaBroker(folder / "kafka", controller, node_id=KAFKA, settings=made) as kafka,
        JoinedBroker(folder / "eosin", controller, node_id=EOSIN, durability="fsync", settings=made) as eosin,
    ):
        yield Brokers(controller, eosin, kafka)


class Cluster:
    """A connection to each broker, and what a client does with them."""

    def __init__(self, wires: dict[int, Wire]) -> None:
        self.wires = wires

    async def assign(self, *node_ids: int, topics: Sequence[str] = INTERNAL) -> None:
        """Have these brokers, and no others, hold the only partitions of topics, by default of both internal ones."""
        replicas = ReassignablePartition(0, node_ids)
        request = AlterPartitionReassignmentsRequest(
            topics=tuple(ReassignableTopic(each, (replicas,)) for each in topics)
        )
        await firmly(
            lambda: self.wires[node_ids[0]].ask(request, 0),
            lambda answer: max(each.partitions[0].error_code for each in answer.responses),
        )

    async def move(self, node_id: int, *topics: str) -> None:
        """Have that broker lead topics, by default both internal ones."""
        named = topics or INTERNAL
        await self.assign(node_id, EOSIN + KAFKA - node_id, topics=named)
        wire = self.wires[node_id]
        wanted = tuple(TopicPartitions(each, (0,)) for each in named)
        await firmly(
            lambda: wire.ask(ElectLeadersRequest(0, wanted, 10_000), 2),
            lambda answer: max(
                [each.partition_result[0].error_code for each in answer.replica_election_results
                 if each.partition_result[0].error_code != ErrorCode.ELECTION_NOT_NEEDED] or [0]
            ),
        )  # fmt: skip
        for each in self.wires.values():
            for topic in named:
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
    """The answer of `ask` when the broker is ready for it, as a client waits for that."""
    async with asyncio.timeout(HANG_S):
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

    async def is_known() -> bool:
        answer = await wire.ask(MetadataRequest(topics=(MetadataRequestTopic(name=topic),)), 12)
        told = answer.topics[0].partitions
        return bool(told) and told[0].leader_id == node_id

    await until(is_known, every_s=0.05)


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
    """The offset that a group has committed, stable (as `read_committed` consumers ask)."""
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
    """The number of records that a `read_committed` consumer gets when it waits for `count`."""
    consumer = confluent.CLIENT.consumer(brokers.addresses, group=unique("readers"))
    consumer.assign({tuple(partition): 0})
    try:
        return len(consumer.read(count))
    finally:
        consumer.close()


@asynccontextmanager
async def connected(brokers: Addresses) -> AsyncIterator[Cluster]:
    """Connections to both, when the internal topics are there."""
    wires = {node_id: await Wire.open(brokers.address(node_id)) for node_id in (EOSIN, KAFKA)}
    made = Cluster(wires)
    for wire in wires.values():  # the internal topics come with the first question for a coordinator
        await firmly(lambda each=wire: each.init(unique("tx")), lambda answer: 0)
        await _committed_or_absent(wire)
    yield made
    for wire in wires.values():
        await wire.close()


async def _committed_or_absent(wire: Wire) -> None:
    for kind in (0, 1):
        await firmly(
            lambda each=kind: wire.ask(FindCoordinatorRequest(key_type=each, coordinator_keys=("x",)), 4),
            lambda answer: answer.coordinators[0].error_code,
        )
