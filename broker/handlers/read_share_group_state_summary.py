"""ReadShareGroupStateSummary (key 87), versions 0-1: where a share group stands in its partitions (KIP-932).

v1 adds the count of deliveries that are complete beyond the start offset to the response (KIP-1226). A share partition
of which nothing is known has a start offset of -1, and no error.
"""

from typing import TYPE_CHECKING

from eosin.broker.requests.share_state_request import ACCESS, message_of, refused, results
from eosin.broker.services import Services
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryPartition,
    ReadStateSummaryPartitionResult,
    ReadStateSummaryResult,
)

if TYPE_CHECKING:
    from eosin.coordinator.share_states import SharePartition, ShareStateSummary


async def handle(
    request: ReadShareGroupStateSummaryRequest, context: RequestContext, services: Services
) -> ReadShareGroupStateSummaryResponse:
    async def read(partition: "SharePartition", _: ReadStateSummaryPartition) -> "ShareStateSummary | ErrorCode":
        return await services.share_states.coordinator.summary(partition)

    return ReadShareGroupStateSummaryResponse(await results(request, services, read, _made, ReadStateSummaryResult))


def _made(index: int, outcome: "ShareStateSummary | ErrorCode") -> ReadStateSummaryPartitionResult:
    if isinstance(outcome, ErrorCode):
        return ReadStateSummaryPartitionResult(index, outcome, message_of(outcome))
    return ReadStateSummaryPartitionResult(index, ErrorCode.NONE, None, *outcome)


def refuse(
    request: ReadShareGroupStateSummaryRequest, context: RequestContext, error: ErrorCode
) -> ReadShareGroupStateSummaryResponse:
    return ReadShareGroupStateSummaryResponse(refused(request, error, _made, ReadStateSummaryResult))


API = Api(
    key=ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    versions=range(0, 2),
    handle=handle,
    refuse=refuse,
    access=ACCESS,
)
