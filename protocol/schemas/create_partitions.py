"""CreatePartitions (key 37), versions 0-3: give topics more partitions.

v2 is the first flexible version.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Boolean, Int16, Int32, Layout, Message, array, message, string


class CreatePartitionsAssignment(Message):
    broker_ids: tuple[int, ...] = ()


class CreatePartitionsTopic(Message):
    name: str = ""
    count: int = 0
    assignments: tuple[CreatePartitionsAssignment, ...] | None = None


class CreatePartitionsRequest(Message):
    topics: tuple[CreatePartitionsTopic, ...] = ()
    timeout_ms: int = 0
    validate_only: bool = False  # check, change nothing


class CreatePartitionsTopicResult(Message):
    name: str = ""
    error_code: int = 0
    error_message: str | None = None


class CreatePartitionsResponse(Message):
    throttle_time_ms: int = 0
    results: tuple[CreatePartitionsTopicResult, ...] = ()


def create_partitions_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 2
    create_partitions_assignment = message(
        CreatePartitionsAssignment,
        flexible,
        "broker_ids" / array(Int32, flexible),
    )
    create_partitions_topic = message(
        CreatePartitionsTopic,
        flexible,
        "name" / string(flexible),
        "count" / Int32,
        "assignments" / array(create_partitions_assignment, flexible, nullable=True),
    )
    return message(
        CreatePartitionsRequest,
        flexible,
        "topics" / array(create_partitions_topic, flexible),
        "timeout_ms" / Int32,
        "validate_only" / Boolean,
    )


def create_partitions_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 2
    create_partitions_topic_result = message(
        CreatePartitionsTopicResult,
        flexible,
        "name" / string(flexible),
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
    )
    return message(
        CreatePartitionsResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "results" / array(create_partitions_topic_result, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.CREATE_PARTITIONS,
    versions=range(0, 4),
    flexible_from=2,
    request=create_partitions_request,
    response=create_partitions_response,
)
