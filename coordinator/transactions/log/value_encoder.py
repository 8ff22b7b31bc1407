"""The value of a `__transaction_state` record, put together from parts of which most are encoded once (docs/adr/0023).

Its layout is declared in `eosin.protocol.schemas.records.transaction_state`, and the parts are cut from what the codec
of that declaration makes. Only the numbers that every record has anew are packed here. Always true: the result is what
the codec would make of the whole.
"""

import struct
from functools import lru_cache
from typing import Any, Final

from eosin.coordinator.transactions.rules.state import NO_EPOCH, NO_PRODUCER_ID, TransactionState, Txn
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition
from eosin.protocol.records.internal import encode_value
from eosin.protocol.schemas.records.transaction_state import PartitionsSchema, TransactionLogValue

START: Final = struct.Struct(">hqhib")
"""How a value begins at every version: version, producer id, epoch, timeout, state."""
_TIMES: Final = struct.Struct(">qq")
"""Behind the partitions: when it was updated, and when the transaction began."""
_EPOCH: Final = struct.Struct(">h")
_NO_PAIR: Final = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_EPOCH)


def encode_txn(txn: Txn, version: int) -> bytes:
    """The value of the record of `txn`. At version 0 there is no room for what version 1 has tags for."""
    # Every transaction of version 2 has another last epoch: it is the one tag that is packed anew.
    last_epoch = txn.last_epoch
    tags, further_tags = _tags(
        version,
        txn.previous_producer_id,
        txn.next_producer_id,
        txn.client_transaction_version,
        txn.next_epoch,
        last_epoch != NO_EPOCH,
        txn.timed_out,
        txn.can_return,
        txn.next_timeout_ms,
    )
    return b"%b%b%b%b%b%b" % (
        START.pack(version, txn.producer_id, txn.producer_epoch, txn.timeout_ms, txn.phase),
        _partitions(None if txn.phase is TransactionState.EMPTY else txn.partitions, version),
        _TIMES.pack(txn.updated_ms, txn.start_ms),
        tags,
        _EPOCH.pack(last_epoch) if version and last_epoch != NO_EPOCH else b"",
        further_tags,
    )


@lru_cache(maxsize=256)  # the same for two records of a transaction, and for most transactions of an id
def _partitions(partitions: frozenset[TopicPartition] | None, version: int) -> bytes:
    """What stands between `START` and `_TIMES`."""
    encoded = _encoded(version, transaction_partitions=None if partitions is None else _by_topic(partitions))
    return encoded[START.size : -_TIMES.size - len(_no_tags(version))]


@lru_cache(maxsize=1024)  # a few forms are those of nearly all
def _tags(
    version: int,
    previous_producer_id: int,
    next_producer_id: int,
    client_transaction_version: int,
    next_epoch: int,
    has_last_epoch: bool,
    timed_out: ProducerIdAndEpoch | None,
    can_return: bool,
    next_timeout_ms: int,
) -> tuple[bytes, bytes]:
    """What stands behind `_TIMES`: before the number of the last epoch, and behind it."""
    if not version:
        return b"", b""
    timed_out_id, timed_out_epoch = timed_out or _NO_PAIR
    behind = {
        "timed_out_producer_id": timed_out_id,
        "timed_out_producer_epoch": timed_out_epoch,
        "cannot_return": not can_return,
        "next_transaction_timeout_ms": next_timeout_ms,
    }
    encoded = _encoded(
        version,
        previous_producer_id=previous_producer_id,
        next_producer_id=next_producer_id,
        client_transaction_version=client_transaction_version,
        next_producer_epoch=next_epoch,
        last_producer_epoch=0 if has_last_epoch else NO_EPOCH,
        **behind,
    )
    tags = encoded[START.size + len(_partitions(None, version)) + _TIMES.size :]
    # Tags stand in the order of their numbers.
    end = len(tags) - len(_encoded(version, **behind)) + len(_encoded(version))
    return tags[: end - _EPOCH.size if has_last_epoch else end], tags[end:]


def _no_tags(version: int) -> bytes:
    return b"\0" if version else b""


def _encoded(version: int, **fields: Any) -> bytes:
    return encode_value(TransactionLogValue(**fields), version)


def _by_topic(partitions: frozenset[TopicPartition]) -> tuple[PartitionsSchema, ...]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return tuple(PartitionsSchema(topic, tuple(ids)) for topic, ids in topics.items())
