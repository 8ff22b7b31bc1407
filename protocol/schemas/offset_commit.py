"""OffsetCommit (key 8), versions 0-10: store the positions of a consumer group.

v1 adds generation_id_or_member_epoch, member_id and commit_timestamp to the request. v2 adds retention_time_ms to the
request and drops commit_timestamp from the request. v3 adds throttle_time_ms to the response. v5 drops
retention_time_ms from the request. v6 adds committed_leader_epoch to the request. v7 adds group_instance_id to the
request. v8 is the first flexible version. v10 has topic_id in place of name in both.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Layout, Message, Uuid, array, message, string, when


class OffsetCommitRequestPartition(Message):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    commit_timestamp: int = -1
    committed_metadata: str | None = None


class OffsetCommitRequestTopic(Message):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: tuple[OffsetCommitRequestPartition, ...] = ()


class OffsetCommitRequest(Message):
    group_id: str = ""
    generation_id_or_member_epoch: int = -1  # -1 outside of a group generation
    member_id: str = ""
    group_instance_id: str | None = None  # of a static member
    retention_time_ms: int = -1
    topics: tuple[OffsetCommitRequestTopic, ...] = ()


class OffsetCommitResponsePartition(Message):
    partition_index: int = 0
    error_code: int = 0


class OffsetCommitResponseTopic(Message):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: tuple[OffsetCommitResponsePartition, ...] = ()


class OffsetCommitResponse(Message):
    throttle_time_ms: int = 0
    topics: tuple[OffsetCommitResponseTopic, ...] = ()


def offset_commit_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 8
    offset_commit_request_partition = message(
        OffsetCommitRequestPartition,
        flexible,
        "partition_index" / Int32,
        "committed_offset" / Int64,
        *when(version >= 6, "committed_leader_epoch" / Int32),
        *when(version == 1, "commit_timestamp" / Int64),
        "committed_metadata" / string(flexible, nullable=True),
    )
    offset_commit_request_topic = message(
        OffsetCommitRequestTopic,
        flexible,
        *when(version <= 9, "name" / string(flexible)),
        *when(version >= 10, "topic_id" / Uuid),
        "partitions" / array(offset_commit_request_partition, flexible),
    )
    return message(
        OffsetCommitRequest,
        flexible,
        "group_id" / string(flexible),
        *when(version >= 1, "generation_id_or_member_epoch" / Int32, "member_id" / string(flexible)),
        *when(version >= 7, "group_instance_id" / string(flexible, nullable=True)),
        *when(2 <= version <= 4, "retention_time_ms" / Int64),
        "topics" / array(offset_commit_request_topic, flexible),
    )


def offset_commit_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 8
    offset_commit_response_partition = message(
        OffsetCommitResponsePartition,
        flexible,
        "partition_index" / Int32,
        "error_code" / Int16,
    )
    offset_commit_response_topic = message(
        OffsetCommitResponseTopic,
        flexible,
        *when(version <= 9, "name" / string(flexible)),
        *when(version >= 10, "topic_id" / Uuid),
        "partitions" / array(offset_commit_response_partition, flexible),
    )
    return message(
        OffsetCommitResponse,
        flexible,
        *when(version >= 3, "throttle_time_ms" / Int32),
        "topics" / array(offset_commit_response_topic, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.OFFSET_COMMIT,
    versions=range(0, 11),
    flexible_from=8,
    request=offset_commit_request,
    response=offset_commit_response,
)
