"""DescribeTransactions (key 65), version 0: the state of transactional ids.

Flexible from the start.
"""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message


class DescribeTransactionsRequest(Message):
    transactional_ids: tuple[str, ...] = ()


class TopicData(Message):
    topic: str = ""
    partitions: tuple[Int32, ...] = ()


class TransactionState(Message):
    error_code: Int16 = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: tuple[TopicData, ...] = ()


class DescribeTransactionsResponse(Message):
    throttle_time_ms: Int32 = 0
    transaction_states: tuple[TransactionState, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_TRANSACTIONS,
    versions=range(0, 1),
    flexible_from=0,
    request=DescribeTransactionsRequest,
    response=DescribeTransactionsResponse,
)
