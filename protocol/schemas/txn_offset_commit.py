"""TxnOffsetCommit (key 28), versions 0-6: store positions of a consumer group as part of a transaction.

v2 adds committed_leader_epoch to the request. v3 is the first flexible version and adds
generation_id_or_member_epoch, member_id and group_instance_id to the request. v6 has topic_id in place of name in both.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message, Uuid


class TxnOffsetCommitRequestPartition(Message):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, "2+"] = -1
    committed_metadata: str | None = None


class TxnOffsetCommitRequestTopic(Message):
    name: Annotated[str, "0-5"] = ""
    topic_id: Annotated[Uuid, "6+"] = ZERO_UUID
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = ()


class TxnOffsetCommitRequest(Message):
    transactional_id: str = ""
    group_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id_or_member_epoch: Annotated[Int32, "3+"] = -1
    member_id: Annotated[str, "3+"] = ""
    group_instance_id: Annotated[str | None, "3+"] = None  # of a static member
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = ()


class TxnOffsetCommitResponsePartition(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class TxnOffsetCommitResponseTopic(Message):
    name: Annotated[str, "0-5"] = ""
    topic_id: Annotated[Uuid, "6+"] = ZERO_UUID
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = ()


class TxnOffsetCommitResponse(Message):
    throttle_time_ms: Int32 = 0
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.TXN_OFFSET_COMMIT,
    versions=range(0, 7),
    flexible_from=3,
    request=TxnOffsetCommitRequest,
    response=TxnOffsetCommitResponse,
)
