"""ConsumerGroupDescribe (key 69), versions 0-1: the state of groups by the protocol of KIP-848.

Announced and refused, each group by itself in the order asked: see `eosin.broker.unserved_groups`. Admin clients ask
DescribeGroups for such a group then, so classic groups stay describable.
"""

from eosin.broker.api import Api, RequestContext, Services
from eosin.broker.unserved_groups import GroupProtocol
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def respond(
    request: ConsumerGroupDescribeRequest, context: RequestContext, services: Services
) -> ConsumerGroupDescribeResponse:
    return _refused(request, ErrorCode.UNSUPPORTED_VERSION, GroupProtocol.CONSUMER.value)


def refuse(
    request: ConsumerGroupDescribeRequest, context: RequestContext, error: ErrorCode
) -> ConsumerGroupDescribeResponse:
    return _refused(request, error, None)


def _refused(
    request: ConsumerGroupDescribeRequest, error: ErrorCode, text: str | None
) -> ConsumerGroupDescribeResponse:
    groups = (DescribedGroup(error_code=error, error_message=text, group_id=group_id) for group_id in request.group_ids)
    return ConsumerGroupDescribeResponse(groups=tuple(groups))


API = Api(key=ApiKey.CONSUMER_GROUP_DESCRIBE, versions=range(0, 2), respond=respond, refuse=refuse)
