"""Records of `__transaction_state`: one per transactional id, keyed by it.

Value version 1 is flexible (KIP-890). Tags 0 to 3 are Apache Kafka's. Tags from 10001 on are Eosin's own: other
readers skip them.
"""

from __future__ import annotations

from typing import Annotated, Final

from eosin.protocol.types import Int8, Int16, Int32, Int64, Message, RecordKind, RecordSchema, Tag


class TransactionLogKey(Message):
    transactional_id: str = ""


class PartitionsSchema(Message):
    """The partitions of one topic that are in the transaction."""

    topic: str = ""
    partition_ids: tuple[Int32, ...] = ()


class TransactionLogValue(Message):
    producer_id: Int64 = 0
    previous_producer_id: Annotated[Int64, "1+", Tag(0)] = -1
    next_producer_id: Annotated[Int64, "1+", Tag(1)] = -1
    producer_epoch: Int16 = 0
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    """0 Empty, 1 Ongoing, 2 PrepareCommit, 3 PrepareAbort, 4 CompleteCommit, 5 CompleteAbort, 6 Dead,
    7 PrepareEpochFence."""
    transaction_partitions: tuple[PartitionsSchema, ...] | None = None  # null in state Empty
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Annotated[Int16, "1+", Tag(2)] = 0
    next_producer_epoch: Annotated[Int16, "1+", Tag(3)] = -1
    last_producer_epoch: Annotated[Int16, "1+", Tag(10001)] = -1
    timed_out_producer_id: Annotated[Int64, "1+", Tag(10002)] = -1
    timed_out_producer_epoch: Annotated[Int16, "1+", Tag(10003)] = -1
    cannot_return: Annotated[bool, "1+", Tag(10004)] = False
    """The producer's InitProducerId had no room for a pair (below version 3)."""
    next_transaction_timeout_ms: Annotated[Int32, "1+", Tag(10005)] = 0
    """From the end of this transaction on, when a newer instance of the producer has kept it (KIP-939)."""


KEY: Final = RecordSchema(TransactionLogKey, versions=range(0, 1), flexible_from=None)
VALUE: Final = RecordSchema(TransactionLogValue, versions=range(0, 2), flexible_from=1)

KINDS: Final = (RecordKind(key=KEY, value=VALUE),)
