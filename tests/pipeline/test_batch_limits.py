"""Topics that take smaller batches than the sink would make, and rows that are too large for their topic."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from msgspec.structs import replace
from stub_broker import StubBroker
from virtual_broker import VirtualBroker

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import Consumer
from eosin.client.errors import BrokerError
from eosin.client.producer import Producer
from eosin.pipeline.common.errors import BadRows
from eosin.pipeline.sink.batch_limits import BatchLimits
from eosin.pipeline.sink.row_writer import RowWriter
from eosin.pipeline.sink.rows import Rows
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.schemas.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataResponse

pytestmark = pytest.mark.virtual

LIMIT = 10_000
TOPIC = "small"
DESCRIBE_CONFIGS = 1 << 10


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client of a broker with a topic whose batches have at most `LIMIT` bytes."""
    broker = VirtualBroker({})
    await broker.start()
    async with Client(broker.address) as client:
        await Admin(client).create_topic(TOPIC, 1, configs={"max.message.bytes": str(LIMIT)})
        yield client


async def writer_for(client: Client) -> RowWriter:
    producer = Producer(client)
    await producer.init()
    return RowWriter(client, producer, TOPIC, timestamp=1, limits=BatchLimits(client))


async def as_lists(writer: RowWriter, keys: list[bytes], values: list[bytes]) -> None:
    await writer.write(Rows(keys, values))


async def in_arrow(writer: RowWriter, keys: list[bytes], values: list[bytes]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    await writer.write_arrow(pyarrow.record_batch({"key": keys, "value": values}))


@pytest.fixture(params=[as_lists, in_arrow])
def write(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Both ways of writing rows."""
    found: Callable[..., Any] = request.param
    return found


async def test_rows_are_written_in_batches_that_the_topic_takes(client: Client, write: Callable[..., Any]) -> None:
    keys = [f"{index:05}".encode() for index in range(5000)]
    writer = await writer_for(client)
    await write(writer, keys, [b"x" * 300] * len(keys))
    await writer.finish()
    consumer = Consumer(client)
    await consumer.assign_from([TopicPartition(TOPIC, 0)])
    assert [each.record.key for each in await consumer.read_to_end()] == keys


async def test_a_row_may_fill_a_batch_and_one_byte_more_names_the_row_and_the_setting(
    client: Client, write: Callable[..., Any]
) -> None:
    overhead = len(build_batch([NewRecord(b"fits", b"x" * LIMIT)], timestamp=1)) - LIMIT
    writer = await writer_for(client)
    await write(writer, [b"fits"], [b"x" * (LIMIT - overhead)])
    await writer.finish()
    writer = await writer_for(client)
    await write(writer, [b"other", b"large"], [b"x", b"x" * (LIMIT - overhead)])
    with pytest.raises(
        BadRows, match=r"key b'large' .* 10,001 bytes, and topic small takes 10,000 \(max\.message\.bytes"
    ):
        await writer.finish()


def described(operations: int, value: str | None) -> StubBroker:
    """A broker that tells what a user may do with a topic, and its largest batch."""
    broker = StubBroker(topics=[TOPIC])

    def metadata(request: MetadataRequest, version: int) -> MetadataResponse:
        told = broker.metadata(request, version)
        return replace(
            told, topics=tuple(replace(each, topic_authorized_operations=operations) for each in told.topics)
        )

    broker.answers[ApiKey.METADATA] = metadata
    setting = DescribeConfigsResourceResult("max.message.bytes", value)
    broker.answers[ApiKey.DESCRIBE_CONFIGS] = lambda *_: DescribeConfigsResponse(
        results=(DescribeConfigsResult(configs=(setting,)),)
    )
    return broker


@pytest.mark.parametrize(
    ("operations", "asked", "limit"), [(DESCRIBE_CONFIGS, 1, LIMIT), (~DESCRIBE_CONFIGS & 0x7FF, 0, None)]
)
async def test_a_topic_is_asked_once_and_only_by_who_may_ask(operations: int, asked: int, limit: int | None) -> None:
    async with described(operations, str(LIMIT)) as broker, Client([broker.address]) as client:
        limits = BatchLimits(client)
        assert [await limits.of(TOPIC), await limits.of(TOPIC)] == [limit, limit]
        assert len(broker.requests(ApiKey.DESCRIBE_CONFIGS)) == asked


async def test_a_batch_that_a_broker_refuses_for_its_size_names_the_setting(client: Client) -> None:
    writer = await writer_for(client)

    async def refused(*_: object) -> int:
        raise BrokerError(ErrorCode.MESSAGE_TOO_LARGE, "appending to small-0")

    writer._producer.send_built = refused  # type: ignore[method-assign]
    await as_lists(writer, [b"a"], [b"1"])
    with pytest.raises(BrokerError, match=r"small-0: MESSAGE_TOO_LARGE \(.*max\.message\.bytes of topic small"):
        await writer.finish()
