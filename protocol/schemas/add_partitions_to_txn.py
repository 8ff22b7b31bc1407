"""AddPartitionsToTxn (key 24), versions 0-5: add partitions to an open transaction or, from v4 on, ask for many whether
they are in it.

v3 is the first flexible version. v4 adds transactions to the request; error_code and results_by_transaction to the
response and drops v3_and_below_transactional_id, v3_and_below_producer_id, v3_and_below_producer_epoch and
v3_and_below_topics from the request; results_by_topic_v3_and_below from the response.

v4 and v5 are sent by brokers only: many transactions in one request, and verification.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Boolean, Int16, Int32, Int64, Layout, Message, array, message, string, when


class AddPartitionsToTxnTopic(Message):
    name: str = ""
    partitions: tuple[int, ...] = ()


class AddPartitionsToTxnTransaction(Message):
    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    verify_only: bool = False  # only ask whether the partitions are in the transaction
    topics: tuple[AddPartitionsToTxnTopic, ...] = ()


class AddPartitionsToTxnRequest(Message):
    transactions: tuple[AddPartitionsToTxnTransaction, ...] = ()
    v3_and_below_transactional_id: str = ""
    v3_and_below_producer_id: int = 0
    v3_and_below_producer_epoch: int = 0
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...] = ()


class AddPartitionsToTxnPartitionResult(Message):
    partition_index: int = 0
    partition_error_code: int = 0


class AddPartitionsToTxnTopicResult(Message):
    name: str = ""
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...] = ()


class AddPartitionsToTxnResult(Message):
    transactional_id: str = ""
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...] = ()


class AddPartitionsToTxnResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...] = ()
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...] = ()


def add_partitions_to_txn_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 3
    add_partitions_to_txn_topic = message(
        AddPartitionsToTxnTopic,
        flexible,
        "name" / string(flexible),
        "partitions" / array(Int32, flexible),
    )
    add_partitions_to_txn_transaction = message(
        AddPartitionsToTxnTransaction,
        flexible,
        "transactional_id" / string(flexible),
        "producer_id" / Int64,
        "producer_epoch" / Int16,
        "verify_only" / Boolean,
        "topics" / array(add_partitions_to_txn_topic, flexible),
    )
    return message(
        AddPartitionsToTxnRequest,
        flexible,
        *when(version >= 4, "transactions" / array(add_partitions_to_txn_transaction, flexible)),
        *when(
            version <= 3,
            "v3_and_below_transactional_id" / string(flexible),
            "v3_and_below_producer_id" / Int64,
            "v3_and_below_producer_epoch" / Int16,
            "v3_and_below_topics" / array(add_partitions_to_txn_topic, flexible),
        ),
    )


def add_partitions_to_txn_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 3
    add_partitions_to_txn_partition_result = message(
        AddPartitionsToTxnPartitionResult,
        flexible,
        "partition_index" / Int32,
        "partition_error_code" / Int16,
    )
    add_partitions_to_txn_topic_result = message(
        AddPartitionsToTxnTopicResult,
        flexible,
        "name" / string(flexible),
        "results_by_partition" / array(add_partitions_to_txn_partition_result, flexible),
    )
    add_partitions_to_txn_result = message(
        AddPartitionsToTxnResult,
        flexible,
        "transactional_id" / string(flexible),
        "topic_results" / array(add_partitions_to_txn_topic_result, flexible),
    )
    return message(
        AddPartitionsToTxnResponse,
        flexible,
        "throttle_time_ms" / Int32,
        *when(
            version >= 4, "error_code" / Int16, "results_by_transaction" / array(add_partitions_to_txn_result, flexible)
        ),
        *when(version <= 3, "results_by_topic_v3_and_below" / array(add_partitions_to_txn_topic_result, flexible)),
    )


SCHEMA = ApiSchema(
    key=ApiKey.ADD_PARTITIONS_TO_TXN,
    versions=range(0, 6),
    flexible_from=3,
    request=add_partitions_to_txn_request,
    response=add_partitions_to_txn_response,
)
