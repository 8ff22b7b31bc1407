"""OffsetForLeaderEpoch (key 23), versions 0-4: where the log of a leader epoch ends, so that a reader can notice
truncation.

v1 adds leader_epoch to the response. v2 adds current_leader_epoch to the request and throttle_time_ms to the response.
v3 adds replica_id to the request. v4 is the first flexible version.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message


class OffsetForLeaderPartition(Message):
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, "2+"] = -1
    leader_epoch: Int32 = 0


class OffsetForLeaderTopic(Message):
    topic: str = ""
    partitions: tuple[OffsetForLeaderPartition, ...] = ()


class OffsetForLeaderEpochRequest(Message):
    replica_id: Annotated[Int32, "3+"] = -2  # -1: a consumer, -2: a tool
    topics: tuple[OffsetForLeaderTopic, ...] = ()


class EpochEndOffset(Message):
    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Annotated[Int32, "1+"] = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(Message):
    topic: str = ""
    partitions: tuple[EpochEndOffset, ...] = ()


class OffsetForLeaderEpochResponse(Message):
    throttle_time_ms: Annotated[Int32, "2+"] = 0
    topics: tuple[OffsetForLeaderTopicResult, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.OFFSET_FOR_LEADER_EPOCH,
    versions=range(0, 5),
    flexible_from=4,
    request=OffsetForLeaderEpochRequest,
    response=OffsetForLeaderEpochResponse,
)
