"""DescribeProducers (key 61), version 0: the producers that partitions of this broker know (KIP-664), those that it
follows included: a client that names a broker asks about the replica there, any other asks the leader.

All of them, whether a transaction is open or not: the epoch, the sequence and the timestamp of the last batch (ms, the
producer's clock; -1 for none), the epoch of the coordinator that wrote the last marker (-1 for none), and where the
open transaction starts (-1 for none). A partition that cannot be asked has an error: a name that no topic may
have, a partition that does not exist, or one of which this broker has no replica.
"""

from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

from eosin.broker.services import Services
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import ITEMS_PER_TURN, made_for_each, size_of, written
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition, is_legal_topic_name
from eosin.protocol.schemas.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import EncodedBody
from eosin.security.access import Access, on_each


async def handle(
    request: DescribeProducersRequest, context: RequestContext, services: Services
) -> Message | EncodedBody:
    """Each partition's answer. One that is named again is refused: the response would be many times what there is."""
    made = [await _response(request, context, services)]
    count = sum(1 + len(each.active_producers) for topic in made[0].topics for each in topic.partitions)
    return await written(ApiKey.DESCRIBE_PRODUCERS, made.pop(), count, context)


async def _response(
    request: DescribeProducersRequest, context: RequestContext, services: Services
) -> DescribeProducersResponse:
    seen: set[TopicPartition] = set()
    named = (TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes)
    steps = chain.from_iterable(_partition(partition, seen, context, services) for partition in named)
    count = size_of(request.topics, "partition_indexes")
    made = (each for each in await made_for_each(steps, _steps_of(request, services), context, services) if each)
    topics = (TopicResponse(topic.name, tuple(islice(made, len(topic.partition_indexes)))) for topic in request.topics)
    return DescribeProducersResponse(topics=tuple(await made_for_each(topics, count, context, services)))


def _steps_of(request: DescribeProducersRequest, services: Services) -> int:
    """About how many items a response has: partitions, and their producers where that is not many already."""
    count = size_of(request.topics, "partition_indexes")
    if count <= ITEMS_PER_TURN:
        for topic in request.topics:
            for index in topic.partition_indexes:
                log = services.partitions.replica(TopicPartition(topic.name, index))
                count += 0 if isinstance(log, ErrorCode) else len(log.producer_state)
    return count


def _partition(
    partition: TopicPartition, seen: set[TopicPartition], context: RequestContext, services: Services
) -> Iterator[PartitionResponse | None]:
    """The answer, after None for each producer in it."""
    if not is_legal_topic_name(partition.topic):
        yield PartitionResponse(partition.partition, ErrorCode.INVALID_TOPIC_EXCEPTION)
        return
    if not context.session.may(Operation.READ, ResourceType.TOPIC, partition.topic):
        yield PartitionResponse(partition.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return
    log = services.partitions.replica(partition)
    if isinstance(log, ErrorCode):
        yield PartitionResponse(partition.partition, log)
        return
    if partition in seen:
        yield PartitionResponse(partition.partition, ErrorCode.INVALID_REQUEST)
        return
    seen.add(partition)
    producers: list[ProducerState] = []
    for producer in log.each_producer():
        # The fields of an `ActiveProducer` are those of the message, in its order.
        producers.append(ProducerState(*producer))
        yield None
    yield PartitionResponse(partition.partition, active_producers=tuple(producers))


def refuse(request: DescribeProducersRequest, context: RequestContext, error: ErrorCode) -> DescribeProducersResponse:
    """`error` for every partition."""
    topics = (
        TopicResponse(topic.name, tuple(PartitionResponse(index, error) for index in topic.partition_indexes))
        for topic in request.topics
    )
    return DescribeProducersResponse(topics=tuple(topics))


API: Final = Api(
    key=ApiKey.DESCRIBE_PRODUCERS,
    versions=range(0, 1),
    handle=handle,
    refuse=refuse,
    access=Access((on_each(Operation.READ, ResourceType.TOPIC),)),
)
