"""AssignReplicasToDirs (key 73), version 0: a broker tells in which of its directories replicas are (KIP-858,
cluster.md 4.18).

Flexible from the start.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Layout, Message, Uuid, array, message


class PartitionData(Message):
    partition_index: int = 0


class TopicData(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


class DirectoryData(Message):
    id: bytes = ZERO_UUID
    topics: tuple[TopicData, ...] = ()


class AssignReplicasToDirsRequest(Message):
    broker_id: int = 0
    broker_epoch: int = -1
    directories: tuple[DirectoryData, ...] = ()


class ResponsePartitionData(Message):
    partition_index: int = 0
    error_code: int = 0


class ResponseTopicData(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[ResponsePartitionData, ...] = ()


class ResponseDirectoryData(Message):
    id: bytes = ZERO_UUID
    topics: tuple[ResponseTopicData, ...] = ()


class AssignReplicasToDirsResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    directories: tuple[ResponseDirectoryData, ...] = ()


def assign_replicas_to_dirs_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    partition_data = message(PartitionData, flexible, "partition_index" / Int32)
    topic_data = message(
        TopicData,
        flexible,
        "topic_id" / Uuid,
        "partitions" / array(partition_data, flexible),
    )
    directory_data = message(
        DirectoryData,
        flexible,
        "id" / Uuid,
        "topics" / array(topic_data, flexible),
    )
    return message(
        AssignReplicasToDirsRequest,
        flexible,
        "broker_id" / Int32,
        "broker_epoch" / Int64,
        "directories" / array(directory_data, flexible),
    )


def assign_replicas_to_dirs_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    partition_data = message(
        ResponsePartitionData,
        flexible,
        "partition_index" / Int32,
        "error_code" / Int16,
    )
    topic_data = message(
        ResponseTopicData,
        flexible,
        "topic_id" / Uuid,
        "partitions" / array(partition_data, flexible),
    )
    directory_data = message(
        ResponseDirectoryData,
        flexible,
        "id" / Uuid,
        "topics" / array(topic_data, flexible),
    )
    return message(
        AssignReplicasToDirsResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "directories" / array(directory_data, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    versions=range(0, 1),
    flexible_from=0,
    request=assign_replicas_to_dirs_request,
    response=assign_replicas_to_dirs_response,
)
