"""OffsetCommit (key 8), versions 0-10: store the positions of a consumer group.

v1 adds generation_id_or_member_epoch, member_id and commit_timestamp to the request. v2 adds retention_time_ms to the
request and drops commit_timestamp from the request. v3 adds throttle_time_ms to the response. v5 drops
retention_time_ms from the request. v6 adds committed_leader_epoch to the request. v7 adds group_instance_id to the
request. v8 is the first flexible version. v10 has topic_id in place of name in both.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message, Uuid


class OffsetCommitRequestPartition(Message):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, "6+"] = -1
    commit_timestamp: Annotated[Int64, "1"] = -1
    committed_metadata: str | None = None


class OffsetCommitRequestTopic(Message):
    name: Annotated[str, "0-9"] = ""
    topic_id: Annotated[Uuid, "10+"] = ZERO_UUID
    partitions: tuple[OffsetCommitRequestPartition, ...] = ()


class OffsetCommitRequest(Message):
    group_id: str = ""
    generation_id_or_member_epoch: Annotated[Int32, "1+"] = -1  # -1 outside of a group generation
    member_id: Annotated[str, "1+"] = ""
    group_instance_id: Annotated[str | None, "7+"] = None  # of a static member
    retention_time_ms: Annotated[Int64, "2-4"] = -1
    topics: tuple[OffsetCommitRequestTopic, ...] = ()


class OffsetCommitResponsePartition(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetCommitResponseTopic(Message):
    name: Annotated[str, "0-9"] = ""
    topic_id: Annotated[Uuid, "10+"] = ZERO_UUID
    partitions: tuple[OffsetCommitResponsePartition, ...] = ()


class OffsetCommitResponse(Message):
    throttle_time_ms: Annotated[Int32, "3+"] = 0
    topics: tuple[OffsetCommitResponseTopic, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.OFFSET_COMMIT,
    versions=range(0, 11),
    flexible_from=8,
    request=OffsetCommitRequest,
    response=OffsetCommitResponse,
)
