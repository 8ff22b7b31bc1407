"""StreamsGroupHeartbeat (key 88), versions 0-1: a member of a streams group (KIP-1071) joins, stays, leaves.

While `streams.version` is at level 0 it is refused: see `eosin.broker.unserved_groups`. A topic of the topology without
the right to describe it refuses the whole request with 29. Internal topics that are missing are created by the right of
the member's client, once the heartbeat is decided; what follows from them is in the same answer.
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from eosin.broker.requests.streams_heartbeat_request import (
    field_problem,
    heartbeat_of,
    member_chars,
    required_topics,
    says_of_itself,
    size_problem,
    topic_problem,
)
from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol
from eosin.coordinator.groups.rules.config import StreamsGroupConfig
from eosin.coordinator.groups.streams.assignors.tasks import Task
from eosin.coordinator.groups.streams.rules.endpoints import EndpointPartitions, TopicPartitions
from eosin.coordinator.groups.streams.rules.events import Status as StatusCode
from eosin.coordinator.groups.streams.rules.events import StreamsHeartbeat, StreamsResult
from eosin.coordinator.groups.streams.topology.topology import topology_bytes
from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    TopicPartition,
)
from eosin.security.access import Access, on_each, on_the_group, or_the_next

_ACCESS: Final = Access(
    (
        on_the_group(Operation.READ),
        on_each(Operation.DESCRIBE, ResourceType.TOPIC, "of the topology: one denial refuses the request"),
        or_the_next(Operation.CREATE, ResourceType.CLUSTER, "for internal topics that are missing"),
        on_each(Operation.CREATE, ResourceType.TOPIC, "for internal topics that are missing"),
    ),
    is_asked_late=True,
)
_DENIED: Final = "The client is not authorized to create them."


async def handle(
    request: StreamsGroupHeartbeatRequest, context: RequestContext, services: Services
) -> StreamsGroupHeartbeatResponse:
    if text := services.unserved_groups.refused(GroupProtocol.STREAMS, request.group_id, context):
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=text)
    if denied := _ACCESS.denial(request, context):
        return refuse(request, context, denied)
    config = services.groups.streams.config_of(request.group_id)
    return _response(await _decided(request, context, services), config)


async def _decided(request: StreamsGroupHeartbeatRequest, context: RequestContext, services: Services) -> StreamsResult:
    problem = size_problem(request)
    if problem is not None:
        return StreamsResult(ErrorCode.STREAMS_INVALID_TOPOLOGY, problem)
    heartbeat = heartbeat_of(request, context)
    names = required_topics(heartbeat.topology)
    problem = topic_problem(names)
    if problem is not None:
        return StreamsResult(ErrorCode.STREAMS_INVALID_TOPOLOGY, problem)
    may = context.session.may
    if not all(may(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in sorted(names)):
        return StreamsResult(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    problem = field_problem(request, heartbeat.topology)
    if problem is not None:
        return StreamsResult(ErrorCode.INVALID_REQUEST, problem)
    shares = services.group_shares
    if shares is not None and (heartbeat.topology is not None or says_of_itself(request)):
        size = member_chars(request) + (0 if heartbeat.topology is None else topology_bytes(heartbeat.topology))
        if not await shares.may_bring(context, request.group_id, size):
            text = "The user's groups hold as much as they may (eosin.principal.group.bytes.max)."
            return StreamsResult(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
    groups = services.groups.streams
    told = await groups.heartbeat(request.group_id, heartbeat)
    return await _with_topics(request.group_id, heartbeat, told, context, services) if told.missing else told


async def _with_topics(
    group_id: str, heartbeat: StreamsHeartbeat, told: StreamsResult, context: RequestContext, services: Services
) -> StreamsResult:
    """The answer after the missing internal topics were created, as far as the client may and they could be."""
    may = context.session.may
    names = [topic.name for topic in told.missing]
    if not may(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True) and not all(
        may(Operation.CREATE, ResourceType.TOPIC, name) for name in names
    ):
        return _detailed(told, _DENIED)
    groups, interval_ms = services.groups.streams, told.heartbeat_interval_ms
    failures = await services.streams_topics.create(told.missing, context, heartbeat_interval_ms=interval_ms)
    if failures:
        return _detailed(told, failures)
    # The first request goes on: a topology or a wish to stop was heard, and is not said again.
    again = await groups.heartbeat(
        group_id, replace(heartbeat, member_epoch=told.epoch, topology=None, shuts_down=False)
    )
    if again.error is not ErrorCode.NONE:
        return told
    asks = told.asks_for_description or again.asks_for_description
    return replace(again, tasks=told.tasks if again.tasks is None else again.tasks, asks_for_description=asks)


def _detailed(told: StreamsResult, more: str) -> StreamsResult:
    missing = StatusCode.MISSING_INTERNAL_TOPICS
    return replace(told, statuses={**told.statuses, missing: f"{told.statuses.get(missing, '')} {more}".strip()})


def _response(result: StreamsResult, config: StreamsGroupConfig) -> StreamsGroupHeartbeatResponse:
    """The response; what only one of its versions has is left out of the other. Whoever stays hears how often it is to
    report its offsets, of which nothing is made."""
    tasks, endpoints = result.tasks, result.endpoints
    stays = bool(result.heartbeat_interval_ms)
    return StreamsGroupHeartbeatResponse(
        error_code=result.error,
        error_message=result.message,
        member_id=result.member_id,
        member_epoch=result.epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        task_offset_interval_ms=config.task_offset_interval_ms if stays else 0,
        acceptable_recovery_lag=config.acceptable_recovery_lag if stays else -1,
        topology_description_required=result.asks_for_description,
        status=tuple(Status(int(code), text) for code, text in sorted(result.statuses.items())),
        active_tasks=None if tasks is None else _task_ids(tasks.active),
        standby_tasks=None if tasks is None else _task_ids(tasks.standby),
        warmup_tasks=None if tasks is None else _task_ids(tasks.warmup),
        endpoint_information_epoch=result.endpoint_epoch,
        partitions_by_user_endpoint=None if endpoints is None else tuple(map(_endpoint, endpoints)),
    )


def _task_ids(tasks: Iterable[Task]) -> tuple[TaskIds, ...]:
    found: dict[str, list[int]] = {}
    for subtopology_id, partition in sorted(tasks):
        found.setdefault(subtopology_id, []).append(partition)
    return tuple(TaskIds(name, tuple(some)) for name, some in found.items())


def _endpoint(found: EndpointPartitions) -> EndpointToPartitions:
    host, port = found.endpoint
    return EndpointToPartitions(Endpoint(host, port), _partitions(found.active), _partitions(found.standby))


def _partitions(found: TopicPartitions) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, numbers) for topic, numbers in found)


def refuse(
    request: StreamsGroupHeartbeatRequest, context: RequestContext, error: ErrorCode
) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=error)


API = Api(
    key=ApiKey.STREAMS_GROUP_HEARTBEAT,
    versions=range(0, 2),
    handle=handle,
    refuse=refuse,
    access=_ACCESS,
)
