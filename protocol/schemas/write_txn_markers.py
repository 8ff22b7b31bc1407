"""WriteTxnMarkers (key 27), versions 0-2: end transactions in the partitions of this broker.

v1 is the first flexible version. v2 adds transaction_version to the request.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Int64, Message


class WritableTxnMarkerTopic(Message):
    name: str = ""
    partition_indexes: tuple[Int32, ...] = ()


class WritableTxnMarker(Message):
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: bool = False  # True: commit, False: abort
    topics: tuple[WritableTxnMarkerTopic, ...] = ()
    coordinator_epoch: Int32 = 0
    transaction_version: Annotated[Int8, "2+"] = 0


class WriteTxnMarkersRequest(Message):
    markers: tuple[WritableTxnMarker, ...] = ()


class WritableTxnMarkerPartitionResult(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class WritableTxnMarkerTopicResult(Message):
    name: str = ""
    partitions: tuple[WritableTxnMarkerPartitionResult, ...] = ()


class WritableTxnMarkerResult(Message):
    producer_id: Int64 = 0
    topics: tuple[WritableTxnMarkerTopicResult, ...] = ()


class WriteTxnMarkersResponse(Message):
    markers: tuple[WritableTxnMarkerResult, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.WRITE_TXN_MARKERS,
    versions=range(0, 3),
    flexible_from=1,
    request=WriteTxnMarkersRequest,
    response=WriteTxnMarkersResponse,
)
