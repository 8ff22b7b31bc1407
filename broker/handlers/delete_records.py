"""DeleteRecords (key 21), versions 0-2: move the start of some partitions forward.

v2 is the first flexible version. Offset -1 means the high watermark; an offset at or below the log start changes
nothing. Only topics whose cleanup.policy contains `delete` allow it, and never internal ones (storage.md section 13).
Under durability `fsync` the new start is durable before it is answered: what was deleted does not come back. The
request's timeout is for the wait for other live replicas, as in Kafka: they follow the leader's start with their next
fetches.
"""

from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from eosin.broker.services import Services
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each, size_of
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
from eosin.runtime.turns import in_turns
from eosin.security.access import Access, on_each

if TYPE_CHECKING:
    from eosin.cluster.replication.led_partitions import LedPartitions
    from eosin.storage.log.partition_log import PartitionLog

_Result = DeleteRecordsPartitionResult


class _Deletion:
    """One partition of a request."""

    __slots__ = ("error", "index", "log", "offset", "topic")

    log: "PartitionLog"
    """Only set where there is no error, or was none when the start was moved."""

    def __init__(self, topic: str, wanted: DeleteRecordsPartition, error: ErrorCode) -> None:
        self.topic = topic
        self.index = wanted.partition_index
        self.offset = wanted.offset
        self.error = error

    @property
    def target(self) -> int:
        """The offset at which every replica is to start, as far as the log has come."""
        start = self.log.log_start_offset
        return start if self.offset < 0 else min(self.offset, start)


async def handle(request: DeleteRecordsRequest, context: RequestContext, services: Services) -> DeleteRecordsResponse:
    """Move every partition's start, save all of them at once, and wait for the replicas of all side by side."""
    wanted = (
        _Deletion(topic.name, each, ErrorCode.NONE if is_open else ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for topic in request.topics
        for is_open in (context.session.may(Operation.DELETE, ResourceType.TOPIC, topic.name),)
        for each in topic.partitions
    )
    count = size_of(request.topics, "partitions")
    deletions = await made_for_each(wanted, count, context, services)
    await in_turns(deletions, partial(_move, services=services), services.clock)
    await _save([each for each in deletions if not each.error])
    led = services.led_partitions
    if led is not None:
        await _follow([each for each in deletions if not each.error], led, request.timeout_ms)
    results = iter(await made_for_each((_result(each, led) for each in deletions), count, context, services))
    topics = (
        DeleteRecordsTopicResult(topic.name, tuple(islice(results, len(topic.partitions)))) for topic in request.topics
    )
    return DeleteRecordsResponse(topics=tuple(await made_for_each(topics, count, context, services)))


def _move(deletion: _Deletion, services: Services) -> None:
    """Move the start of a partition, unless it is refused."""
    if deletion.error:
        return
    if deletion.topic in INTERNAL_TOPICS:
        deletion.error = ErrorCode.INVALID_TOPIC_EXCEPTION
        return
    log = services.partitions.get(TopicPartition(deletion.topic, deletion.index))
    if isinstance(log, ErrorCode):
        deletion.error = log
    else:
        deletion.log = log
        deletion.error = log.move_start_before(deletion.offset)


async def _save(moved: Sequence[_Deletion]) -> None:
    """Make the new starts durable: one save for all, since the logs of a broker share the file."""
    if moved:
        error = await moved[0].log.start_saved()
        for each in moved:
            each.error = error


async def _follow(moved: Sequence[_Deletion], led: "LedPartitions", timeout_ms: int) -> None:
    """Wait until the live replicas have followed."""
    errors = await led.deleted_before([(each.log, each.target) for each in moved], timeout_ms=timeout_ms)
    for each, error in zip(moved, errors, strict=True):
        each.error = error


def _result(deletion: _Deletion, led: "LedPartitions | None") -> _Result:
    if deletion.error:
        return _refused(deletion.index, deletion.error)
    log = deletion.log
    return _Result(deletion.index, log.log_start_offset if led is None else led.low_watermark(log), ErrorCode.NONE)


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
