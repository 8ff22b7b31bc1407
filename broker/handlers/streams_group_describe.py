"""StreamsGroupDescribe (key 89), versions 0-1: the state of streams groups (KIP-1071).

Announced and refused, each group by itself in the order asked: see `eosin.broker.unserved_groups`. Admin clients ask
DescribeGroups for such a group then, so classic groups stay describable.
"""

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol, refused_groups
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from eosin.security.access import open_to_all


async def handle(
    request: StreamsGroupDescribeRequest, context: RequestContext, services: Services
) -> StreamsGroupDescribeResponse:
    names = request.group_ids
    groups = refused_groups(names, GroupProtocol.STREAMS, _refused)
    return StreamsGroupDescribeResponse(groups=tuple(await made_for_each(groups, len(names), context, services)))


def _refused(group_id: str, error: ErrorCode, text: str | None = None) -> DescribedGroup:
    return DescribedGroup(error_code=error, error_message=text, group_id=group_id)


def refuse(
    request: StreamsGroupDescribeRequest, context: RequestContext, error: ErrorCode
) -> StreamsGroupDescribeResponse:
    return StreamsGroupDescribeResponse(groups=tuple(_refused(each, error) for each in request.group_ids))


API = Api(
    key=ApiKey.STREAMS_GROUP_DESCRIBE,
    versions=range(0, 2),
    handle=handle,
    refuse=refuse,
    access=open_to_all("it is refused, whoever asks"),
)
