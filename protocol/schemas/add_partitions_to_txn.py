"""AddPartitionsToTxn (key 24), versions 0-5: add partitions to an open transaction or, from v4 on, ask for many whether
they are in it.

v3 is the first flexible version. v4 adds transactions to the request; error_code and results_by_transaction to the
response and drops v3_and_below_transactional_id, v3_and_below_producer_id, v3_and_below_producer_epoch and
v3_and_below_topics from the request; results_by_topic_v3_and_below from the response.

v4 and v5 are sent by brokers only: many transactions in one request, and verification.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message


class AddPartitionsToTxnTopic(Message):
    name: str = ""
    partitions: tuple[Int32, ...] = ()


class AddPartitionsToTxnTransaction(Message):
    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    verify_only: bool = False  # only ask whether the partitions are in the transaction
    topics: tuple[AddPartitionsToTxnTopic, ...] = ()


class AddPartitionsToTxnRequest(Message):
    transactions: Annotated[tuple[AddPartitionsToTxnTransaction, ...], "4+"] = ()
    v3_and_below_transactional_id: Annotated[str, "0-3"] = ""
    v3_and_below_producer_id: Annotated[Int64, "0-3"] = 0
    v3_and_below_producer_epoch: Annotated[Int16, "0-3"] = 0
    v3_and_below_topics: Annotated[tuple[AddPartitionsToTxnTopic, ...], "0-3"] = ()


class AddPartitionsToTxnPartitionResult(Message):
    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


class AddPartitionsToTxnTopicResult(Message):
    name: str = ""
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...] = ()


class AddPartitionsToTxnResult(Message):
    transactional_id: str = ""
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...] = ()


class AddPartitionsToTxnResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, "4+"] = 0
    results_by_transaction: Annotated[tuple[AddPartitionsToTxnResult, ...], "4+"] = ()
    results_by_topic_v3_and_below: Annotated[tuple[AddPartitionsToTxnTopicResult, ...], "0-3"] = ()


SCHEMA = ApiSchema(
    key=ApiKey.ADD_PARTITIONS_TO_TXN,
    versions=range(0, 6),
    flexible_from=3,
    request=AddPartitionsToTxnRequest,
    response=AddPartitionsToTxnResponse,
)
