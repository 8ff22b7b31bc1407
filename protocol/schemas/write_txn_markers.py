"""WriteTxnMarkers (key 27), versions 0-2: end transactions in the partitions of this broker.

v1 is the first flexible version. v2 adds transaction_version to the request.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import (
    ApiSchema,
    Boolean,
    Int8,
    Int16,
    Int32,
    Int64,
    Layout,
    Message,
    array,
    message,
    string,
    when,
)


class WritableTxnMarkerTopic(Message):
    name: str = ""
    partition_indexes: tuple[int, ...] = ()


class WritableTxnMarker(Message):
    producer_id: int = 0
    producer_epoch: int = 0
    transaction_result: bool = False  # True: commit, False: abort
    topics: tuple[WritableTxnMarkerTopic, ...] = ()
    coordinator_epoch: int = 0
    transaction_version: int = 0


class WriteTxnMarkersRequest(Message):
    markers: tuple[WritableTxnMarker, ...] = ()


class WritableTxnMarkerPartitionResult(Message):
    partition_index: int = 0
    error_code: int = 0


class WritableTxnMarkerTopicResult(Message):
    name: str = ""
    partitions: tuple[WritableTxnMarkerPartitionResult, ...] = ()


class WritableTxnMarkerResult(Message):
    producer_id: int = 0
    topics: tuple[WritableTxnMarkerTopicResult, ...] = ()


class WriteTxnMarkersResponse(Message):
    markers: tuple[WritableTxnMarkerResult, ...] = ()


def write_txn_markers_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 1
    writable_txn_marker_topic = message(
        WritableTxnMarkerTopic,
        flexible,
        "name" / string(flexible),
        "partition_indexes" / array(Int32, flexible),
    )
    writable_txn_marker = message(
        WritableTxnMarker,
        flexible,
        "producer_id" / Int64,
        "producer_epoch" / Int16,
        "transaction_result" / Boolean,
        "topics" / array(writable_txn_marker_topic, flexible),
        "coordinator_epoch" / Int32,
        *when(version >= 2, "transaction_version" / Int8),
    )
    return message(
        WriteTxnMarkersRequest,
        flexible,
        "markers" / array(writable_txn_marker, flexible),
    )


def write_txn_markers_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 1
    writable_txn_marker_partition_result = message(
        WritableTxnMarkerPartitionResult,
        flexible,
        "partition_index" / Int32,
        "error_code" / Int16,
    )
    writable_txn_marker_topic_result = message(
        WritableTxnMarkerTopicResult,
        flexible,
        "name" / string(flexible),
        "partitions" / array(writable_txn_marker_partition_result, flexible),
    )
    writable_txn_marker_result = message(
        WritableTxnMarkerResult,
        flexible,
        "producer_id" / Int64,
        "topics" / array(writable_txn_marker_topic_result, flexible),
    )
    return message(
        WriteTxnMarkersResponse,
        flexible,
        "markers" / array(writable_txn_marker_result, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.WRITE_TXN_MARKERS,
    versions=range(0, 3),
    flexible_from=1,
    request=write_txn_markers_request,
    response=write_txn_markers_response,
)
