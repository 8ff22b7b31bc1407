"""DescribeTransactions (key 65), version 0: the state of transactional ids.

Flexible from the start.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Layout, Message, array, message, string


class DescribeTransactionsRequest(Message):
    transactional_ids: tuple[str, ...] = ()


class TopicData(Message):
    topic: str = ""
    partitions: tuple[int, ...] = ()


class TransactionState(Message):
    error_code: int = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: int = 0
    transaction_start_time_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    topics: tuple[TopicData, ...] = ()


class DescribeTransactionsResponse(Message):
    throttle_time_ms: int = 0
    transaction_states: tuple[TransactionState, ...] = ()


def describe_transactions_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    return message(
        DescribeTransactionsRequest,
        flexible,
        "transactional_ids" / array(string(flexible), flexible),
    )


def describe_transactions_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    topic_data = message(
        TopicData,
        flexible,
        "topic" / string(flexible),
        "partitions" / array(Int32, flexible),
    )
    transaction_state = message(
        TransactionState,
        flexible,
        "error_code" / Int16,
        "transactional_id" / string(flexible),
        "transaction_state" / string(flexible),
        "transaction_timeout_ms" / Int32,
        "transaction_start_time_ms" / Int64,
        "producer_id" / Int64,
        "producer_epoch" / Int16,
        "topics" / array(topic_data, flexible),
    )
    return message(
        DescribeTransactionsResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "transaction_states" / array(transaction_state, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_TRANSACTIONS,
    versions=range(0, 1),
    flexible_from=0,
    request=describe_transactions_request,
    response=describe_transactions_response,
)
