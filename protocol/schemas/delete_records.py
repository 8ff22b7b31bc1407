"""DeleteRecords (key 21), versions 0-2: raise the log start offset of partitions.

v2 is the first flexible version.
"""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message


class DeleteRecordsPartition(Message):
    partition_index: Int32 = 0
    offset: Int64 = 0


class DeleteRecordsTopic(Message):
    name: str = ""
    partitions: tuple[DeleteRecordsPartition, ...] = ()


class DeleteRecordsRequest(Message):
    topics: tuple[DeleteRecordsTopic, ...] = ()
    timeout_ms: Int32 = 0


class DeleteRecordsPartitionResult(Message):
    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


class DeleteRecordsTopicResult(Message):
    name: str = ""
    partitions: tuple[DeleteRecordsPartitionResult, ...] = ()


class DeleteRecordsResponse(Message):
    throttle_time_ms: Int32 = 0
    topics: tuple[DeleteRecordsTopicResult, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.DELETE_RECORDS,
    versions=range(0, 3),
    flexible_from=2,
    request=DeleteRecordsRequest,
    response=DeleteRecordsResponse,
)
