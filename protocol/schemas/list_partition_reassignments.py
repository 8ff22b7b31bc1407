"""ListPartitionReassignments (key 46), version 0: reassignments that are under way.

Flexible from the start.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Layout, Message, array, message, string


class ListPartitionReassignmentsTopics(Message):
    name: str = ""
    partition_indexes: tuple[int, ...] = ()


class ListPartitionReassignmentsRequest(Message):
    timeout_ms: int = 60000
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = None


class OngoingPartitionReassignment(Message):
    partition_index: int = 0
    replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


class OngoingTopicReassignment(Message):
    name: str = ""
    partitions: tuple[OngoingPartitionReassignment, ...] = ()


class ListPartitionReassignmentsResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    topics: tuple[OngoingTopicReassignment, ...] = ()


def list_partition_reassignments_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    list_partition_reassignments_topics = message(
        ListPartitionReassignmentsTopics,
        flexible,
        "name" / string(flexible),
        "partition_indexes" / array(Int32, flexible),
    )
    return message(
        ListPartitionReassignmentsRequest,
        flexible,
        "timeout_ms" / Int32,
        "topics" / array(list_partition_reassignments_topics, flexible, nullable=True),
    )


def list_partition_reassignments_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    ongoing_partition_reassignment = message(
        OngoingPartitionReassignment,
        flexible,
        "partition_index" / Int32,
        "replicas" / array(Int32, flexible),
        "adding_replicas" / array(Int32, flexible),
        "removing_replicas" / array(Int32, flexible),
    )
    ongoing_topic_reassignment = message(
        OngoingTopicReassignment,
        flexible,
        "name" / string(flexible),
        "partitions" / array(ongoing_partition_reassignment, flexible),
    )
    return message(
        ListPartitionReassignmentsResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        "topics" / array(ongoing_topic_reassignment, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.LIST_PARTITION_REASSIGNMENTS,
    versions=range(0, 1),
    flexible_from=0,
    request=list_partition_reassignments_request,
    response=list_partition_reassignments_response,
)
