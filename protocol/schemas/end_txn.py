"""EndTxn (key 26), versions 0-5: commit or abort a producer's open transaction.

v3 is the first flexible version. v5 adds producer_id and producer_epoch to the response.

v5 answers with the producer id and epoch to go on with (KIP-890).
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message


class EndTxnRequest(Message):
    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: bool = False  # True: commit, False: abort


class EndTxnResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, "5+"] = -1
    producer_epoch: Annotated[Int16, "5+"] = -1


SCHEMA = ApiSchema(
    key=ApiKey.END_TXN,
    versions=range(0, 6),
    flexible_from=3,
    request=EndTxnRequest,
    response=EndTxnResponse,
)
