"""ElectLeaders (key 43), versions 0-2: elect leaders of partitions.

v1 adds election_type to the request, a top-level error_code to the response. v2 is the first flexible version.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import (
    ApiSchema,
    Int8,
    Int16,
    Int32,
    Layout,
    Message,
    array,
    message,
    string,
    when,
)


class TopicPartitions(Message):
    topic: str = ""
    partitions: tuple[int, ...] = ()


class ElectLeadersRequest(Message):
    election_type: int = 0
    topic_partitions: tuple[TopicPartitions, ...] | None = ()
    timeout_ms: int = 60000


class PartitionResult(Message):
    partition_id: int = 0
    error_code: int = 0
    error_message: str | None = None


class ReplicaElectionResult(Message):
    topic: str = ""
    partition_result: tuple[PartitionResult, ...] = ()


class ElectLeadersResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    replica_election_results: tuple[ReplicaElectionResult, ...] = ()


def elect_leaders_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 2
    topic_partitions = message(
        TopicPartitions,
        flexible,
        "topic" / string(flexible),
        "partitions" / array(Int32, flexible),
    )
    return message(
        ElectLeadersRequest,
        flexible,
        *when(version >= 1, "election_type" / Int8),
        "topic_partitions" / array(topic_partitions, flexible, nullable=True),
        "timeout_ms" / Int32,
    )


def elect_leaders_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 2
    partition_result = message(
        PartitionResult,
        flexible,
        "partition_id" / Int32,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
    )
    replica_election_result = message(
        ReplicaElectionResult,
        flexible,
        "topic" / string(flexible),
        "partition_result" / array(partition_result, flexible),
    )
    return message(
        ElectLeadersResponse,
        flexible,
        "throttle_time_ms" / Int32,
        *when(version >= 1, "error_code" / Int16),
        "replica_election_results" / array(replica_election_result, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.ELECT_LEADERS,
    versions=range(0, 3),
    flexible_from=2,
    request=elect_leaders_request,
    response=elect_leaders_response,
)
