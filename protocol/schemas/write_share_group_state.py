"""WriteShareGroupState (key 85), versions 0-1: merge changes into the states that a share group has (KIP-932).

v1 adds delivery_complete_count (KIP-1226).
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Int64, Message, Uuid


class WriteStateBatch(Message):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


class WriteStatePartition(Message):
    partition: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, "1+"] = -1
    state_batches: tuple[WriteStateBatch, ...] = ()


class WriteStateData(Message):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[WriteStatePartition, ...] = ()


class WriteShareGroupStateRequest(Message):
    group_id: str = ""
    topics: tuple[WriteStateData, ...] = ()


class WriteStatePartitionResult(Message):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None


class WriteStateResult(Message):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[WriteStatePartitionResult, ...] = ()


class WriteShareGroupStateResponse(Message):
    results: tuple[WriteStateResult, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.WRITE_SHARE_GROUP_STATE,
    versions=range(0, 2),
    flexible_from=0,
    request=WriteShareGroupStateRequest,
    response=WriteShareGroupStateResponse,
)
