"""DeleteShareGroupState (key 86), version 0: forget the states of share partitions (KIP-932).

It succeeds where there is none, and where the topic is gone.
"""

from typing import TYPE_CHECKING

from eosin.broker.requests.share_state_request import ACCESS, message_of, refused, results
from eosin.broker.services import Services
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStatePartition,
    DeleteStatePartitionResult,
    DeleteStateResult,
)

if TYPE_CHECKING:
    from eosin.coordinator.share_states import SharePartition


async def handle(
    request: DeleteShareGroupStateRequest, context: RequestContext, services: Services
) -> DeleteShareGroupStateResponse:
    async def delete(partition: "SharePartition", _: DeleteStatePartition) -> ErrorCode:
        return await services.share_states.coordinator.delete(partition)

    return DeleteShareGroupStateResponse(await results(request, services, delete, _made, DeleteStateResult))


def _made(index: int, error: ErrorCode) -> DeleteStatePartitionResult:
    return DeleteStatePartitionResult(index, error, message_of(error))


def refuse(
    request: DeleteShareGroupStateRequest, context: RequestContext, error: ErrorCode
) -> DeleteShareGroupStateResponse:
    return DeleteShareGroupStateResponse(refused(request, error, _made, DeleteStateResult))


API = Api(
    key=ApiKey.DELETE_SHARE_GROUP_STATE,
    versions=range(0, 1),
    handle=handle,
    refuse=refuse,
    access=ACCESS,
)
