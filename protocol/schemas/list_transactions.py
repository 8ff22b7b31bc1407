"""ListTransactions (key 66), versions 0-2: every transactional id that this broker coordinates.

Flexible from the start. v1 adds duration_filter to the request. v2 adds transactional_id_pattern to the request.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Layout, Message, array, message, string, when


class ListTransactionsRequest(Message):
    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[int, ...] = ()
    duration_filter: int = -1
    transactional_id_pattern: str | None = None


class TransactionState(Message):
    transactional_id: str = ""
    producer_id: int = 0
    transaction_state: str = ""


class ListTransactionsResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    unknown_state_filters: tuple[str, ...] = ()
    transaction_states: tuple[TransactionState, ...] = ()


def list_transactions_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    return message(
        ListTransactionsRequest,
        flexible,
        "state_filters" / array(string(flexible), flexible),
        "producer_id_filters" / array(Int64, flexible),
        *when(version >= 1, "duration_filter" / Int64),
        *when(version >= 2, "transactional_id_pattern" / string(flexible, nullable=True)),
    )


def list_transactions_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    transaction_state = message(
        TransactionState,
        flexible,
        "transactional_id" / string(flexible),
        "producer_id" / Int64,
        "transaction_state" / string(flexible),
    )
    return message(
        ListTransactionsResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "unknown_state_filters" / array(string(flexible), flexible),
        "transaction_states" / array(transaction_state, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.LIST_TRANSACTIONS,
    versions=range(0, 3),
    flexible_from=0,
    request=list_transactions_request,
    response=list_transactions_response,
)
