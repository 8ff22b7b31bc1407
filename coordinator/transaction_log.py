"""Records of `__transaction_state` and back (transactions.md 1.4 and 8).

Owns the meaning of the bytes; their layout is declared in `eosin.protocol.schemas.records.transaction_state`. Always
true: what is written is read back as the same `Txn` (at value version 1; version 0, of transaction version 0, has no
room for the last epoch and for the previous and next pairs); and what cannot be understood is not half believed:
`CorruptTransactionLog` says that the partition must not be served.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from eosin.coordinator.txn import (
    FENCING_EPOCH,
    NO_EPOCH,
    NO_PARTITIONS,
    NO_PRODUCER_ID,
    Phase,
    ProducerPair,
    Txn,
)
from eosin.protocol.names import TopicPartition
from eosin.protocol.record_codec import decode_key, decode_value, encode_key, encode_value
from eosin.protocol.records import (
    CorruptRecords,
    NewRecord,
    Record,
    build_batch,
    iter_records,
    read_header,
    verify_crc,
)
from eosin.protocol.schemas.records.transaction_state import (
    KINDS,
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from eosin.protocol.types import DecodeError

_STORED_PHASES: Final = {phase.value: phase for phase in Phase if phase is not Phase.DEAD}


class CorruptTransactionLog(Exception):
    """The log says something that cannot be true, or that cannot be understood."""


def encode_batch(txns: Sequence[Txn], *, now_ms: int, transaction_version: int) -> bytes:
    """One batch with a record per `Txn`, a tombstone for each that is DEAD. `transaction_version` is the server's."""
    value_version = min(transaction_version, 1)
    records = [
        NewRecord(
            _encoded_key(txn.transactional_id),
            None if txn.phase is Phase.DEAD else encode_value(_value(txn), value_version),
        )
        for txn in txns
    ]
    return bytes(build_batch(records, timestamp=now_ms))


@lru_cache(maxsize=1024)
def _encoded_key(transactional_id: str) -> bytes:
    return encode_key(TransactionLogKey(transactional_id))


def _value(txn: Txn) -> TransactionLogValue:
    timed_out = txn.timed_out or ProducerPair(NO_PRODUCER_ID, NO_EPOCH)
    return TransactionLogValue(
        producer_id=txn.producer_id,
        previous_producer_id=txn.previous_producer_id,
        next_producer_id=txn.next_producer_id,
        producer_epoch=txn.producer_epoch,
        transaction_timeout_ms=txn.timeout_ms,
        transaction_status=txn.phase,
        transaction_partitions=None if txn.phase is Phase.EMPTY else _by_topic(txn.partitions),
        transaction_last_update_timestamp_ms=txn.updated_ms,
        transaction_start_timestamp_ms=txn.start_ms,
        client_transaction_version=txn.client_version,
        next_producer_epoch=txn.next_epoch,
        last_producer_epoch=txn.last_epoch,
        timed_out_producer_id=timed_out.producer_id,
        timed_out_producer_epoch=timed_out.producer_epoch,
        cannot_return=not txn.can_return,
        next_transaction_timeout_ms=txn.next_timeout_ms,
    )


@lru_cache(maxsize=256)  # the same for two records of a transaction, and for most transactions of an id
def _by_topic(partitions: frozenset[TopicPartition]) -> tuple[PartitionsSchema, ...]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return tuple(PartitionsSchema(topic, tuple(ids)) for topic, ids in topics.items())


def replay(batch: bytes | memoryview, txns: dict[str, Txn]) -> None:
    """Apply one batch of the log to what is known so far. Raises CorruptTransactionLog."""
    for change in changes(batch):
        if change.txn is None:
            txns.pop(change.transactional_id, None)
        else:
            _check_epoch(change, txns.get(change.transactional_id))
            txns[change.transactional_id] = change.txn


class Change(NamedTuple):
    """One record of the log."""

    offset: int
    transactional_id: str
    txn: Txn | None
    """None is a tombstone."""


def changes(batch: bytes | memoryview) -> Iterator[Change]:
    """What the records of a batch say, in order. Raises CorruptTransactionLog.

    A record with a key of a kind that is not known is skipped; a batch that compaction has emptied has nothing to say.
    """
    try:
        header = read_header(batch)
        if not verify_crc(batch, 0, header):
            raise CorruptTransactionLog(f"the batch at offset {header.base_offset} has a wrong checksum")
        if header.is_control:
            return
        for record in iter_records(batch):
            if record.key is None:
                raise CorruptTransactionLog(f"the record at offset {record.offset} has no key")
            key = decode_key(KINDS, record.key)
            if key is not None:
                yield Change(record.offset, key.transactional_id, _value_of(key.transactional_id, record))
    except (CorruptRecords, DecodeError) as error:
        raise CorruptTransactionLog(str(error)) from error


def _value_of(transactional_id: str, record: Record) -> Txn | None:
    return None if record.value is None else _txn(transactional_id, decode_value(TransactionLogValue, record.value))


def _check_epoch(change: Change, before: Txn | None) -> None:
    txn = change.txn
    if before is None or txn is None or before.producer_id != txn.producer_id:
        return
    if txn.producer_epoch < before.producer_epoch:
        raise CorruptTransactionLog(
            f"the record at offset {change.offset} takes {txn.transactional_id!r} from epoch {before.producer_epoch}"
            f" of producer {txn.producer_id} back to {txn.producer_epoch}"
        )


def decoded_txn(transactional_id: str, value: bytes) -> Txn:
    """What one record's value says of an id. Raises CorruptTransactionLog, DecodeError."""
    return _txn(transactional_id, decode_value(TransactionLogValue, value))


def _txn(transactional_id: str, value: TransactionLogValue) -> Txn:
    phase = _STORED_PHASES.get(value.transaction_status)
    if phase is None:
        raise CorruptTransactionLog(f"{transactional_id!r} is in state {value.transaction_status}")
    if value.producer_id < 0 or not 0 <= value.producer_epoch <= FENCING_EPOCH:
        raise CorruptTransactionLog(f"{transactional_id!r} has producer {value.producer_id}, {value.producer_epoch}")
    timed_out = ProducerPair(value.timed_out_producer_id, value.timed_out_producer_epoch)
    return Txn(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        last_epoch=value.last_producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        phase=phase,
        partitions=_partitions(value.transaction_partitions or ()),
        start_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
        timed_out=None if timed_out.producer_id == NO_PRODUCER_ID else timed_out,
        can_return=not value.cannot_return,
        next_epoch=value.next_producer_epoch,
        next_timeout_ms=value.next_transaction_timeout_ms,
    )


def _partitions(topics: Iterable[PartitionsSchema]) -> frozenset[TopicPartition]:
    partitions = frozenset(TopicPartition(each.topic, index) for each in topics for index in each.partition_ids)
    return partitions or NO_PARTITIONS
