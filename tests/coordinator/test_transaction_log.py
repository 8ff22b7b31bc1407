"""Records of `__transaction_state`: what is written is read back, and what makes no sense is not believed."""

import weakref

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eosin.coordinator.transactions.log.encoder import encode_batch, encode_txn
from eosin.coordinator.transactions.log.records import CorruptTransactionLog, replay
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch, build_control_batch, iter_records
from eosin.protocol.records.internal import decode_value, encode_key, encode_value
from eosin.protocol.schemas.records.consumer_offsets import GroupMetadataKey
from eosin.protocol.schemas.records.transaction_state import PartitionsSchema, TransactionLogKey, TransactionLogValue

PARTITIONS = frozenset({TopicPartition("orders", 10), TopicPartition("orders", 9), TopicPartition("a", 0)})
FULL = Txn(
    "tx",
    producer_id=7,
    previous_producer_id=6,
    next_producer_id=8,
    producer_epoch=32767,
    last_epoch=32766,
    timeout_ms=60_000,
    state=TransactionState.PREPARE_COMMIT,
    partitions=PARTITIONS,
    start_ms=11,
    updated_ms=12,
    client_transaction_version=2,
    timed_out=ProducerIdAndEpoch(7, 3),
    can_return=False,
    next_epoch=0,
    next_timeout_ms=2**31 - 1,
)
IDS = st.integers(-1, 2**63 - 1)
EPOCHS = st.integers(-1, 32767)
TXNS = st.builds(
    Txn,
    st.just("tx"),
    producer_id=IDS,
    previous_producer_id=IDS,
    next_producer_id=IDS,
    producer_epoch=EPOCHS,
    last_epoch=EPOCHS,
    timeout_ms=st.integers(0, 2**31 - 1),
    state=st.sampled_from([state for state in TransactionState if state is not TransactionState.DEAD]),
    partitions=st.frozensets(st.builds(TopicPartition, st.sampled_from(["a", "orders"]), st.integers(0, 300))),
    start_ms=IDS,
    updated_ms=IDS,
    client_transaction_version=st.integers(0, 2),
    timed_out=st.none() | st.builds(ProducerIdAndEpoch, IDS, EPOCHS),
    can_return=st.booleans(),
    next_epoch=EPOCHS,
    next_timeout_ms=st.integers(0, 2**31 - 1),
)
EMPTY = Txn("tx", producer_id=7, producer_epoch=5, timeout_ms=1, updated_ms=2)


def read(*batches: bytes) -> dict[str, Txn]:
    txns: dict[str, Txn] = {}
    for batch in batches:
        replay(batch, txns)
    return txns


def written(*txns: Txn, version: int = 2) -> bytes:
    return encode_batch(txns, now_ms=99, transaction_version=version)


def raw(value: bytes | None, key: bytes | None = None) -> bytes:
    record = NewRecord(encode_key(TransactionLogKey("tx")) if key is None else key, value)
    return bytes(build_batch([record], timestamp=0))


@pytest.mark.parametrize("state", [state for state in TransactionState if state is not TransactionState.DEAD])
def test_a_txn_is_read_back_as_it_was_written(state: TransactionState) -> None:
    partitions = (
        PARTITIONS
        if state in (TransactionState.ONGOING, TransactionState.PREPARE_ABORT, TransactionState.PREPARE_COMMIT)
        else frozenset()
    )
    txn = msgspec.structs.replace(FULL, state=state, partitions=partitions)
    assert read(written(txn)) == {"tx": txn}


def test_a_pending_record_is_not_part_of_what_is_written() -> None:
    assert read(written(EMPTY))["tx"].pending is None


def test_without_the_feature_the_record_is_that_of_older_brokers() -> None:
    (record,) = iter_records(written(FULL, version=0))
    assert record.value is not None
    assert record.value[:2] == b"\0\0"
    forgotten = msgspec.structs.replace(
        FULL,
        previous_producer_id=-1,
        next_producer_id=-1,
        last_epoch=-1,
        client_transaction_version=0,
        timed_out=None,
        can_return=True,
        next_epoch=-1,
        next_timeout_ms=0,
    )
    assert read(written(FULL, version=0)) == {"tx": forgotten}


def test_an_empty_state_has_no_list_of_partitions_and_the_others_have_one() -> None:
    for txn, expected in ((EMPTY, None), (msgspec.structs.replace(EMPTY, state=TransactionState.COMPLETE_ABORT), ())):
        (record,) = iter_records(written(txn))
        assert record.value is not None
        assert decode_value(TransactionLogValue, record.value).transaction_partitions == expected


def test_partitions_are_written_in_order() -> None:
    (record,) = iter_records(written(FULL))
    assert record.value is not None
    topics = decode_value(TransactionLogValue, record.value).transaction_partitions
    assert [(each.topic, each.partition_ids) for each in topics] == [("a", (0,)), ("orders", (9, 10))]


def test_the_partitions_of_a_large_transaction_are_written_in_order_and_not_kept() -> None:
    """A producer of version 2 adds its partitions one by one: each record has another set, and none of them returns."""
    many = [TopicPartition(topic, index) for index in range(5000) for topic in ("orders", "a")]
    partitions = frozenset(many)
    kept = weakref.ref(partitions)
    value = decode_value(TransactionLogValue, encode_txn(msgspec.structs.replace(FULL, partitions=partitions), 1))
    indexes = tuple(range(5000))
    written_topics = [(each.topic, each.partition_ids) for each in value.transaction_partitions]
    assert written_topics == [("a", indexes), ("orders", indexes)]
    del partitions
    assert kept() is None


