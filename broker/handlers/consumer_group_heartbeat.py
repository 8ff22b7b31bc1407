"""ConsumerGroupHeartbeat (key 68), versions 0-1: a member of a group by the protocol of KIP-848 joins, stays,
leaves.

v1 has member ids that clients make, and regular expressions. While `group.version` is at level 0, or the settings leave
the protocol out, it is refused: see `eosin.broker.unserved_groups`. A topic without the right to describe it refuses
the whole request with 29.
"""

from collections.abc import Sequence
from typing import Final

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol
from eosin.coordinator.groups.consumer.assignors.assignment import Partitions, TopicIdPartition
from eosin.coordinator.groups.consumer.rules.events import ConsumerHeartbeat, HeartbeatResult
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import size_of
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from eosin.security.access import Access, Right, on_the_group

MOST_ASKED: Final = 200
"""Topics about which the right is asked for where the request is refused in any case."""
MOST_PARTITIONS: Final = 100_000
"""Partitions that a member says it has."""
FIRST_MEMBER_ID_VERSION: Final = 1


def _subscribed(request: ConsumerGroupHeartbeatRequest) -> tuple[str, ...]:
    return request.subscribed_topic_names or ()


_ACCESS: Final = Access(
    (on_the_group(Operation.READ), Right(Operation.DESCRIBE, ResourceType.TOPIC, names=_subscribed)),
    is_asked_late=True,
)


async def handle(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext, services: Services
) -> ConsumerGroupHeartbeatResponse:
    if text := services.unserved_groups.refused(GroupProtocol.CONSUMER, request.group_id, context):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=text)
    if denied := _ACCESS.denial(request, context):
        return refuse(request, context, denied)
    if size_of(request.topic_partitions or (), "partitions") > MOST_PARTITIONS:
        text = f"TopicPartitions has more than {MOST_PARTITIONS} partitions."
        return _response(HeartbeatResult(ErrorCode.INVALID_REQUEST, text))
    heartbeat = ConsumerHeartbeat(
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=request.subscribed_topic_names,
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None if request.topic_partitions is None else _partitions(request.topic_partitions),
        client_id=context.client_id or "",
        client_host=context.client_host,
    )
    if heartbeat.owned is not None and len(heartbeat.owned) < sum(
        len(topic.partitions) for topic in request.topic_partitions or ()
    ):
        return _response(HeartbeatResult(ErrorCode.INVALID_REQUEST, "TopicPartitions name a partition twice."))

    def may_describe(names: Sequence[str]) -> list[bool]:
        may = context.session.may
        return [may(Operation.DESCRIBE, ResourceType.TOPIC, name, quiet=True) for name in names]

    shares = services.group_shares
    size = sum(map(len, heartbeat.topics or ())) + len(heartbeat.regex or "")
    brings = size or request.member_epoch == 0  # a member may subscribe to more at any time
    if shares is not None and brings and not await shares.may_bring(context, request.group_id, size):
        text = "The user's groups hold as much as they may (eosin.principal.group.bytes.max)."
        return _response(HeartbeatResult(ErrorCode.GROUP_MAX_SIZE_REACHED, text))
    result = await services.groups.consumer_heartbeat(
        request.group_id,
        heartbeat,
        makes_member_id=context.api_version >= FIRST_MEMBER_ID_VERSION,
        may_describe=may_describe,
    )
    return _response(result)


def _partitions(topics: Sequence[TopicPartitions]) -> Partitions:
    return frozenset(TopicIdPartition(topic.topic_id, each) for topic in topics for each in topic.partitions)


def _response(result: HeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if result.assignment is not None:
        topics: dict[bytes, list[int]] = {}
        for topic_id, partition in sorted(result.assignment):
            topics.setdefault(topic_id, []).append(partition)
        assignment = Assignment(tuple(TopicPartitions(topic_id, tuple(some)) for topic_id, some in topics.items()))
    return ConsumerGroupHeartbeatResponse(
        error_code=result.error,
        error_message=result.message,
        member_id=result.member_id,
        member_epoch=result.epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=assignment,
    )


def refuse(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext, error: ErrorCode
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error)


API = Api(
    key=ApiKey.CONSUMER_GROUP_HEARTBEAT,
    versions=range(0, 2),
    handle=handle,
    refuse=refuse,
    access=_ACCESS,
)
