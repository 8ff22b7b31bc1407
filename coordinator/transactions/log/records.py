"""Records of `__transaction_state` and back (transactions.md 1.4 and 8).

Owns the meaning of the bytes, together with `value_encoder`; their layout is declared in
`eosin.protocol.schemas.records.transaction_state`. Always true: what is written is read back as the same `Txn` (at
value version 1; version 0, of transaction version 0, has no room for the last epoch and for the previous and next
pairs); and what cannot be understood is not half believed: `CorruptTransactionLog` says that the partition must not be
served.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from eosin.coordinator.transactions.log.value_encoder import encode_txn
from eosin.coordinator.transactions.rules.state import (
    FENCING_EPOCH,
    NO_PARTITIONS,
    NO_PRODUCER_ID,
    TransactionState,
    Txn,
)
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition
from eosin.protocol.records.batch import CorruptRecords, Record, iter_records, read_header, verify_crc
from eosin.protocol.records.fields import encode_record
from eosin.protocol.records.internal import decode_key, decode_value
from eosin.protocol.records.plain_batch import plain_batch
from eosin.protocol.schemas.records.transaction_state import (
    KEY,
    KINDS,
    PartitionsSchema,
    TransactionLogValue,
)
from eosin.protocol.types import DecodeError

_STORED_PHASES: Final = {phase.value: phase for phase in TransactionState if phase is not TransactionState.DEAD}


_KEY_START: Final = struct.Struct(">hh")
_KEY_VERSION: Final = KEY.versions[-1]


class CorruptTransactionLog(Exception):
    """The log says something that cannot be true, or that cannot be understood."""


def encode_records(txns: Sequence[Txn], *, transaction_version: int) -> bytes:
    """The records of a batch, a tombstone for each `Txn` that is DEAD. `transaction_version` is the server's."""
    value_version = 1 if transaction_version else 0
    if len(txns) == 1:
        return _encoded(txns[0], 0, value_version)
    return b"".join([_encoded(txn, index, value_version) for index, txn in enumerate(txns)])


def _encoded(txn: Txn, index: int, value_version: int) -> bytes:
    return encode_record(
        offset_delta=index,
        timestamp_delta=0,
        key=_encoded_key(txn.transactional_id),
        value=None if txn.phase is TransactionState.DEAD else encode_txn(txn, value_version),
    )


def encode_batch(txns: Sequence[Txn], *, now_ms: int, transaction_version: int) -> bytes:
    """The batch that the log makes of such records, at offset 0."""
    records = encode_records(txns, transaction_version=transaction_version)
    return bytes(plain_batch(records, count=len(txns), timestamp=now_ms))


def _encoded_key(transactional_id: str) -> bytes:
    """What the codec of `TransactionLogKey` makes; there are too many ids to keep the keys of all."""
    name = transactional_id.encode()
    return _KEY_START.pack(_KEY_VERSION, len(name)) + name


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
    timed_out = ProducerIdAndEpoch(value.timed_out_producer_id, value.timed_out_producer_epoch)
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
        client_transaction_version=value.client_transaction_version,
        timed_out=None if timed_out.producer_id == NO_PRODUCER_ID else timed_out,
        can_return=not value.cannot_return,
        next_epoch=value.next_producer_epoch,
        next_timeout_ms=value.next_transaction_timeout_ms,
    )


def _partitions(topics: Iterable[PartitionsSchema]) -> frozenset[TopicPartition]:
    partitions = frozenset(TopicPartition(each.topic, index) for each in topics for index in each.partition_ids)
    return partitions or NO_PARTITIONS