def test_the_latest_record_of_an_id_counts_and_a_tombstone_removes_it() -> None:
    other = msgspec.structs.replace(EMPTY, transactional_id="other")
    later = msgspec.structs.replace(EMPTY, producer_epoch=6)
    assert read(written(EMPTY), written(other), written(later)) == {"tx": later, "other": other}
    dead = msgspec.structs.replace(later, state=TransactionState.DEAD)
    assert read(written(EMPTY), written(other, dead)) == {"other": other}


def test_several_ids_share_a_batch() -> None:
    txns = [msgspec.structs.replace(EMPTY, transactional_id=f"tx-{n}") for n in range(3)]
    assert list(read(written(*txns)).values()) == txns


def test_a_key_of_a_kind_that_is_not_known_is_skipped() -> None:
    unknown = b"\x00\x07whatever"
    assert read(raw(b"junk", unknown), written(EMPTY), raw(None, unknown)) == {"tx": EMPTY}


def test_control_batches_say_nothing() -> None:
    marker = build_control_batch(producer_id=1, producer_epoch=0, commit=True, coordinator_epoch=0, timestamp=0)
    assert read(bytes(marker), written(EMPTY)) == {"tx": EMPTY}


def test_an_epoch_that_goes_back_is_corruption() -> None:
    with pytest.raises(CorruptTransactionLog, match="epoch 5"):
        read(written(EMPTY), written(msgspec.structs.replace(EMPTY, producer_epoch=4)))


def test_an_epoch_may_start_anew_with_another_producer_id_or_after_a_tombstone() -> None:
    rotated = msgspec.structs.replace(EMPTY, producer_id=8, producer_epoch=0)
    anew = msgspec.structs.replace(EMPTY, producer_epoch=0)
    dead = msgspec.structs.replace(EMPTY, state=TransactionState.DEAD)
    assert read(written(EMPTY), written(rotated)) == {"tx": rotated}
    assert read(written(EMPTY), written(dead), written(anew)) == {"tx": anew}


def value(**changes: object) -> bytes:
    fields: dict[str, object] = {"producer_id": 7, "producer_epoch": 1, "transaction_status": 0, **changes}
    return encode_value(TransactionLogValue(**fields), 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "batch",
    [
        raw(value(transaction_status=6)),
        raw(value(transaction_status=7)),
        raw(value(transaction_status=8)),
        raw(value(transaction_status=-1)),
        raw(value(producer_id=-1)),
        raw(value(producer_epoch=-1)),
        raw(b"\x00\x09"),
        raw(value()[:-3]),
        raw(b""),
        bytes(build_batch([NewRecord(None, value())], timestamp=0)),
        raw(value(), b"\x00\x00\x00\x09tx"),
    ],
    ids=[
        "dead", "epoch fence", "unknown state", "negative state", "no producer", "no epoch", "unknown version",
        "torn value", "empty value", "no key", "torn key",
    ],
)  # fmt: skip
def test_a_record_that_cannot_be_is_corruption(batch: bytes) -> None:
    with pytest.raises(CorruptTransactionLog):
        read(batch)


def test_a_batch_with_a_wrong_checksum_is_corruption() -> None:
    batch = bytearray(written(EMPTY))
    batch[-1] ^= 1
    with pytest.raises(CorruptTransactionLog, match="checksum"):
        read(bytes(batch))


def test_garbage_is_corruption() -> None:
    with pytest.raises(CorruptTransactionLog):
        read(b"garbage" * 20)


def test_the_key_of_another_internal_topic_is_not_taken_for_ours() -> None:
    assert read(raw(b"\x00\x00", encode_key(GroupMetadataKey("g")))) == {}


@pytest.mark.parametrize("version", [0, 1])
@given(txn=st.data())
def test_a_value_put_together_from_parts_is_that_of_the_codec(txn: st.DataObject, version: int) -> None:
    made = txn.draw(TXNS)
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(made.partitions):
        topics.setdefault(topic, []).append(index)
    timed_out = made.timed_out or ProducerIdAndEpoch(-1, -1)
    whole = TransactionLogValue(
        producer_id=made.producer_id,
        previous_producer_id=made.previous_producer_id,
        next_producer_id=made.next_producer_id,
        producer_epoch=made.producer_epoch,
        transaction_timeout_ms=made.timeout_ms,
        transaction_status=made.state,
        transaction_partitions=None
        if made.state is TransactionState.EMPTY
        else tuple(PartitionsSchema(topic, tuple(ids)) for topic, ids in topics.items()),
        transaction_last_update_timestamp_ms=made.updated_ms,
        transaction_start_timestamp_ms=made.start_ms,
        client_transaction_version=made.client_transaction_version,
        next_producer_epoch=made.next_epoch,
        last_producer_epoch=made.last_epoch,
        timed_out_producer_id=timed_out.producer_id,
        timed_out_producer_epoch=timed_out.producer_epoch,
        cannot_return=not made.can_return,
        next_transaction_timeout_ms=made.next_timeout_ms,
    )
    assert encode_txn(made, version) == encode_value(whole, version)


@pytest.mark.parametrize("transactional_id", ["t", "tx-é-✓", "x" * 300])
def test_a_key_put_together_from_parts_is_that_of_the_codec(transactional_id: str) -> None:
    (record,) = iter_records(written(Txn(transactional_id, producer_id=7, producer_epoch=0)))
    assert record.key == encode_key(TransactionLogKey(transactional_id))
