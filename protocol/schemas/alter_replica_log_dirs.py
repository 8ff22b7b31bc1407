"""AlterReplicaLogDirs (key 34), versions 0-2: move replicas between log directories.

v2 is the first flexible version.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import (
    ApiSchema,
    Int16,
    Int32,
    Layout,
    Message,
    array,
    message,
    string,
)


class AlterReplicaLogDirTopic(Message):
    name: str = ""
    partitions: tuple[int, ...] = ()


class AlterReplicaLogDir(Message):
    path: str = ""
    topics: tuple[AlterReplicaLogDirTopic, ...] = ()


class AlterReplicaLogDirsRequest(Message):
    dirs: tuple[AlterReplicaLogDir, ...] = ()


class AlterReplicaLogDirPartitionResult(Message):
    partition_index: int = 0
    error_code: int = 0


class AlterReplicaLogDirTopicResult(Message):
    topic_name: str = ""
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...] = ()


class AlterReplicaLogDirsResponse(Message):
    throttle_time_ms: int = 0
    results: tuple[AlterReplicaLogDirTopicResult, ...] = ()


def alter_replica_log_dirs_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 2
    alter_replica_log_dir_topic = message(
        AlterReplicaLogDirTopic,
        flexible,
        "name" / string(flexible),
        "partitions" / array(Int32, flexible),
    )
    alter_replica_log_dir = message(
        AlterReplicaLogDir,
        flexible,
        "path" / string(flexible),
        "topics" / array(alter_replica_log_dir_topic, flexible),
    )
    return message(
        AlterReplicaLogDirsRequest,
        flexible,
        "dirs" / array(alter_replica_log_dir, flexible),
    )


def alter_replica_log_dirs_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 2
    alter_replica_log_dir_partition_result = message(
        AlterReplicaLogDirPartitionResult,
        flexible,
        "partition_index" / Int32,
        "error_code" / Int16,
    )
    alter_replica_log_dir_topic_result = message(
        AlterReplicaLogDirTopicResult,
        flexible,
        "topic_name" / string(flexible),
        "partitions" / array(alter_replica_log_dir_partition_result, flexible),
    )
    return message(
        AlterReplicaLogDirsResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "results" / array(alter_replica_log_dir_topic_result, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.ALTER_REPLICA_LOG_DIRS,
    versions=range(0, 3),
    flexible_from=2,
    request=alter_replica_log_dirs_request,
    response=alter_replica_log_dirs_response,
)
