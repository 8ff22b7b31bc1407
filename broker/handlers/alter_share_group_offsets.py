"""AlterShareGroupOffsets (key 91), version 0: move where a share group (KIP-932) begins to read.

Announced and refused: see `eosin.broker.unserved_groups`.
"""

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from eosin.security.access import open_to_all


def respond(
    request: AlterShareGroupOffsetsRequest, context: RequestContext, services: Services
) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=GroupProtocol.SHARE.value
    )


def refuse(
    request: AlterShareGroupOffsetsRequest, context: RequestContext, error: ErrorCode
) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=error)


API = Api(
    key=ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    versions=range(0, 1),
    respond=respond,
    refuse=refuse,
    access=open_to_all("it is refused, whoever asks"),
)
