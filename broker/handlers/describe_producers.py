"""DescribeProducers (key 61), version 0: the producers that partitions of this broker know (KIP-664), those that it
follows included: a client that names a broker asks about the replica there, any other asks the leader.

All of them, whether a transaction is open or not: the epoch, the sequence and the timestamp of the last batch (ms, the
producer's clock; -1 for none), the epoch of the coordinator that wrote the last marker (-1 for none), and where the
open transaction starts (-1 for none). A partition that cannot be asked has an error: a name that no topic may
have, a partition that does not exist, or one of which this broker has no replica.
"""

from itertools import islice
from typing import Final

from eosin.broker.services import Services
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each, size_of
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
from eosin.security.access import Access, on_each


async def handle(
    request: DescribeProducersRequest, context: RequestContext, services: Services
) -> DescribeProducersResponse:
    """Each partition's answer. One that is named again is refused: the response would be many times what there is."""
    seen: set[TopicPartition] = set()
    answers = (
        _partition(TopicPartition(topic.name, index), seen, context, services)
        for topic in request.topics
        for index in topic.partition_indexes
    )
    count = size_of(request.topics, "partition_indexes")
    made = iter(await made_for_each(answers, count, context, services))
    topics = (TopicResponse(topic.name, tuple(islice(made, len(topic.partition_indexes)))) for topic in request.topics)
    return DescribeProducersResponse(topics=tuple(await made_for_each(topics, count, context, services)))


def _partition(
    partition: TopicPartition, seen: set[TopicPartition], context: RequestContext, services: Services
) -> PartitionResponse:
    if not is_legal_topic_name(partition.topic):
        return PartitionResponse(partition.partition, ErrorCode.INVALID_TOPIC_EXCEPTION)
    if not context.session.may(Operation.READ, ResourceType.TOPIC, partition.topic):
        return PartitionResponse(partition.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    log = services.partitions.replica(partition)
    if isinstance(log, ErrorCode):
        return PartitionResponse(partition.partition, log)
    if partition in seen:
        return PartitionResponse(partition.partition, ErrorCode.INVALID_REQUEST)
    seen.add(partition)
    # The fields of an `ActiveProducer` are those of the message, in its order.
    producers = tuple(ProducerState(*producer) for producer in log.producers())
    return PartitionResponse(partition.partition, active_producers=producers)


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
