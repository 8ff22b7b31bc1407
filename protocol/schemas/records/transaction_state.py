"""Records of `__transaction_state`: one per transactional id, keyed by it.

Value version 1 is flexible (KIP-890). Tags 0 to 3 are Apache Kafka's. Tags from 10001 on are Eosin's own: other
readers skip them.
"""

from typing import Final

from eosin.protocol.types import (
    Boolean,
    Int8,
    Int16,
    Int32,
    Int64,
    Layout,
    Message,
    RecordKind,
    RecordSchema,
    array,
    message,
    string,
    tagged,
    when,
)


class TransactionLogKey(Message):
    transactional_id: str = ""


class PartitionsSchema(Message):
    """The partitions of one topic that are in the transaction."""

    topic: str = ""
    partition_ids: tuple[int, ...] = ()


class TransactionLogValue(Message):
    producer_id: int = 0
    previous_producer_id: int = -1
    next_producer_id: int = -1
    producer_epoch: int = 0
    transaction_timeout_ms: int = 0
    transaction_status: int = 0
    """0 Empty, 1 Ongoing, 2 PrepareCommit, 3 PrepareAbort, 4 CompleteCommit, 5 CompleteAbort, 6 Dead,
    7 PrepareEpochFence."""
    transaction_partitions: tuple[PartitionsSchema, ...] | None = None  # null in state Empty
    transaction_last_update_timestamp_ms: int = 0
    transaction_start_timestamp_ms: int = 0
    client_transaction_version: int = 0
    next_producer_epoch: int = -1
    last_producer_epoch: int = -1
    timed_out_producer_id: int = -1
    timed_out_producer_epoch: int = -1
    cannot_return: bool = False
    """The producer's InitProducerId had no room for a pair (below version 3)."""
    next_transaction_timeout_ms: int = 0
    """From the end of this transaction on, when a newer instance of the producer has kept it (KIP-939)."""


def transaction_log_key(version: int) -> Layout:
    """The key at `version`."""
    return message(TransactionLogKey, False, "transactional_id" / string(False))


def transaction_log_value(version: int) -> Layout:
    """The value at `version`."""
    flexible = version >= 1
    partitions_schema = message(
        PartitionsSchema,
        flexible,
        "topic" / string(flexible),
        "partition_ids" / array(Int32, flexible),
    )
    return message(
        TransactionLogValue,
        flexible,
        "producer_id" / Int64,
        "producer_epoch" / Int16,
        "transaction_timeout_ms" / Int32,
        "transaction_status" / Int8,
        "transaction_partitions" / array(partitions_schema, flexible, nullable=True),
        "transaction_last_update_timestamp_ms" / Int64,
        "transaction_start_timestamp_ms" / Int64,
        *when(
            version >= 1,
            "previous_producer_id" / tagged(0, Int64),
            "next_producer_id" / tagged(1, Int64),
            "client_transaction_version" / tagged(2, Int16),
            "next_producer_epoch" / tagged(3, Int16),
            "last_producer_epoch" / tagged(10001, Int16),
            "timed_out_producer_id" / tagged(10002, Int64),
            "timed_out_producer_epoch" / tagged(10003, Int16),
            "cannot_return" / tagged(10004, Boolean),
            "next_transaction_timeout_ms" / tagged(10005, Int32),
        ),
    )


KEY: Final = RecordSchema(TransactionLogKey, versions=range(0, 1), layout=transaction_log_key)
VALUE: Final = RecordSchema(TransactionLogValue, versions=range(0, 2), layout=transaction_log_value)

KINDS: Final = (RecordKind(key=KEY, value=VALUE),)
