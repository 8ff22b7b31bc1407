"""DeleteShareGroupOffsets (key 92), version 0: forget where a share group (KIP-932) begins to read.

Announced and refused: see `eosin.broker.unserved_groups`.
"""

from eosin.broker.services import Services
from eosin.broker.unserved_groups import GroupProtocol
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from eosin.security.access import open_to_all


def respond(
    request: DeleteShareGroupOffsetsRequest, context: RequestContext, services: Services
) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=GroupProtocol.SHARE.value
    )


def refuse(
    request: DeleteShareGroupOffsetsRequest, context: RequestContext, error: ErrorCode
) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(error_code=error)


API = Api(
    key=ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    versions=range(0, 1),
    respond=respond,
    refuse=refuse,
    access=open_to_all("it is refused, whoever asks"),
)
