"""Records of `__transaction_state` as bytes; a value is joined from parts, most of which are cached (docs/adr/0023).

The layout is declared in `eosin.protocol.schemas.records.transaction_state`, and the parts are cut from what the codec
of that declaration makes. Only the numbers that every record has anew are packed here. Always true: the result is what
the codec would make of the whole.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from eosin.coordinator.transactions.rules.many_partitions import MANY, ManyPartitions, grouped
from eosin.coordinator.transactions.rules.state import NO_EPOCH, NO_PRODUCER_ID, TransactionState, Txn
from eosin.protocol.codegen.varints import uvarint
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition, in_order
from eosin.protocol.records.fields import encode_record
from eosin.protocol.records.header import plain_batch
from eosin.protocol.records.internal import encode_value
from eosin.protocol.schemas.records.transaction_state import KEY, PartitionsSchema, TransactionLogValue

START: Final = struct.Struct(">hqhib")
"""The beginning of a value at every version: version, producer id, epoch, timeout, state."""
_TIMES: Final = struct.Struct(">qq")
"""Behind the partitions: when it was updated, and when the transaction began."""
_EPOCH: Final = struct.Struct(">h")
_NO_PAIR: Final = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_EPOCH)
_COUNT: Final = struct.Struct(">i")
"""The number of topics, at version 0."""

_KEY_START: Final = struct.Struct(">hh")
_KEY_VERSION: Final = KEY.versions[-1]


def encode_records(txns: Sequence[Txn], *, transaction_version: int) -> bytes:
    """The records of a batch, a tombstone for each `Txn` that is DEAD. `transaction_version` is the server's."""
    value_version = 1 if transaction_version else 0
    if len(txns) == 1:
        return _record(txns[0], 0, value_version)
    return b"".join([_record(txn, index, value_version) for index, txn in enumerate(txns)])


def _record(txn: Txn, index: int, value_version: int) -> bytes:
    return encode_record(
        offset_delta=index,
        timestamp_delta=0,
        key=_encoded_key(txn.transactional_id),
        value=None if txn.state is TransactionState.DEAD else encode_txn(txn, value_version),
    )


def encode_batch(txns: Sequence[Txn], *, now_ms: int, transaction_version: int) -> bytes:
    """The batch that the log makes of such records, at offset 0."""
    records = encode_records(txns, transaction_version=transaction_version)
    return bytes(plain_batch(records, count=len(txns), timestamp=now_ms))


def _encoded_key(transactional_id: str) -> bytes:
    """The same bytes as the codec of `TransactionLogKey` makes; there are too many ids to keep the keys of all."""
    name = transactional_id.encode()
    return _KEY_START.pack(_KEY_VERSION, len(name)) + name


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
        START.pack(version, txn.producer_id, txn.producer_epoch, txn.timeout_ms, txn.state),
        _partitions(None if txn.state is TransactionState.EMPTY else txn.partitions, version),
        _TIMES.pack(txn.updated_ms, txn.start_ms),
        tags,
        _EPOCH.pack(last_epoch) if version and last_epoch != NO_EPOCH else b"",
        further_tags,
    )


def _partitions(partitions: frozenset[TopicPartition] | None, version: int) -> bytes:
    """The bytes between `START` and `_TIMES`. Those of large sets are not cached: a transaction that adds ten thousand
    partitions one by one has as many sets, of which no one comes back."""
    if partitions is not None and len(partitions) > MANY:
        return _of_many(
            partitions if isinstance(partitions, ManyPartitions) else grouped(in_order(partitions)), version
        )
    return _cached_partitions(partitions, version)


def _of_many(partitions: ManyPartitions, version: int) -> bytes:
    count = len(partitions.topics)
    head = uvarint(count + 1) if version else _COUNT.pack(count)
    return head + b"".join([topic.encoded(version, encoded_topic) for topic in partitions.topics.values()])


def encoded_topic(version: int, topic: str, partitions: Sequence[TopicPartition]) -> bytes:
    """The part of a value that is about one topic, whose `partitions` may be many."""
    encoded = _of_topics((PartitionsSchema(topic, tuple([each.partition for each in partitions])),), version)
    return encoded[1 if version else _COUNT.size :]


def _encoded_partitions(partitions: frozenset[TopicPartition] | None, version: int) -> bytes:
    return _of_topics(None if partitions is None else _by_topic(partitions), version)


def _of_topics(topics: tuple[PartitionsSchema, ...] | None, version: int) -> bytes:
    encoded = _value(version, transaction_partitions=topics)
    return encoded[START.size : -_TIMES.size - len(_no_tags(version))]


# The same for two records of a transaction, and for most transactions of an id.
_cached_partitions: Final = lru_cache(maxsize=256)(_encoded_partitions)


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
    """The bytes behind `_TIMES`: before the number of the last epoch, and behind it."""
    if not version:
        return b"", b""
    timed_out_id, timed_out_epoch = timed_out or _NO_PAIR
    behind = {
        "timed_out_producer_id": timed_out_id,
        "timed_out_producer_epoch": timed_out_epoch,
        "cannot_return": not can_return,
        "next_transaction_timeout_ms": next_timeout_ms,
    }
    encoded = _value(
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
    end = len(tags) - len(_value(version, **behind)) + len(_value(version))
    return tags[: end - _EPOCH.size if has_last_epoch else end], tags[end:]


def _no_tags(version: int) -> bytes:
    return b"\0" if version else b""


def _value(version: int, **fields: Any) -> bytes:
    return encode_value(TransactionLogValue(**fields), version)


def _by_topic(partitions: frozenset[TopicPartition]) -> tuple[PartitionsSchema, ...]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return tuple(PartitionsSchema(topic, tuple(sorted(topics[topic]))) for topic in sorted(topics))
