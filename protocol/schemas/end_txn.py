"""EndTxn (key 26), versions 0-5: commit or abort a producer's open transaction.

v3 is the first flexible version. v5 adds producer_id and producer_epoch to the response.

v5 answers with the producer id and epoch to go on with (KIP-890).
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Boolean, Int16, Int32, Int64, Layout, Message, message, string, when


class EndTxnRequest(Message):
    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    committed: bool = False  # True: commit, False: abort


class EndTxnResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = -1


def end_txn_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 3
    return message(
        EndTxnRequest,
        flexible,
        "transactional_id" / string(flexible),
        "producer_id" / Int64,
        "producer_epoch" / Int16,
        "committed" / Boolean,
    )


def end_txn_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 3
    return message(
        EndTxnResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        *when(version >= 5, "producer_id" / Int64, "producer_epoch" / Int16),
    )


SCHEMA = ApiSchema(
    key=ApiKey.END_TXN,
    versions=range(0, 6),
    flexible_from=3,
    request=end_txn_request,
    response=end_txn_response,
)
