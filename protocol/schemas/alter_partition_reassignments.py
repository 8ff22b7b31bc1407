"""AlterPartitionReassignments (key 45), versions 0-1: change the replicas of partitions.

v1 adds allow_replication_factor_change.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import (
    ApiSchema,
    Boolean,
    Int16,
    Int32,
    Layout,
    Message,
    array,
    message,
    string,
    when,
)


class ReassignablePartition(Message):
    partition_index: int = 0
    replicas: tuple[int, ...] | None = None


class ReassignableTopic(Message):
    name: str = ""
    partitions: tuple[ReassignablePartition, ...] = ()


class AlterPartitionReassignmentsRequest(Message):
    timeout_ms: int = 60000
    allow_replication_factor_change: bool = True
    topics: tuple[ReassignableTopic, ...] = ()


class ReassignablePartitionResponse(Message):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None


class ReassignableTopicResponse(Message):
    name: str = ""
    partitions: tuple[ReassignablePartitionResponse, ...] = ()


class AlterPartitionReassignmentsResponse(Message):
    throttle_time_ms: int = 0
    allow_replication_factor_change: bool = True
    error_code: int = 0
    error_message: str | None = None
    responses: tuple[ReassignableTopicResponse, ...] = ()


def alter_partition_reassignments_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    reassignable_partition = message(
        ReassignablePartition,
        flexible,
        "partition_index" / Int32,
        "replicas" / array(Int32, flexible, nullable=True),
    )
    reassignable_topic = message(
        ReassignableTopic,
        flexible,
        "name" / string(flexible),
        "partitions" / array(reassignable_partition, flexible),
    )
    return message(
        AlterPartitionReassignmentsRequest,
        flexible,
        "timeout_ms" / Int32,
        *when(version >= 1, "allow_replication_factor_change" / Boolean),
        "topics" / array(reassignable_topic, flexible),
    )


def alter_partition_reassignments_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    reassignable_partition_response = message(
        ReassignablePartitionResponse,
        flexible,
        "partition_index" / Int32,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
    )
    reassignable_topic_response = message(
        ReassignableTopicResponse,
        flexible,
        "name" / string(flexible),
        "partitions" / array(reassignable_partition_response, flexible),
    )
    return message(
        AlterPartitionReassignmentsResponse,
        flexible,
        "throttle_time_ms" / Int32,
        *when(version >= 1, "allow_replication_factor_change" / Boolean),
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        "responses" / array(reassignable_topic_response, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    versions=range(0, 2),
    flexible_from=0,
    request=alter_partition_reassignments_request,
    response=alter_partition_reassignments_response,
)
