"""StreamsGroupDescribe (key 89), version 0: the state of streams groups (KIP-1071).

Announced and refused, each group by itself in the order asked: see `eosin.broker.unserved_groups`. Admin clients ask
DescribeGroups for such a group then, so classic groups stay describable.
"""

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from eosin.security.access import open_to_all


def respond(
    request: StreamsGroupDescribeRequest, context: RequestContext, services: Services
) -> StreamsGroupDescribeResponse:
    return _refused(request, ErrorCode.UNSUPPORTED_VERSION, GroupProtocol.STREAMS.value)


def refuse(
    request: StreamsGroupDescribeRequest, context: RequestContext, error: ErrorCode
) -> StreamsGroupDescribeResponse:
    return _refused(request, error, None)


def _refused(request: StreamsGroupDescribeRequest, error: ErrorCode, text: str | None) -> StreamsGroupDescribeResponse:
    groups = (DescribedGroup(error_code=error, error_message=text, group_id=group_id) for group_id in request.group_ids)
    return StreamsGroupDescribeResponse(groups=tuple(groups))


API = Api(
    key=ApiKey.STREAMS_GROUP_DESCRIBE,
    versions=range(0, 1),
    respond=respond,
    refuse=refuse,
    access=open_to_all("it is refused, whoever asks"),
)
