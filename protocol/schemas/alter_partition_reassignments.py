"""AlterPartitionReassignments (key 45), versions 0-1: change the replicas of partitions.

v1 adds allow_replication_factor_change.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Message


class ReassignablePartition(Message):
    partition_index: Int32 = 0
    replicas: tuple[Int32, ...] | None = None


class ReassignableTopic(Message):
    name: str = ""
    partitions: tuple[ReassignablePartition, ...] = ()


class AlterPartitionReassignmentsRequest(Message):
    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Annotated[bool, "1+"] = True
    topics: tuple[ReassignableTopic, ...] = ()


class ReassignablePartitionResponse(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None


class ReassignableTopicResponse(Message):
    name: str = ""
    partitions: tuple[ReassignablePartitionResponse, ...] = ()


class AlterPartitionReassignmentsResponse(Message):
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[bool, "1+"] = True
    error_code: Int16 = 0
    error_message: str | None = None
    responses: tuple[ReassignableTopicResponse, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    versions=range(0, 2),
    flexible_from=0,
    request=AlterPartitionReassignmentsRequest,
    response=AlterPartitionReassignmentsResponse,
)
