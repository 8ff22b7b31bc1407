"""WriteShareGroupState (key 85), versions 0-1: merge what a leader has changed into the states of share partitions
(KIP-932).

v1 adds the count of deliveries that are complete beyond the start offset (KIP-1226). Epochs below the stored ones are
refused (FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH), -1 is not checked. The answer leaves when it is durable.
"""

from typing import TYPE_CHECKING

from eosin.broker.requests.share_state_request import ACCESS, message_of, refused, results
from eosin.broker.services import Services
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStatePartition,
    WriteStatePartitionResult,
    WriteStateResult,
)

if TYPE_CHECKING:
    from eosin.coordinator.share_states import SharePartition


async def handle(
    request: WriteShareGroupStateRequest, context: RequestContext, services: Services
) -> WriteShareGroupStateResponse:
    from eosin.coordinator.share_states import DeliveryState, StateBatch

    async def write(partition: "SharePartition", asked: WriteStatePartition) -> ErrorCode:
        try:
            batches = [
                StateBatch(each.first_offset, each.last_offset, DeliveryState(each.delivery_state), each.delivery_count)
                for each in asked.state_batches
            ]
        except ValueError:
            return ErrorCode.INVALID_REQUEST
        return await services.share_states.coordinator.write(
            partition,
            batches,
            state_epoch=asked.state_epoch,
            leader_epoch=asked.leader_epoch,
            start_offset=asked.start_offset,
            delivery_complete_count=asked.delivery_complete_count,
        )

    return WriteShareGroupStateResponse(await results(request, services, write, _made, WriteStateResult))


def _made(index: int, error: ErrorCode) -> WriteStatePartitionResult:
    return WriteStatePartitionResult(index, error, message_of(error))


def refuse(
    request: WriteShareGroupStateRequest, context: RequestContext, error: ErrorCode
) -> WriteShareGroupStateResponse:
    return WriteShareGroupStateResponse(refused(request, error, _made, WriteStateResult))


API = Api(
    key=ApiKey.WRITE_SHARE_GROUP_STATE,
    versions=range(0, 2),
    handle=handle,
    refuse=refuse,
    access=ACCESS,
)
