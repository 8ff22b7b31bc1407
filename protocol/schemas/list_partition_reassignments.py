"""ListPartitionReassignments (key 46), version 0: reassignments that are under way.

Flexible from the start.
"""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Message


class ListPartitionReassignmentsTopics(Message):
    name: str = ""
    partition_indexes: tuple[Int32, ...] = ()


class ListPartitionReassignmentsRequest(Message):
    timeout_ms: Int32 = 60000
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = None


class OngoingPartitionReassignment(Message):
    partition_index: Int32 = 0
    replicas: tuple[Int32, ...] = ()
    adding_replicas: tuple[Int32, ...] = ()
    removing_replicas: tuple[Int32, ...] = ()


class OngoingTopicReassignment(Message):
    name: str = ""
    partitions: tuple[OngoingPartitionReassignment, ...] = ()


class ListPartitionReassignmentsResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    topics: tuple[OngoingTopicReassignment, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.LIST_PARTITION_REASSIGNMENTS,
    versions=range(0, 1),
    flexible_from=0,
    request=ListPartitionReassignmentsRequest,
    response=ListPartitionReassignmentsResponse,
)
