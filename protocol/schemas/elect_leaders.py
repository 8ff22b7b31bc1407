"""ElectLeaders (key 43), versions 0-2: elect leaders of partitions.

v1 adds election_type to the request, a top-level error_code to the response. v2 is the first flexible version.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Message


class TopicPartitions(Message):
    topic: str = ""
    partitions: tuple[Int32, ...] = ()


class ElectLeadersRequest(Message):
    election_type: Annotated[Int8, "1+"] = 0
    topic_partitions: tuple[TopicPartitions, ...] | None = ()
    timeout_ms: Int32 = 60000


class PartitionResult(Message):
    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None


class ReplicaElectionResult(Message):
    topic: str = ""
    partition_result: tuple[PartitionResult, ...] = ()


class ElectLeadersResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, "1+"] = 0
    replica_election_results: tuple[ReplicaElectionResult, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.ELECT_LEADERS,
    versions=range(0, 3),
    flexible_from=2,
    request=ElectLeadersRequest,
    response=ElectLeadersResponse,
)
