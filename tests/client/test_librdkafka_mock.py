"""The client against a broker that is not ours: the mock cluster inside librdkafka, which speaks older versions."""

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from waiting import HANG_S

from eosin.client.addresses import Address
from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import LATEST, Consumer
from eosin.client.health import probe
from eosin.client.producer import TV1, Producer
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import Compression, NewRecord

pytestmark = pytest.mark.process

SPOKEN = {
    ApiKey.METADATA: 8,
    ApiKey.FIND_COORDINATOR: 2,
    ApiKey.PRODUCE: 7,
    ApiKey.FETCH: 11,
    ApiKey.LIST_OFFSETS: 5,
    ApiKey.INIT_PRODUCER_ID: 1,
    ApiKey.TXN_OFFSET_COMMIT: 2,
}
"""The last versions that are not flexible: the mock ends its flexible answers with a byte too many."""


@pytest.fixture(scope="module")
def mock_cluster() -> Iterator[Address]:
    """A mock cluster of one broker lives as long as the producer that was configured with it."""
    host: Any = confluent_kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = host.list_topics(timeout=HANG_S).brokers.values()
    yield Address(broker.host, broker.port)
    host.flush(0)


async def test_it_is_probed_and_described(mock_cluster: Address) -> None:
    assert len((await probe(mock_cluster, 5000)).api_keys) > 10
    async with Client([mock_cluster], versions=SPOKEN) as client:
        metadata = await Admin(client).topics()
        assert list(metadata.brokers.values()) == [mock_cluster]


@pytest.mark.parametrize("codec", Compression)
async def test_produced_records_are_read_back(mock_cluster: Address, codec: Compression) -> None:
    partition = TopicPartition(f"plain-{codec.config_name}", 0)
    async with Client([mock_cluster], versions=SPOKEN) as client:
        await client.fetch_metadata([partition.topic], allow_auto_topic_creation=True)
        producer = Producer(client, compression=codec)
        await producer.init()
        records = [NewRecord(b"key", b"value %d" % index, 1000, (("h", b"x"),)) for index in range(100)]
        assert await producer.send(partition, records[:60]) == 0
        assert await producer.send(partition, records[60:]) == 60
        consumer = Consumer(client)
        await consumer.assign_from([partition])
        read = await consumer.read_to_end()
        assert [each.record.value for each in read] == [record.value for record in records]
        assert [each.record.offset for each in read] == list(range(100))


async def test_transactions_of_the_first_protocol_are_spoken(mock_cluster: Address) -> None:
    partition = TopicPartition("transactional", 0)
    async with Client([mock_cluster], versions=SPOKEN) as client:
        await client.fetch_metadata([partition.topic], allow_auto_topic_creation=True)
        producer = Producer(client, "tx")
        await producer.init()
        assert producer.transaction_version == TV1
        for end in (producer.commit, producer.abort, producer.commit):
            producer.begin()
            await producer.send(partition, [NewRecord(b"k", b"v", 1)])
            await producer.send_offsets({partition: 1}, "group")
            await end()
        # Nothing is read: the mock's markers have no valid checksum.
        assert (await Consumer(client).list_offset(partition, LATEST)).offset >= 3
