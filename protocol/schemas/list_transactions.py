"""ListTransactions (key 66), versions 0-2: every transactional id that this broker coordinates.

Flexible from the start. v1 adds duration_filter to the request. v2 adds transactional_id_pattern to the request.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message


class ListTransactionsRequest(Message):
    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[Int64, ...] = ()
    duration_filter: Annotated[Int64, "1+"] = -1
    transactional_id_pattern: Annotated[str | None, "2+"] = None


class TransactionState(Message):
    transactional_id: str = ""
    producer_id: Int64 = 0
    transaction_state: str = ""


class ListTransactionsResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: tuple[str, ...] = ()
    transaction_states: tuple[TransactionState, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.LIST_TRANSACTIONS,
    versions=range(0, 3),
    flexible_from=0,
    request=ListTransactionsRequest,
    response=ListTransactionsResponse,
)
