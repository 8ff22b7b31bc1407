"""DescribeLogDirs (key 35), versions 0-5: data directories and the size of the partitions in them.

v2 is the first flexible version. v3 adds error_code to the response. v4 adds total_bytes and usable_bytes to the
response. v5 adds is_cordoned to the response.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message


class DescribableLogDirTopic(Message):
    topic: str = ""
    partitions: tuple[Int32, ...] = ()


class DescribeLogDirsRequest(Message):
    topics: tuple[DescribableLogDirTopic, ...] | None = None


class DescribeLogDirsPartition(Message):
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: bool = False


class DescribeLogDirsTopic(Message):
    name: str = ""
    partitions: tuple[DescribeLogDirsPartition, ...] = ()


class DescribeLogDirsResult(Message):
    error_code: Int16 = 0
    log_dir: str = ""
    topics: tuple[DescribeLogDirsTopic, ...] = ()
    total_bytes: Annotated[Int64, "4+"] = -1
    usable_bytes: Annotated[Int64, "4+"] = -1
    is_cordoned: Annotated[bool, "5+"] = False


class DescribeLogDirsResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, "3+"] = 0
    results: tuple[DescribeLogDirsResult, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_LOG_DIRS,
    versions=range(0, 6),
    flexible_from=2,
    request=DescribeLogDirsRequest,
    response=DescribeLogDirsResponse,
)
