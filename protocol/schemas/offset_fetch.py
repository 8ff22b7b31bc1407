"""OffsetFetch (key 9), versions 0-10: read the positions of one or, from v8 on, of many consumer groups.

v2 adds error_code to the response. v3 adds throttle_time_ms to the response. v5 adds committed_leader_epoch to the
response. v6 is the first flexible version. v7 adds require_stable to the request. v8 adds groups to both and drops
group_id and topics from the request; topics and error_code from the response. v9 adds member_id and member_epoch to the
request. v10 has topic_id in place of name in both.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import (
    ApiSchema,
    Boolean,
    Int16,
    Int32,
    Int64,
    Layout,
    Message,
    Uuid,
    array,
    message,
    string,
    when,
)


class OffsetFetchRequestTopic(Message):
    name: str = ""
    partition_indexes: tuple[int, ...] = ()


class OffsetFetchRequestTopics(Message):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partition_indexes: tuple[int, ...] = ()


class OffsetFetchRequestGroup(Message):
    group_id: str = ""
    member_id: str | None = None
    member_epoch: int = -1
    topics: tuple[OffsetFetchRequestTopics, ...] | None = None  # null: every topic of the group


class OffsetFetchRequest(Message):
    group_id: str = ""
    topics: tuple[OffsetFetchRequestTopic, ...] | None = ()  # null: every topic of the group
    groups: tuple[OffsetFetchRequestGroup, ...] = ()
    require_stable: bool = False


class OffsetFetchResponsePartition(Message):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = None
    error_code: int = 0


class OffsetFetchResponseTopic(Message):
    name: str = ""
    partitions: tuple[OffsetFetchResponsePartition, ...] = ()


class OffsetFetchResponsePartitions(Message):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = None
    error_code: int = 0


class OffsetFetchResponseTopics(Message):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: tuple[OffsetFetchResponsePartitions, ...] = ()


class OffsetFetchResponseGroup(Message):
    group_id: str = ""
    topics: tuple[OffsetFetchResponseTopics, ...] = ()
    error_code: int = 0


class OffsetFetchResponse(Message):
    throttle_time_ms: int = 0
    topics: tuple[OffsetFetchResponseTopic, ...] = ()
    error_code: int = 0
    groups: tuple[OffsetFetchResponseGroup, ...] = ()


def offset_fetch_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 6
    offset_fetch_request_topic = message(
        OffsetFetchRequestTopic,
        flexible,
        "name" / string(flexible),
        "partition_indexes" / array(Int32, flexible),
    )
    offset_fetch_request_topics = message(
        OffsetFetchRequestTopics,
        flexible,
        *when(version <= 9, "name" / string(flexible)),
        *when(version >= 10, "topic_id" / Uuid),
        "partition_indexes" / array(Int32, flexible),
    )
    offset_fetch_request_group = message(
        OffsetFetchRequestGroup,
        flexible,
        "group_id" / string(flexible),
        *when(version >= 9, "member_id" / string(flexible, nullable=True), "member_epoch" / Int32),
        "topics" / array(offset_fetch_request_topics, flexible, nullable=True),
    )
    return message(
        OffsetFetchRequest,
        flexible,
        *when(
            version <= 7,
            "group_id" / string(flexible),
            "topics" / array(offset_fetch_request_topic, flexible, nullable=version >= 2),
        ),
        *when(version >= 8, "groups" / array(offset_fetch_request_group, flexible)),
        *when(version >= 7, "require_stable" / Boolean),
    )


def offset_fetch_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 6
    offset_fetch_response_partition = message(
        OffsetFetchResponsePartition,
        flexible,
        "partition_index" / Int32,
        "committed_offset" / Int64,
        *when(version >= 5, "committed_leader_epoch" / Int32),
        "metadata" / string(flexible, nullable=True),
        "error_code" / Int16,
    )
    offset_fetch_response_topic = message(
        OffsetFetchResponseTopic,
        flexible,
        "name" / string(flexible),
        "partitions" / array(offset_fetch_response_partition, flexible),
    )
    offset_fetch_response_partitions = message(
        OffsetFetchResponsePartitions,
        flexible,
        "partition_index" / Int32,
        "committed_offset" / Int64,
        "committed_leader_epoch" / Int32,
        "metadata" / string(flexible, nullable=True),
        "error_code" / Int16,
    )
    offset_fetch_response_topics = message(
        OffsetFetchResponseTopics,
        flexible,
        *when(version <= 9, "name" / string(flexible)),
        *when(version >= 10, "topic_id" / Uuid),
        "partitions" / array(offset_fetch_response_partitions, flexible),
    )
    offset_fetch_response_group = message(
        OffsetFetchResponseGroup,
        flexible,
        "group_id" / string(flexible),
        "topics" / array(offset_fetch_response_topics, flexible),
        "error_code" / Int16,
    )
    return message(
        OffsetFetchResponse,
        flexible,
        *when(version >= 3, "throttle_time_ms" / Int32),
        *when(version <= 7, "topics" / array(offset_fetch_response_topic, flexible)),
        *when(2 <= version <= 7, "error_code" / Int16),
        *when(version >= 8, "groups" / array(offset_fetch_response_group, flexible)),
    )


SCHEMA = ApiSchema(
    key=ApiKey.OFFSET_FETCH,
    versions=range(0, 11),
    flexible_from=6,
    request=offset_fetch_request,
    response=offset_fetch_response,
)
