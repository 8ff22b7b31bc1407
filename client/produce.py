"""One Produce request to the leader of one partition, with any bytes: what a producer, and a test of a broker, send."""

from typing import Final

from eosin.client.client import Client
from eosin.client.errors import ProtocolViolation
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.compression import BytesLike
from eosin.protocol.schemas.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

PRODUCE_TIMEOUT_MS: Final = 30_000


async def produce(
    client: Client,
    partition: TopicPartition,
    batch: BytesLike | None,
    *,
    transactional_id: str | None = None,
    acks: int = -1,
    timeout_ms: int = PRODUCE_TIMEOUT_MS,
    version: int | None = None,
    at_most: int | None = None,
) -> PartitionProduceResponse:
    """Send these bytes to the leader of a partition, once, and return its response, whatever the error code in it.

    Raises a ClientError when there is no response to return. `acks` is 1 or -1: with 0 there is never one.
    """
    assert acks in (1, -1)
    node = await client.leader(partition)
    data = TopicProduceData(
        name=partition.topic,
        topic_id=(await client.metadata(partition.topic)).topic_id(partition.topic),
        partition_data=(PartitionProduceData(index=partition.partition, records=batch),),
    )
    request = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=(data,))
    response: ProduceResponse = await client.request(
        ApiKey.PRODUCE, request, node=node, version=version, at_most=at_most
    )
    for topic in response.responses:
        for each in topic.partition_responses:
            if each.index == partition.partition:
                return each
    raise ProtocolViolation(f"the response to Produce leaves out {partition}")
