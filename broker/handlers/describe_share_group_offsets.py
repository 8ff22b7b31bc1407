"""DescribeShareGroupOffsets (key 90), versions 0-1: where share groups (KIP-932) begin to read.

Announced and refused, each group by itself in the order asked: see `eosin.broker.unserved_groups`.
"""

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol, refused_groups
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from eosin.security.access import open_to_all


async def handle(
    request: DescribeShareGroupOffsetsRequest, context: RequestContext, services: Services
) -> DescribeShareGroupOffsetsResponse:
    names = [group.group_id for group in request.groups]
    groups = refused_groups(names, GroupProtocol.SHARE, _refused)
    return DescribeShareGroupOffsetsResponse(groups=tuple(await made_for_each(groups, len(names), context, services)))


def _refused(group_id: str, error: ErrorCode, text: str | None = None) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(error_code=error, error_message=text, group_id=group_id)


def refuse(
    request: DescribeShareGroupOffsetsRequest, context: RequestContext, error: ErrorCode
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(groups=tuple(_refused(each.group_id, error) for each in request.groups))


API = Api(
    key=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    versions=range(0, 2),
    handle=handle,
    refuse=refuse,
    access=open_to_all("it is refused, whoever asks"),
)
