"""ListOffsets (key 2), versions 0-11: the offset of a timestamp, or of the start or the end of a partition.

v1 adds timestamp and offset to the response and drops max_num_offsets from the request and old_style_offsets from the
response. v2 adds isolation_level to the request and throttle_time_ms to the response. v4 adds current_leader_epoch to
the request and leader_epoch to the response. v6 is the first flexible version. v10 adds timeout_ms to the request.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Int64, Layout, Message, array, message, string, when


class ListOffsetsPartition(Message):
    partition_index: int = 0
    current_leader_epoch: int = -1
    timestamp: int = 0  # or -1 latest, -2 earliest, -3 of the largest timestamp, -4 earliest local, -5 tiered, -6 to be
    max_num_offsets: int = 1


class ListOffsetsTopic(Message):
    name: str = ""
    partitions: tuple[ListOffsetsPartition, ...] = ()


class ListOffsetsRequest(Message):
    replica_id: int = 0  # -1: a consumer
    isolation_level: int = 0  # 0: read_uncommitted, 1: read_committed
    topics: tuple[ListOffsetsTopic, ...] = ()
    timeout_ms: int = 0


class ListOffsetsPartitionResponse(Message):
    partition_index: int = 0
    error_code: int = 0
    old_style_offsets: tuple[int, ...] = ()
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


class ListOffsetsTopicResponse(Message):
    name: str = ""
    partitions: tuple[ListOffsetsPartitionResponse, ...] = ()


class ListOffsetsResponse(Message):
    throttle_time_ms: int = 0
    topics: tuple[ListOffsetsTopicResponse, ...] = ()


def list_offsets_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 6
    list_offsets_partition = message(
        ListOffsetsPartition,
        flexible,
        "partition_index" / Int32,
        *when(version >= 4, "current_leader_epoch" / Int32),
        "timestamp" / Int64,
        *when(version == 0, "max_num_offsets" / Int32),
    )
    list_offsets_topic = message(
        ListOffsetsTopic,
        flexible,
        "name" / string(flexible),
        "partitions" / array(list_offsets_partition, flexible),
    )
    return message(
        ListOffsetsRequest,
        flexible,
        "replica_id" / Int32,
        *when(version >= 2, "isolation_level" / Int8),
        "topics" / array(list_offsets_topic, flexible),
        *when(version >= 10, "timeout_ms" / Int32),
    )


def list_offsets_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 6
    list_offsets_partition_response = message(
        ListOffsetsPartitionResponse,
        flexible,
        "partition_index" / Int32,
        "error_code" / Int16,
        *when(version == 0, "old_style_offsets" / array(Int64, flexible)),
        *when(version >= 1, "timestamp" / Int64, "offset" / Int64),
        *when(version >= 4, "leader_epoch" / Int32),
    )
    list_offsets_topic_response = message(
        ListOffsetsTopicResponse,
        flexible,
        "name" / string(flexible),
        "partitions" / array(list_offsets_partition_response, flexible),
    )
    return message(
        ListOffsetsResponse,
        flexible,
        *when(version >= 2, "throttle_time_ms" / Int32),
        "topics" / array(list_offsets_topic_response, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.LIST_OFFSETS,
    versions=range(0, 12),
    flexible_from=6,
    request=list_offsets_request,
    response=list_offsets_response,
)
