"""OffsetForLeaderEpoch (key 23), versions 0-4: where the log of a leader epoch ends, so that a reader can notice
truncation.

v1 adds leader_epoch to the response. v2 adds current_leader_epoch to the request and throttle_time_ms to the response.
v3 adds replica_id to the request. v4 is the first flexible version.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Layout, Message, array, message, string, when


class OffsetForLeaderPartition(Message):
    partition: int = 0
    current_leader_epoch: int = -1
    leader_epoch: int = 0


class OffsetForLeaderTopic(Message):
    topic: str = ""
    partitions: tuple[OffsetForLeaderPartition, ...] = ()


class OffsetForLeaderEpochRequest(Message):
    replica_id: int = -2  # -1: a consumer, -2: a tool
    topics: tuple[OffsetForLeaderTopic, ...] = ()


class EpochEndOffset(Message):
    error_code: int = 0
    partition: int = 0
    leader_epoch: int = -1
    end_offset: int = -1


class OffsetForLeaderTopicResult(Message):
    topic: str = ""
    partitions: tuple[EpochEndOffset, ...] = ()


class OffsetForLeaderEpochResponse(Message):
    throttle_time_ms: int = 0
    topics: tuple[OffsetForLeaderTopicResult, ...] = ()


def offset_for_leader_epoch_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 4
    offset_for_leader_partition = message(
        OffsetForLeaderPartition,
        flexible,
        "partition" / Int32,
        *when(version >= 2, "current_leader_epoch" / Int32),
        "leader_epoch" / Int32,
    )
    offset_for_leader_topic = message(
        OffsetForLeaderTopic,
        flexible,
        "topic" / string(flexible),
        "partitions" / array(offset_for_leader_partition, flexible),
    )
    return message(
        OffsetForLeaderEpochRequest,
        flexible,
        *when(version >= 3, "replica_id" / Int32),
        "topics" / array(offset_for_leader_topic, flexible),
    )


def offset_for_leader_epoch_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 4
    epoch_end_offset = message(
        EpochEndOffset,
        flexible,
        "error_code" / Int16,
        "partition" / Int32,
        *when(version >= 1, "leader_epoch" / Int32),
        "end_offset" / Int64,
    )
    offset_for_leader_topic_result = message(
        OffsetForLeaderTopicResult,
        flexible,
        "topic" / string(flexible),
        "partitions" / array(epoch_end_offset, flexible),
    )
    return message(
        OffsetForLeaderEpochResponse,
        flexible,
        *when(version >= 2, "throttle_time_ms" / Int32),
        "topics" / array(offset_for_leader_topic_result, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.OFFSET_FOR_LEADER_EPOCH,
    versions=range(0, 5),
    flexible_from=4,
    request=offset_for_leader_epoch_request,
    response=offset_for_leader_epoch_response,
)
