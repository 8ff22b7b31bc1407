"""DescribeLogDirs (key 35), versions 0-5: data directories and the size of the partitions in them.

v2 is the first flexible version. v3 adds error_code to the response. v4 adds total_bytes and usable_bytes to the
response. v5 adds is_cordoned to the response.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Boolean, Int16, Int32, Int64, Layout, Message, array, message, string, when


class DescribableLogDirTopic(Message):
    topic: str = ""
    partitions: tuple[int, ...] = ()


class DescribeLogDirsRequest(Message):
    topics: tuple[DescribableLogDirTopic, ...] | None = None


class DescribeLogDirsPartition(Message):
    partition_index: int = 0
    partition_size: int = 0
    offset_lag: int = 0
    is_future_key: bool = False


class DescribeLogDirsTopic(Message):
    name: str = ""
    partitions: tuple[DescribeLogDirsPartition, ...] = ()


class DescribeLogDirsResult(Message):
    error_code: int = 0
    log_dir: str = ""
    topics: tuple[DescribeLogDirsTopic, ...] = ()
    total_bytes: int = -1
    usable_bytes: int = -1
    is_cordoned: bool = False


class DescribeLogDirsResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    results: tuple[DescribeLogDirsResult, ...] = ()


def describe_log_dirs_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 2
    describable_log_dir_topic = message(
        DescribableLogDirTopic,
        flexible,
        "topic" / string(flexible),
        "partitions" / array(Int32, flexible),
    )
    return message(
        DescribeLogDirsRequest,
        flexible,
        "topics" / array(describable_log_dir_topic, flexible, nullable=True),
    )


def describe_log_dirs_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 2
    describe_log_dirs_partition = message(
        DescribeLogDirsPartition,
        flexible,
        "partition_index" / Int32,
        "partition_size" / Int64,
        "offset_lag" / Int64,
        "is_future_key" / Boolean,
    )
    describe_log_dirs_topic = message(
        DescribeLogDirsTopic,
        flexible,
        "name" / string(flexible),
        "partitions" / array(describe_log_dirs_partition, flexible),
    )
    describe_log_dirs_result = message(
        DescribeLogDirsResult,
        flexible,
        "error_code" / Int16,
        "log_dir" / string(flexible),
        "topics" / array(describe_log_dirs_topic, flexible),
        *when(version >= 4, "total_bytes" / Int64, "usable_bytes" / Int64),
        *when(version >= 5, "is_cordoned" / Boolean),
    )
    return message(
        DescribeLogDirsResponse,
        flexible,
        "throttle_time_ms" / Int32,
        *when(version >= 3, "error_code" / Int16),
        "results" / array(describe_log_dirs_result, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_LOG_DIRS,
    versions=range(0, 6),
    flexible_from=2,
    request=describe_log_dirs_request,
    response=describe_log_dirs_response,
)
