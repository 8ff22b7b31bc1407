"""ReadShareGroupState (key 84), version 0: the states that a share group has, for leaders (KIP-932)."""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Int64, Message, Uuid


class ReadStatePartition(Message):
    partition: Int32 = 0
    leader_epoch: Int32 = 0


class ReadStateData(Message):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[ReadStatePartition, ...] = ()


class ReadShareGroupStateRequest(Message):
    group_id: str = ""
    topics: tuple[ReadStateData, ...] = ()


class ReadStateBatch(Message):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


class ReadStatePartitionResult(Message):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    state_epoch: Int32 = 0
    start_offset: Int64 = 0
    state_batches: tuple[ReadStateBatch, ...] = ()


class ReadStateResult(Message):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[ReadStatePartitionResult, ...] = ()


class ReadShareGroupStateResponse(Message):
    results: tuple[ReadStateResult, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.READ_SHARE_GROUP_STATE,
    versions=range(0, 1),
    flexible_from=0,
    request=ReadShareGroupStateRequest,
    response=ReadShareGroupStateResponse,
)
