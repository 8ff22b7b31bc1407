"""DeleteShareGroupState (key 86), version 0: forget the states of partitions that a share group read (KIP-932)."""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Message, Uuid


class DeleteStatePartition(Message):
    partition: Int32 = 0


class DeleteStateData(Message):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[DeleteStatePartition, ...] = ()


class DeleteShareGroupStateRequest(Message):
    group_id: str = ""
    topics: tuple[DeleteStateData, ...] = ()


class DeleteStatePartitionResult(Message):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None


class DeleteStateResult(Message):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[DeleteStatePartitionResult, ...] = ()


class DeleteShareGroupStateResponse(Message):
    results: tuple[DeleteStateResult, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.DELETE_SHARE_GROUP_STATE,
    versions=range(0, 1),
    flexible_from=0,
    request=DeleteShareGroupStateRequest,
    response=DeleteShareGroupStateResponse,
)
