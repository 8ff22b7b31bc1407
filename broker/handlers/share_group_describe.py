"""ShareGroupDescribe (key 77), version 1: the state of share groups (KIP-932).

Announced and refused, each group by itself in the order asked: see `eosin.broker.unserved_groups`. Admin clients ask
DescribeGroups for such a group then, so classic groups stay describable.
"""

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol, refused_groups
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from eosin.security.access import open_to_all


async def handle(
    request: ShareGroupDescribeRequest, context: RequestContext, services: Services
) -> ShareGroupDescribeResponse:
    names = request.group_ids
    groups = refused_groups(names, GroupProtocol.SHARE, _refused)
    return ShareGroupDescribeResponse(groups=tuple(await made_for_each(groups, len(names), context, services)))


def _refused(group_id: str, error: ErrorCode, text: str | None = None) -> DescribedGroup:
    return DescribedGroup(error_code=error, error_message=text, group_id=group_id)


def refuse(request: ShareGroupDescribeRequest, context: RequestContext, error: ErrorCode) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(groups=tuple(_refused(each, error) for each in request.group_ids))


API = Api(
    key=ApiKey.SHARE_GROUP_DESCRIBE,
    versions=range(1, 2),
    handle=handle,
    refuse=refuse,
    access=open_to_all("it is refused, whoever asks"),
)
