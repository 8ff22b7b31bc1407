"""DeleteRecords (key 21), versions 0-2: move the start of some partitions forward.

v2 is the first flexible version. Offset -1 means the high watermark; an offset at or below the log start changes
nothing. Only topics whose cleanup.policy contains `delete` allow it, and never internal ones (storage.md section 13).
Under durability `fsync` the new start is durable before it is answered: what was deleted does not come back. The
request's timeout is for the wait for other live replicas, as in Kafka: they follow the leader's start with their next
fetches.
"""

import asyncio
from itertools import islice
from typing import Final

from eosin.broker.api import Api, RequestContext, Services
from eosin.broker.security.access import Access, on_each
from eosin.broker.security.resources import Operation, ResourceType
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import INTERNAL_TOPICS, TopicPartition
from eosin.protocol.schemas.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_Result = DeleteRecordsPartitionResult


async def handle(request: DeleteRecordsRequest, context: RequestContext, services: Services) -> DeleteRecordsResponse:
    """Move every partition's start, all side by side."""
    results = iter(
        await asyncio.gather(
            *(
                _delete(topic.name, each, services, timeout_ms=request.timeout_ms) if is_open else _denied(each)
                for topic in request.topics
                for is_open in (context.session.may(Operation.DELETE, ResourceType.TOPIC, topic.name),)
                for each in topic.partitions
            )
        )
    )
    return DeleteRecordsResponse(
        topics=tuple(
            DeleteRecordsTopicResult(topic.name, tuple(islice(results, len(topic.partitions))))
            for topic in request.topics
        )
    )


async def _delete(topic: str, wanted: DeleteRecordsPartition, services: Services, *, timeout_ms: int) -> _Result:
    partition = TopicPartition(topic, wanted.partition_index)
    if partition.topic in INTERNAL_TOPICS:
        return _refused(partition.partition, ErrorCode.INVALID_TOPIC_EXCEPTION)
    log = services.partitions.get(partition)
    if isinstance(log, ErrorCode):
        return _refused(partition.partition, log)
    error = await log.delete_records_before(wanted.offset)
    if error:
        return _refused(partition.partition, error)
    led = services.led_partitions
    if led is None:
        return _Result(partition.partition, log.log_start_offset, ErrorCode.NONE)
    target = log.log_start_offset if wanted.offset < 0 else min(wanted.offset, log.log_start_offset)
    error = await led.deleted_before(log, target, timeout_ms=timeout_ms)
    if error:
        return _refused(partition.partition, error)
    return _Result(partition.partition, led.low_watermark(log), ErrorCode.NONE)


async def _denied(wanted: DeleteRecordsPartition) -> _Result:
    return _refused(wanted.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _refused(index: int, error: ErrorCode) -> _Result:
    return _Result(index, -1, error)


def refuse(request: DeleteRecordsRequest, context: RequestContext, error: ErrorCode) -> DeleteRecordsResponse:
    """`error` for every partition."""
    return DeleteRecordsResponse(
        topics=tuple(
            DeleteRecordsTopicResult(
                topic.name, tuple(_refused(each.partition_index, error) for each in topic.partitions)
            )
            for topic in request.topics
        )
    )


API: Final = Api(
    key=ApiKey.DELETE_RECORDS,
    versions=range(0, 3),
    handle=handle,
    refuse=refuse,
    access=Access((on_each(Operation.DELETE, ResourceType.TOPIC),)),
)
