"""InitProducerId (key 22), versions 0-6: a producer id and epoch, fencing older producers of the transactional id.

v2 is the first flexible version. v3 adds producer_id and producer_epoch to the request. v6 adds enable_2pc and
keep_prepared_txn to the request; ongoing_txn_producer_id and ongoing_txn_producer_epoch to the response.

v6 carries the fields of two-phase commit (KIP-939).
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message


class InitProducerIdRequest(Message):
    transactional_id: str | None = None
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, "3+"] = -1  # -1 unless the producer knows the one it has
    producer_epoch: Annotated[Int16, "3+"] = -1
    enable_2pc: Annotated[bool, "6+"] = False
    keep_prepared_txn: Annotated[bool, "6+"] = False


class InitProducerIdResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Annotated[Int64, "6+"] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, "6+"] = -1


SCHEMA = ApiSchema(
    key=ApiKey.INIT_PRODUCER_ID,
    versions=range(0, 7),
    flexible_from=2,
    request=InitProducerIdRequest,
    response=InitProducerIdResponse,
)
