"""Records of `__transaction_state` read back (transactions.md 1.4 and 8); `encoder` writes them.

Owns the meaning of the bytes; their layout is declared in
`eosin.protocol.schemas.records.transaction_state`. Always true: what is written is read back as the same `Txn` (at
value version 1; version 0, of transaction version 0, has no room for the last epoch and for the previous and next
pairs); and what cannot be understood is not half believed: `CorruptTransactionLog` says that the partition must not be
served.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from eosin.coordinator.transactions.rules.many_partitions import MANY, grouped
from eosin.coordinator.transactions.rules.state import (
    FENCING_EPOCH,
    NO_PARTITIONS,
    NO_PRODUCER_ID,
    TransactionState,
    Txn,
)
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition
from eosin.protocol.records.batch import CorruptRecords, Record, iter_records, read_header, verify_crc
from eosin.protocol.records.internal import decode_key, decode_value
from eosin.protocol.schemas.records.transaction_state import (
    KINDS,
    PartitionsSchema,
    TransactionLogValue,
)
from eosin.protocol.types import DecodeError

_STORED_STATES: Final = {state.value: state for state in TransactionState if state is not TransactionState.DEAD}


class CorruptTransactionLog(Exception):
    """The log says something that cannot be true, or that cannot be understood."""


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
    """The changes in the records of a batch, in order. Raises CorruptTransactionLog.

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
    """The state of an id, by one record's value. Raises CorruptTransactionLog, DecodeError."""
    return _txn(transactional_id, decode_value(TransactionLogValue, value))


def _txn(transactional_id: str, value: TransactionLogValue) -> Txn:
    state = _STORED_STATES.get(value.transaction_status)
    if state is None:
        raise CorruptTransactionLog(f"{transactional_id!r} is in state {value.transaction_status}")
    if value.producer_id < 0 or not 0 <= value.producer_epoch <= FENCING_EPOCH:
        raise CorruptTransactionLog(f"{transactional_id!r} has producer {value.producer_id}, {value.producer_epoch}")
    timed_out = ProducerIdAndEpoch(value.timed_out_producer_id, value.timed_out_producer_epoch)
    return Txn(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        last_epoch=value.last_producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=_partitions(value.transaction_partitions or ()),
        start_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        client_transaction_version=value.client_transaction_version,
        timed_out=None if timed_out.producer_id == NO_PRODUCER_ID else timed_out,
        can_return=not value.cannot_return,
        next_epoch=value.next_producer_epoch,
        next_timeout_ms=value.next_transaction_timeout_ms,
    )


def _partitions(topics: Iterable[PartitionsSchema]) -> frozenset[TopicPartition]:
    named = dict.fromkeys(TopicPartition(each.topic, index) for each in topics for index in each.partition_ids)
    if len(named) > MANY:
        return grouped(named)
    return frozenset(named) or NO_PARTITIONS
