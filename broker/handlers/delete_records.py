"""DeleteRecords (key 21), versions 0-2: move the start of some partitions forward.

v2 is the first flexible version. Offset -1 means the high watermark; an offset at or below the log start changes
nothing. Only topics whose cleanup.policy contains `delete` allow it, and never internal ones (storage.md section 13).
Under durability `fsync` the new start is durable before it is answered: what was deleted does not come back. The
request's timeout is for the wait for other replicas, as in Kafka, and there are none.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final

from eosin.broker.api import Api, RequestContext, Services
from eosin.broker.fetching.waits import after_all
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


def handle(
    request: DeleteRecordsRequest, context: RequestContext, services: Services
) -> Awaitable[DeleteRecordsResponse]:
    """Move every partition's start, all side by side."""
    topics = [
        (topic.name, [(each.partition_index, _begin(topic.name, each, services)) for each in topic.partitions])
        for topic in request.topics
    ]

    def answer() -> DeleteRecordsResponse:
        return DeleteRecordsResponse(
            topics=tuple(
                DeleteRecordsTopicResult(
                    name,
                    tuple(task.result() for _, task in partitions),
                )
                for name, partitions in topics
            )
        )

    tasks = [task for _, partitions in topics for _, task in partitions]
    return after_all(tasks, then=answer)


def _begin(topic: str, wanted: DeleteRecordsPartition, services: Services) -> "asyncio.Task[_Result]":
    partition = TopicPartition(topic, wanted.partition_index)
    return asyncio.get_running_loop().create_task(_delete(partition, wanted.offset, services))


async def _delete(partition: TopicPartition, offset: int, services: Services) -> _Result:
    if partition.topic in INTERNAL_TOPICS:
        return _refused(partition.partition, ErrorCode.INVALID_TOPIC_EXCEPTION)
    log = services.partitions.get(partition)
    if isinstance(log, ErrorCode):
        return _refused(partition.partition, log)
    error = await log.delete_records_before(offset)
    if error:
        return _refused(partition.partition, error)
    return _Result(partition.partition, log.log_start_offset, ErrorCode.NONE)


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


API: Final = Api(key=ApiKey.DELETE_RECORDS, versions=range(0, 3), handle=handle, refuse=refuse)
