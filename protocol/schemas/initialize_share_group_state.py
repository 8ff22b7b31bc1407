"""InitializeShareGroupState (key 83), version 0: begin the states of partitions that a share group reads (KIP-932)."""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message, Uuid


class InitializeStatePartition(Message):
    partition: Int32 = 0
    state_epoch: Int32 = 0
    start_offset: Int64 = 0


class InitializeStateData(Message):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[InitializeStatePartition, ...] = ()


class InitializeShareGroupStateRequest(Message):
    group_id: str = ""
    topics: tuple[InitializeStateData, ...] = ()


class InitializeStatePartitionResult(Message):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None


class InitializeStateResult(Message):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[InitializeStatePartitionResult, ...] = ()


class InitializeShareGroupStateResponse(Message):
    results: tuple[InitializeStateResult, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    versions=range(0, 1),
    flexible_from=0,
    request=InitializeShareGroupStateRequest,
    response=InitializeShareGroupStateResponse,
)
