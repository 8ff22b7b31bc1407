"""ListOffsets (key 2), versions 0-11: the offset of a timestamp, or of the start or the end of a partition.

v1 adds timestamp and offset to the response and drops max_num_offsets from the request and old_style_offsets from the
response. v2 adds isolation_level to the request and throttle_time_ms to the response. v4 adds current_leader_epoch to
the request and leader_epoch to the response. v6 is the first flexible version. v10 adds timeout_ms to the request.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Int64, Message


class ListOffsetsPartition(Message):
    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, "4+"] = -1
    timestamp: Int64 = 0
    """Or -1 latest, -2 earliest, -3 of the largest timestamp, -4 earliest local, -5 tiered, -6 to be tiered."""
    max_num_offsets: Annotated[Int32, "0"] = 1


class ListOffsetsTopic(Message):
    name: str = ""
    partitions: tuple[ListOffsetsPartition, ...] = ()


class ListOffsetsRequest(Message):
    replica_id: Int32 = 0  # -1: a consumer
    isolation_level: Annotated[Int8, "2+"] = 0  # 0: read_uncommitted, 1: read_committed
    topics: tuple[ListOffsetsTopic, ...] = ()
    timeout_ms: Annotated[Int32, "10+"] = 0


class ListOffsetsPartitionResponse(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    old_style_offsets: Annotated[tuple[Int64, ...], "0"] = ()
    timestamp: Annotated[Int64, "1+"] = -1
    offset: Annotated[Int64, "1+"] = -1
    leader_epoch: Annotated[Int32, "4+"] = -1


class ListOffsetsTopicResponse(Message):
    name: str = ""
    partitions: tuple[ListOffsetsPartitionResponse, ...] = ()


class ListOffsetsResponse(Message):
    throttle_time_ms: Annotated[Int32, "2+"] = 0
    topics: tuple[ListOffsetsTopicResponse, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.LIST_OFFSETS,
    versions=range(0, 12),
    flexible_from=6,
    request=ListOffsetsRequest,
    response=ListOffsetsResponse,
)
