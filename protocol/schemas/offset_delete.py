"""OffsetDelete (key 47), version 0: forget positions of a consumer group.

No version is flexible.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Layout, Message, array, message, string


class OffsetDeleteRequestPartition(Message):
    partition_index: int = 0


class OffsetDeleteRequestTopic(Message):
    name: str = ""
    partitions: tuple[OffsetDeleteRequestPartition, ...] = ()


class OffsetDeleteRequest(Message):
    group_id: str = ""
    topics: tuple[OffsetDeleteRequestTopic, ...] = ()


class OffsetDeleteResponsePartition(Message):
    partition_index: int = 0
    error_code: int = 0


class OffsetDeleteResponseTopic(Message):
    name: str = ""
    partitions: tuple[OffsetDeleteResponsePartition, ...] = ()


class OffsetDeleteResponse(Message):
    error_code: int = 0
    throttle_time_ms: int = 0
    topics: tuple[OffsetDeleteResponseTopic, ...] = ()


def offset_delete_request(version: int) -> Layout:
    """The request at `version`."""
    offset_delete_request_partition = message(
        OffsetDeleteRequestPartition,
        False,
        "partition_index" / Int32,
    )
    offset_delete_request_topic = message(
        OffsetDeleteRequestTopic,
        False,
        "name" / string(False),
        "partitions" / array(offset_delete_request_partition, False),
    )
    return message(
        OffsetDeleteRequest,
        False,
        "group_id" / string(False),
        "topics" / array(offset_delete_request_topic, False),
    )


def offset_delete_response(version: int) -> Layout:
    """The response at `version`."""
    offset_delete_response_partition = message(
        OffsetDeleteResponsePartition,
        False,
        "partition_index" / Int32,
        "error_code" / Int16,
    )
    offset_delete_response_topic = message(
        OffsetDeleteResponseTopic,
        False,
        "name" / string(False),
        "partitions" / array(offset_delete_response_partition, False),
    )
    return message(
        OffsetDeleteResponse,
        False,
        "error_code" / Int16,
        "throttle_time_ms" / Int32,
        "topics" / array(offset_delete_response_topic, False),
    )


SCHEMA = ApiSchema(
    key=ApiKey.OFFSET_DELETE,
    versions=range(0, 1),
    flexible_from=None,
    request=offset_delete_request,
    response=offset_delete_response,
)
