"""AddOffsetsToTxn (key 25), versions 0-4: add a consumer group's offsets to an open transaction.

v3 is the first flexible version.
"""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message


class AddOffsetsToTxnRequest(Message):
    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: str = ""


class AddOffsetsToTxnResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


SCHEMA = ApiSchema(
    key=ApiKey.ADD_OFFSETS_TO_TXN,
    versions=range(0, 5),
    flexible_from=3,
    request=AddOffsetsToTxnRequest,
    response=AddOffsetsToTxnResponse,
)
