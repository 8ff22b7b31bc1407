"""The topics, partitions and positions that options of a read name, from a broker and without Spark."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from local_broker import SOCKET, local_broker

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.producer import Producer
from eosin.pipeline.common.errors import MissingOffsets, MissingTopic
from eosin.pipeline.source.log_offsets import LogOffsets
from eosin.pipeline.source.options import LATEST, SourceOptions, Timestamps
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord

pytestmark = pytest.mark.process

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client of a broker with two topics; partition 0 of `a` has records of times 1000, 2000 and 3000."""
    async with local_broker(listeners=SOCKET) as broker, Client(broker.addresses[0]) as running:
        for topic, partitions in (("a", 2), ("b", 1)):
            await Admin(running).create_topic(topic, partitions, configs={"retention.ms": "-1"})
        producer = Producer(running)
        for time in (1000, 2000, 3000):
            await producer.send(A0, [NewRecord(None, b"x")], timestamp=time)
        yield running


OPTIONS = SourceOptions("unused:1", ("a",))


async def test_a_pattern_names_whole_topics_and_may_find_none(client: Client) -> None:
    for pattern, found in (("a|b", [A0, A1, B0]), ("b.*", [B0]), ("", []), ("c", [])):
        source = LogOffsets(client, replace(OPTIONS, topics=(), pattern=pattern))
        assert (await source.partitions()).partitions == found


async def test_assigned_partitions_must_exist(client: Client) -> None:
    source = LogOffsets(client, replace(OPTIONS, assigned=(A1,)))
    assert (await source.partitions()).partitions == [A1]
    source = LogOffsets(client, replace(OPTIONS, assigned=(A0, TopicPartition("a", 7))))
    with pytest.raises(MissingTopic, match="partition a-7 does not exist"):
        await source.partitions()


async def test_a_position_by_offsets_has_sparks_numbers_for_earliest_and_latest(client: Client) -> None:
    source = LogOffsets(client, OPTIONS)
    assert await source.positions([A0, A1], {A0: -1, A1: -2}) == {A0: 3, A1: 0}
    assert await source.positions([A0, A1], {A0: 2, B0: 9}) == {A0: 2, A1: 0}


async def test_a_position_by_time_is_the_first_record_from_it_on(client: Client) -> None:
    source = LogOffsets(client, OPTIONS)
    assert await source.positions([A0, A1], Timestamps(1500, {}, False)) == {A0: 1, A1: 0}
    assert await source.positions([A0, A1], Timestamps(None, {A0: 2000}, True)) == {A0: 1, A1: 0}
    assert await source.positions([A0], Timestamps(9000, {}, False), others=LATEST) == {A0: 3}
    with pytest.raises(MissingOffsets, match="a-0 has no record from timestamp 9000 on: choose an earlier one"):
        await source.positions([A0], Timestamps(9000, {}, True))
