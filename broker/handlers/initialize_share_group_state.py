"""InitializeShareGroupState (key 83), version 0: begin the states of share partitions anew (KIP-932).

Group coordinators send it before they assign a partition to a share group. Whatever was known of the share partition is
gone then; a state epoch below the stored one is refused (FENCED_STATE_EPOCH).
"""

from typing import TYPE_CHECKING

from eosin.broker.requests.share_state_request import ACCESS, message_of, refused, results
from eosin.broker.services import Services
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStatePartition,
    InitializeStatePartitionResult,
    InitializeStateResult,
)

if TYPE_CHECKING:
    from eosin.coordinator.share_states import SharePartition


async def handle(
    request: InitializeShareGroupStateRequest, context: RequestContext, services: Services
) -> InitializeShareGroupStateResponse:
    async def begin(partition: "SharePartition", asked: InitializeStatePartition) -> ErrorCode:
        coordinator = services.share_states.coordinator
        return await coordinator.initialize(partition, state_epoch=asked.state_epoch, start_offset=asked.start_offset)

    return InitializeShareGroupStateResponse(await results(request, services, begin, _made, InitializeStateResult))


def _made(index: int, error: ErrorCode) -> InitializeStatePartitionResult:
    return InitializeStatePartitionResult(index, error, message_of(error))


def refuse(
    request: InitializeShareGroupStateRequest, context: RequestContext, error: ErrorCode
) -> InitializeShareGroupStateResponse:
    return InitializeShareGroupStateResponse(refused(request, error, _made, InitializeStateResult))


API = Api(
    key=ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    versions=range(0, 1),
    handle=handle,
    refuse=refuse,
    access=ACCESS,
)
