"""DescribeShareGroupOffsets (key 90), versions 0-1: where share groups (KIP-932) begin to read.

Announced and refused, each group by itself in the order asked: see `eosin.broker.unserved_groups`.
"""

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from eosin.security.access import open_to_all


def respond(
    request: DescribeShareGroupOffsetsRequest, context: RequestContext, services: Services
) -> DescribeShareGroupOffsetsResponse:
    return _refused(request, ErrorCode.UNSUPPORTED_VERSION, GroupProtocol.SHARE.value)


def refuse(
    request: DescribeShareGroupOffsetsRequest, context: RequestContext, error: ErrorCode
) -> DescribeShareGroupOffsetsResponse:
    return _refused(request, error, None)


def _refused(
    request: DescribeShareGroupOffsetsRequest, error: ErrorCode, text: str | None
) -> DescribeShareGroupOffsetsResponse:
    groups = (
        DescribeShareGroupOffsetsResponseGroup(error_code=error, error_message=text, group_id=group.group_id)
        for group in request.groups
    )
    return DescribeShareGroupOffsetsResponse(groups=tuple(groups))


API = Api(
    key=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    versions=range(0, 2),
    respond=respond,
    refuse=refuse,
    access=open_to_all("it is refused, whoever asks"),
)
