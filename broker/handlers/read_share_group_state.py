"""ReadShareGroupState (key 84), version 0: the states of share partitions, for the leader that takes over (KIP-932).

A leader epoch above the stored one is durable before the answer: what older leaders still write is refused from then on
(FENCED_LEADER_EPOCH). A share partition that was never initialized is an invalid request.
"""

from typing import TYPE_CHECKING

from eosin.broker.requests.share_state_request import ACCESS, message_of, refused, results
from eosin.broker.services import Services
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateBatch,
    ReadStatePartition,
    ReadStatePartitionResult,
    ReadStateResult,
)

if TYPE_CHECKING:
    from eosin.coordinator.share_states import SharePartition, ShareState


async def handle(
    request: ReadShareGroupStateRequest, context: RequestContext, services: Services
) -> ReadShareGroupStateResponse:
    async def read(partition: "SharePartition", asked: ReadStatePartition) -> "ShareState | ErrorCode":
        return await services.share_states.coordinator.read(partition, leader_epoch=asked.leader_epoch)

    return ReadShareGroupStateResponse(await results(request, services, read, _made, ReadStateResult))


def _made(index: int, outcome: "ShareState | ErrorCode") -> ReadStatePartitionResult:
    if isinstance(outcome, ErrorCode):
        return ReadStatePartitionResult(index, outcome, message_of(outcome))
    return ReadStatePartitionResult(
        index,
        state_epoch=outcome.state_epoch,
        start_offset=outcome.start_offset,
        state_batches=tuple(ReadStateBatch(*batch) for batch in outcome.batches),
    )


def refuse(
    request: ReadShareGroupStateRequest, context: RequestContext, error: ErrorCode
) -> ReadShareGroupStateResponse:
    return ReadShareGroupStateResponse(refused(request, error, _made, ReadStateResult))


API = Api(
    key=ApiKey.READ_SHARE_GROUP_STATE,
    versions=range(0, 1),
    handle=handle,
    refuse=refuse,
    access=ACCESS,
)
