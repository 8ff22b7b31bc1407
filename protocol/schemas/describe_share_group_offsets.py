"""DescribeShareGroupOffsets (key 90), versions 0-1: where share groups begin to read (KIP-932).

v1 adds lag to the response.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message, Uuid


class DescribeShareGroupOffsetsRequestTopic(Message):
    topic_name: str = ""
    partitions: tuple[Int32, ...] = ()


class DescribeShareGroupOffsetsRequestGroup(Message):
    group_id: str = ""
    topics: tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None = ()


class DescribeShareGroupOffsetsRequest(Message):
    groups: tuple[DescribeShareGroupOffsetsRequestGroup, ...] = ()


class DescribeShareGroupOffsetsResponsePartition(Message):
    partition_index: Int32 = 0
    start_offset: Int64 = 0
    leader_epoch: Int32 = 0
    lag: Annotated[Int64, "1+"] = -1
    error_code: Int16 = 0
    error_message: str | None = None


class DescribeShareGroupOffsetsResponseTopic(Message):
    topic_name: str = ""
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[DescribeShareGroupOffsetsResponsePartition, ...] = ()


class DescribeShareGroupOffsetsResponseGroup(Message):
    group_id: str = ""
    topics: tuple[DescribeShareGroupOffsetsResponseTopic, ...] = ()
    error_code: Int16 = 0
    error_message: str | None = None


class DescribeShareGroupOffsetsResponse(Message):
    throttle_time_ms: Int32 = 0
    groups: tuple[DescribeShareGroupOffsetsResponseGroup, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    versions=range(0, 2),
    flexible_from=0,
    request=DescribeShareGroupOffsetsRequest,
    response=DescribeShareGroupOffsetsResponse,
)
