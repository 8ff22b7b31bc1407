"""DeleteRecords (key 21), versions 0-2: raise the log start offset of partitions.

v2 is the first flexible version.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Layout, Message, array, message, string


class DeleteRecordsPartition(Message):
    partition_index: int = 0
    offset: int = 0


class DeleteRecordsTopic(Message):
    name: str = ""
    partitions: tuple[DeleteRecordsPartition, ...] = ()


class DeleteRecordsRequest(Message):
    topics: tuple[DeleteRecordsTopic, ...] = ()
    timeout_ms: int = 0


class DeleteRecordsPartitionResult(Message):
    partition_index: int = 0
    low_watermark: int = 0
    error_code: int = 0


class DeleteRecordsTopicResult(Message):
    name: str = ""
    partitions: tuple[DeleteRecordsPartitionResult, ...] = ()


class DeleteRecordsResponse(Message):
    throttle_time_ms: int = 0
    topics: tuple[DeleteRecordsTopicResult, ...] = ()


def delete_records_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 2
    delete_records_partition = message(
        DeleteRecordsPartition,
        flexible,
        "partition_index" / Int32,
        "offset" / Int64,
    )
    delete_records_topic = message(
        DeleteRecordsTopic,
        flexible,
        "name" / string(flexible),
        "partitions" / array(delete_records_partition, flexible),
    )
    return message(
        DeleteRecordsRequest,
        flexible,
        "topics" / array(delete_records_topic, flexible),
        "timeout_ms" / Int32,
    )


def delete_records_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 2
    delete_records_partition_result = message(
        DeleteRecordsPartitionResult,
        flexible,
        "partition_index" / Int32,
        "low_watermark" / Int64,
        "error_code" / Int16,
    )
    delete_records_topic_result = message(
        DeleteRecordsTopicResult,
        flexible,
        "name" / string(flexible),
        "partitions" / array(delete_records_partition_result, flexible),
    )
    return message(
        DeleteRecordsResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "topics" / array(delete_records_topic_result, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.DELETE_RECORDS,
    versions=range(0, 3),
    flexible_from=2,
    request=delete_records_request,
    response=delete_records_response,
)
