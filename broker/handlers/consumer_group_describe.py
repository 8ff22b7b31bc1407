"""ConsumerGroupDescribe (key 69), versions 0-1: the state of groups by the protocol of KIP-848.

Announced and refused, each group by itself in the order asked: see `eosin.broker.unserved_groups`. Admin clients ask
DescribeGroups for such a group then, so classic groups stay describable.
"""

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol, refused_groups
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from eosin.security.access import Access, on_each


async def handle(
    request: ConsumerGroupDescribeRequest, context: RequestContext, services: Services
) -> ConsumerGroupDescribeResponse:
    may = context.session.may

    def refused(group_id: str, error: ErrorCode, text: str | None) -> DescribedGroup:
        if may(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            return _refusal(group_id, error, text)
        return _refusal(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)

    groups = refused_groups(request.group_ids, GroupProtocol.CONSUMER, refused)
    count = len(request.group_ids)
    return ConsumerGroupDescribeResponse(groups=tuple(await made_for_each(groups, count, context, services)))


def refuse(
    request: ConsumerGroupDescribeRequest, context: RequestContext, error: ErrorCode
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=tuple(_refusal(group_id, error) for group_id in request.group_ids))


def _refusal(group_id: str, error: ErrorCode, text: str | None = None) -> DescribedGroup:
    return DescribedGroup(error_code=error, error_message=text, group_id=group_id)


API = Api(
    key=ApiKey.CONSUMER_GROUP_DESCRIBE,
    versions=range(0, 2),
    handle=handle,
    refuse=refuse,
    access=Access((on_each(Operation.DESCRIBE, ResourceType.GROUP),)),
)
