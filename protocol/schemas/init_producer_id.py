"""InitProducerId (key 22), versions 0-6: a producer id and epoch, fencing older producers of the transactional id.

v2 is the first flexible version. v3 adds producer_id and producer_epoch to the request. v6 adds enable_2pc and
keep_prepared_txn to the request; ongoing_txn_producer_id and ongoing_txn_producer_epoch to the response.

v6 carries the fields of two-phase commit (KIP-939).
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Boolean, Int16, Int32, Int64, Layout, Message, message, string, when


class InitProducerIdRequest(Message):
    transactional_id: str | None = None
    transaction_timeout_ms: int = 0
    producer_id: int = -1  # -1 unless the producer knows the one it has
    producer_epoch: int = -1
    enable_2pc: bool = False
    keep_prepared_txn: bool = False


class InitProducerIdResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = 0
    ongoing_txn_producer_id: int = -1
    ongoing_txn_producer_epoch: int = -1


def init_producer_id_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 2
    return message(
        InitProducerIdRequest,
        flexible,
        "transactional_id" / string(flexible, nullable=True),
        "transaction_timeout_ms" / Int32,
        *when(version >= 3, "producer_id" / Int64, "producer_epoch" / Int16),
        *when(version >= 6, "enable_2pc" / Boolean, "keep_prepared_txn" / Boolean),
    )


def init_producer_id_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 2
    return message(
        InitProducerIdResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "producer_id" / Int64,
        "producer_epoch" / Int16,
        *when(version >= 6, "ongoing_txn_producer_id" / Int64, "ongoing_txn_producer_epoch" / Int16),
    )


SCHEMA = ApiSchema(
    key=ApiKey.INIT_PRODUCER_ID,
    versions=range(0, 7),
    flexible_from=2,
    request=init_producer_id_request,
    response=init_producer_id_response,
)
