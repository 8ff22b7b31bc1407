"""AddOffsetsToTxn (key 25), versions 0-4: add a consumer group's offsets to an open transaction.

v3 is the first flexible version.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Layout, Message, message, string


class AddOffsetsToTxnRequest(Message):
    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    group_id: str = ""


class AddOffsetsToTxnResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0


def add_offsets_to_txn_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 3
    return message(
        AddOffsetsToTxnRequest,
        flexible,
        "transactional_id" / string(flexible),
        "producer_id" / Int64,
        "producer_epoch" / Int16,
        "group_id" / string(flexible),
    )


def add_offsets_to_txn_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 3
    return message(
        AddOffsetsToTxnResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
    )


SCHEMA = ApiSchema(
    key=ApiKey.ADD_OFFSETS_TO_TXN,
    versions=range(0, 5),
    flexible_from=3,
    request=add_offsets_to_txn_request,
    response=add_offsets_to_txn_response,
)
