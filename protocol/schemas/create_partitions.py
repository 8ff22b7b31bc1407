"""CreatePartitions (key 37), versions 0-3: give topics more partitions.

v2 is the first flexible version.
"""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Message


class CreatePartitionsAssignment(Message):
    broker_ids: tuple[Int32, ...] = ()


class CreatePartitionsTopic(Message):
    name: str = ""
    count: Int32 = 0
    assignments: tuple[CreatePartitionsAssignment, ...] | None = None


class CreatePartitionsRequest(Message):
    topics: tuple[CreatePartitionsTopic, ...] = ()
    timeout_ms: Int32 = 0
    validate_only: bool = False  # check, change nothing


class CreatePartitionsTopicResult(Message):
    name: str = ""
    error_code: Int16 = 0
    error_message: str | None = None


class CreatePartitionsResponse(Message):
    throttle_time_ms: Int32 = 0
    results: tuple[CreatePartitionsTopicResult, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.CREATE_PARTITIONS,
    versions=range(0, 4),
    flexible_from=2,
    request=CreatePartitionsRequest,
    response=CreatePartitionsResponse,
)
