"""ConsumerGroupHeartbeat (key 68), versions 0-1: a member of a group by the protocol of KIP-848 joins, stays,
leaves.

Announced and refused: see `eosin.broker.unserved_groups`.
"""

from typing import Final

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from eosin.security.access import Access, Right, on_the_group

MOST_ASKED: Final = 200
"""Topics about which the right is asked for: the request is refused in any case."""


def _subscribed(request: ConsumerGroupHeartbeatRequest) -> tuple[str, ...]:
    return (request.subscribed_topic_names or ())[:MOST_ASKED]


def respond(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext, services: Services
) -> ConsumerGroupHeartbeatResponse:
    text = services.unserved_groups.refused(GroupProtocol.CONSUMER, request.group_id, context)
    return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=text)


def refuse(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext, error: ErrorCode
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error)


API = Api(
    key=ApiKey.CONSUMER_GROUP_HEARTBEAT,
    versions=range(0, 2),
    respond=respond,
    refuse=refuse,
    access=Access(
        (
            on_the_group(Operation.READ),
            Right(Operation.DESCRIBE, ResourceType.TOPIC, names=_subscribed),
        )
    ),
)
