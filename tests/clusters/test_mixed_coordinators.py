"""Coordinators that move between an Eosin broker and one of Apache Kafka: transactions, offsets and producers go on as
if nothing had happened (cluster.md 6.9)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from librdkafka_log import DEBUG, explained
from mixed_cluster import (
    EOSIN,
    KAFKA,
    Brokers,
    Cluster,
    Producer,
    answered,
    committed_offset,
    connected,
    leads,
    mixed_brokers,
    read_committed,
)
from real_clients import confluent
from wire import unique

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TRANSACTION_STATE_TOPIC


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with mixed_brokers(tmp_path_factory.mktemp("mixed")) as made:
        yield made


@pytest.fixture
async def cluster(brokers: Brokers) -> AsyncIterator[Cluster]:
    async with connected(brokers) as made:
        yield made


CONSUMER = {"session.timeout.ms": 45_000, "retry.backoff.ms": 1000, "debug": DEBUG}
"""A commit that is sent again too early takes librdkafka's next coordinator away from it (docs/clients/python.md)."""
WAIT_S = 120
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
    brokers: Brokers, cluster: Cluster, before: int, after: int, tmp_path: Path
) -> None:
    with explained(tmp_path / "consumer.log"):
        await _read_on(brokers, cluster, before, after)


async def _read_on(brokers: Brokers, cluster: Cluster, before: int, after: int) -> None:
    """Read and commit before the coordinator moves, and after."""
    await cluster.move(before)
    partition, group = await cluster.topic(EOSIN), unique("group")

    def produce() -> None:
        producer = confluent.CLIENT.producer(brokers.addresses)
        for number in range(20):
            producer.send(partition.topic, b"%d" % number, partition=0)
        producer.flush()

    await asyncio.to_thread(produce)
    consumer = confluent.Confluent().consumer(brokers.addresses, group=group, more=CONSUMER)
    try:
        consumer.subscribe([partition.topic])
        assert len(await asyncio.to_thread(consumer.read, 20, WAIT_S)) == 20
        member = consumer.raw.memberid()
        await asyncio.to_thread(consumer.commit, {tuple(partition): 20})
        await cluster.move(after)
        assert await committed_offset(cluster.wires[after], group, partition) == 20
        await asyncio.to_thread(produce)
        assert len(await asyncio.to_thread(consumer.read, 20, WAIT_S)) == 20
        await asyncio.to_thread(consumer.commit, {tuple(partition): 40})
        assert consumer.raw.memberid() == member
        assert await committed_offset(cluster.wires[after], group, partition) == 40
    finally:
        await asyncio.to_thread(consumer.close)


@pytest.mark.full
@pytest.mark.parametrize(("before", "after"), DIRECTIONS, ids=["eosin-kafka", "kafka-eosin"])
async def test_a_decision_before_a_kill_9_is_completed_by_the_next_coordinator(
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
