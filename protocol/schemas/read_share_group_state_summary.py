"""ReadShareGroupStateSummary (key 87), versions 0-1: where a share group stands in its partitions (KIP-932).

v1 adds delivery_complete_count to the response (KIP-1226).
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message, Uuid


class ReadStateSummaryPartition(Message):
    partition: Int32 = 0
    leader_epoch: Int32 = 0


class ReadStateSummaryData(Message):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[ReadStateSummaryPartition, ...] = ()


class ReadShareGroupStateSummaryRequest(Message):
    group_id: str = ""
    topics: tuple[ReadStateSummaryData, ...] = ()


class ReadStateSummaryPartitionResult(Message):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, "1+"] = -1


class ReadStateSummaryResult(Message):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[ReadStateSummaryPartitionResult, ...] = ()


class ReadShareGroupStateSummaryResponse(Message):
    results: tuple[ReadStateSummaryResult, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    versions=range(0, 2),
    flexible_from=0,
    request=ReadShareGroupStateSummaryRequest,
    response=ReadShareGroupStateSummaryResponse,
)
