"""ShareGroupDescribe (key 77), version 1: the state of share groups (KIP-932).

Announced and refused, each group by itself in the order asked: see `eosin.broker.unserved_groups`. Admin clients ask
DescribeGroups for such a group then, so classic groups stay describable.
"""

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from eosin.security.access import open_to_all


def respond(
    request: ShareGroupDescribeRequest, context: RequestContext, services: Services
) -> ShareGroupDescribeResponse:
    return _refused(request, ErrorCode.UNSUPPORTED_VERSION, GroupProtocol.SHARE.value)


def refuse(request: ShareGroupDescribeRequest, context: RequestContext, error: ErrorCode) -> ShareGroupDescribeResponse:
    return _refused(request, error, None)


def _refused(request: ShareGroupDescribeRequest, error: ErrorCode, text: str | None) -> ShareGroupDescribeResponse:
    groups = (DescribedGroup(error_code=error, error_message=text, group_id=group_id) for group_id in request.group_ids)
    return ShareGroupDescribeResponse(groups=tuple(groups))


API = Api(
    key=ApiKey.SHARE_GROUP_DESCRIBE,
    versions=range(1, 2),
    respond=respond,
    refuse=refuse,
    access=open_to_all("it is refused, whoever asks"),
)
