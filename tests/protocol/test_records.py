"""Record batches: what is built can be read, by us and by others, and damage is always reported as damage."""

import contextlib
from typing import Any

import pytest
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy, _DefaultRecordBatchPy
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
from record_strategies import Drawn, built, mutated, new_records

from eosin.protocol.records.batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAX_SEQUENCE,
    Compression,
    ControlType,
    CorruptRecords,
    NewRecord,
    Record,
    batches,
    build_batch,
    build_control_batch,
    encode_values,
    iter_records,
    next_sequence,
    peek_magic,
    previous_sequence,
    read_control_record,
    read_header,
    recompress,
    records_payload,
    retain_records,
    set_timestamps_in_place,
    stamp,
    stamp_in_place,
    verify_crc,
)
from eosin.protocol.records.fields import encode_record, read_varint, varint

RECORDS = [
    NewRecord(b"k", b"v", 1000),
    NewRecord(None, None, 900, (("trace", b"1"), ("empty", None))),
    NewRecord(b"", b"x" * 300, 1500),
]
FEW = settings(max_examples=25)
NO_SNAPPY_IN_KAFKA_PYTHON = [codec for codec in Compression if codec is not Compression.SNAPPY]


def as_written(records: list[NewRecord], base_offset: int) -> list[Record]:
    return [
        Record(base_offset + index, record.timestamp or 0, record.key, record.value, record.headers)
        for index, record in enumerate(records)
    ]


def read(batch: Any) -> list[tuple[Any, ...]]:
    """The records that another client's reader finds."""
    return [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]


def told(records: list[NewRecord], base_offset: int = 0) -> list[tuple[Any, ...]]:
    return [(base_offset + index, r.timestamp, r.key, r.value, tuple(r.headers)) for index, r in enumerate(records)]


# --- building and reading


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 8191, 8192, 8193, 20_000])
def test_values_are_encoded_together_as_each_alone(count: int) -> None:
    values = [b"x" * (number * 7 % 200) for number in range(count)]
    alone = [
        encode_record(offset_delta=delta, timestamp_delta=0, key=None, value=value)
        for delta, value in enumerate(values)
    ]
    assert encode_values(values) == b"".join(alone)


@given(built())
def test_a_built_batch_reads_back_as_it_was_written(drawn: Drawn) -> None:
    header = read_header(drawn.batch)
    assert header.size == len(drawn.batch)
    assert verify_crc(drawn.batch, 0, header)
    assert header.compression is drawn.arguments["compression"]
    assert header.records_count == len(drawn.records) == header.last_offset_delta + 1
    assert header.max_timestamp == max(record.timestamp or 0 for record in drawn.records)
    for name in ("base_offset", "producer_id", "producer_epoch", "base_sequence"):
        assert getattr(header, name) == drawn.arguments.get(name, -1)
    assert header.is_transactional == drawn.arguments.get("transactional", False)
    assert not header.is_control
    expected = as_written(drawn.records, header.base_offset)
    for buffer in (drawn.batch, bytes(drawn.batch), memoryview(drawn.batch)):
        assert list(iter_records(buffer)) == expected


@given(built(), st.data())
def test_a_mutated_batch_raises_nothing_but_corrupt_records(drawn: Drawn, data: st.DataObject) -> None:
    damaged = data.draw(mutated(bytes(drawn.batch)))
    for look in (
        lambda: list(iter_records(damaged, limit=100_000)),
        lambda: list(batches(damaged)),
        lambda: read_control_record(damaged),
        lambda: retain_records(damaged, lambda record: record.offset % 2 == 0, delete_horizon_ms=5),
        lambda: recompress(damaged, Compression.ZSTD),
    ):
        with contextlib.suppress(CorruptRecords):
            look()


def test_records_without_a_timestamp_take_the_batchs() -> None:
    batch = build_batch([NewRecord(b"a", None), NewRecord(b"b", None, 7)], timestamp=42)
    assert [record.timestamp for record in iter_records(batch)] == [42, 7]
    assert read_header(batch).max_timestamp == 42


def test_log_append_time_replaces_every_records_timestamp() -> None:
    batch = build_batch(RECORDS, timestamp=0)
    set_timestamps_in_place(batch, attributes=LOG_APPEND_TIME, max_timestamp=77)
    header = read_header(batch)
    assert verify_crc(batch, 0, header)
    assert header.is_log_append_time
    assert [record.timestamp for record in iter_records(batch)] == [77, 77, 77]


def test_header_keys_that_are_not_utf8_survive_a_round_trip() -> None:
    batch = build_batch([NewRecord(b"k", b"v", 5, (("\udcff", b"1"),))], timestamp=5)
    assert b"\xff" in bytes(records_payload(batch, read_header(batch)))
    assert retain_records(batch, lambda _: True) == batch


def test_an_unknown_codec_is_corrupt() -> None:
    batch = build_batch(RECORDS, timestamp=0)
    set_timestamps_in_place(batch, attributes=7, max_timestamp=0)
    with pytest.raises(CorruptRecords, match="compression id 7"):
        list(iter_records(batch))


def test_bytes_after_the_last_record_are_corrupt() -> None:
    batch = build_batch(RECORDS, timestamp=0)
    batch[57:61] = (2).to_bytes(4, "big")
    with pytest.raises(CorruptRecords, match="after the last record"):
        list(iter_records(batch))


# --- against other clients' readers and writers


@pytest.mark.parametrize("codec", Compression)
@FEW
@given(records=new_records())
def test_aiokafka_reads_our_batches(codec: Compression, records: list[NewRecord]) -> None:
    theirs = _DefaultRecordBatchPy(bytes(build_batch(records, timestamp=0, base_offset=7, compression=codec)))
    assert theirs.validate_crc()
    assert read(theirs) == told(records, 7)


@pytest.mark.parametrize("codec", NO_SNAPPY_IN_KAFKA_PYTHON)
@FEW
@given(records=new_records())
def test_kafka_python_reads_our_batches(codec: Compression, records: list[NewRecord]) -> None:
    theirs = KafkaPythonBatch(bytes(build_batch(records, timestamp=0, base_offset=7, compression=codec)))
    assert theirs.validate_crc()
    assert read(theirs) == told(records, 7)


@pytest.mark.parametrize("codec", Compression)
@FEW
@given(records=new_records())
def test_we_read_batches_of_aiokafka(codec: Compression, records: list[NewRecord]) -> None:
    builder = _DefaultRecordBatchBuilderPy(2, codec, 1, 9, 3, 11, 1_000_000)
    for index, record in enumerate(records):
        builder.append(index, record.timestamp, record.key, record.value, list(record.headers))
    batch = builder.build()
    header = read_header(batch)
    assert verify_crc(batch, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, 11)
    assert list(iter_records(batch)) == as_written(records, 0)


@pytest.mark.parametrize("codec", NO_SNAPPY_IN_KAFKA_PYTHON)
@FEW
@given(records=new_records())
def test_we_read_batches_of_kafka_python(codec: Compression, records: list[NewRecord]) -> None:
    builder = KafkaPythonBuilder(2, codec, True, 9, 3, 11, 1_000_000)
    for index, record in enumerate(records):
        builder.append(index, record.timestamp, record.key, record.value, list(record.headers))
    batch = builder.build()
    assert verify_crc(batch, 0, read_header(batch))
    assert read_header(batch).is_transactional
    assert list(iter_records(batch)) == as_written(records, 0)


def test_without_compression_our_bytes_are_the_same_as_kafka_pythons() -> None:
    builder = KafkaPythonBuilder(2, 0, True, 9, 3, 11, 1_000_000)
    for index, record in enumerate(RECORDS):
        builder.append(index, record.timestamp, record.key, record.value, list(record.headers))
    ours = build_batch(RECORDS, timestamp=0, producer_id=9, producer_epoch=3, base_sequence=11, transactional=True)
    theirs = builder.build()
    assert ours[:12] == theirs[:12]
    assert ours[16:] == theirs[16:]


# --- walking and rewriting


def test_batches_walks_whole_batches_and_leaves_a_partial_one() -> None:
    first, second = build_batch(RECORDS, timestamp=0), build_batch(RECORDS[:1], timestamp=0, base_offset=3)
    log = bytes(first + second + first[:70])
    walked = list(batches(log))
    assert [(position, header.base_offset) for position, header in walked] == [(0, 0), (len(first), 3)]
    assert all(verify_crc(log, position, header) for position, header in walked)
    assert [position for position, _ in batches(log, len(first))] == [len(first)]
    assert list(batches(b"")) == list(batches(log[:16])) == []


def test_batches_stops_loudly_at_an_impossible_length_or_magic() -> None:
    batch = build_batch(RECORDS, timestamp=0)
    with pytest.raises(CorruptRecords, match="length 48"):
        list(batches(batch[:8] + (48).to_bytes(4, "big") + batch[12:]))
    with pytest.raises(CorruptRecords, match="magic 1"):
        list(batches(batch[:16] + b"\x01" + batch[17:]))
    assert peek_magic(batch) == 2
    assert peek_magic(batch[:16]) == -1


def test_offsets_and_leader_epoch_are_assigned_without_a_new_checksum() -> None:
    batch = build_batch(RECORDS, timestamp=0)
    prefix = stamp(base_offset=500, size=len(batch), partition_leader_epoch=4)
    stamped = prefix + batch[len(prefix) :]
    stamp_in_place(batch, base_offset=500, partition_leader_epoch=4)
    assert stamped == batch
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.next_offset) == (500, 502, 503)
    assert header.partition_leader_epoch == 4
    assert verify_crc(batch, 0, header)


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("other", Compression)
def test_another_codec_changes_nothing_but_the_encoding(codec: Compression, other: Compression) -> None:
    batch = build_batch(RECORDS, timestamp=0, producer_id=4, producer_epoch=1, base_sequence=9, compression=codec)
    again = recompress(batch, other)
    before, after = read_header(batch), read_header(again)
    assert verify_crc(again, 0, after)
    assert after.compression is other
    assert list(iter_records(again)) == list(iter_records(batch))
    assert (after.producer_id, after.producer_epoch, after.base_sequence) == (4, 1, 9)
    assert (after.base_timestamp, after.max_timestamp) == (before.base_timestamp, before.max_timestamp)


@given(built(), st.data())
def test_the_records_retained_keep_offsets_timestamps_and_producer(drawn: Drawn, data: st.DataObject) -> None:
    before = read_header(drawn.batch)
    kept = data.draw(st.sets(st.sampled_from(range(len(drawn.records))), min_size=1))
    horizon = data.draw(st.none() | st.integers(0, 2**45))
    thinned = retain_records(
        drawn.batch, lambda record: record.offset - before.base_offset in kept, delete_horizon_ms=horizon
    )
    after = read_header(thinned)
    assert verify_crc(thinned, 0, after)
    expected = as_written(drawn.records, before.base_offset)
    assert list(iter_records(thinned)) == [expected[index] for index in sorted(kept)]
    assert (after.base_offset, after.last_offset, after.last_sequence) == (
        before.base_offset,
        before.last_offset,
        before.last_sequence,
    )
    assert after.has_delete_horizon == (horizon is not None)
    if horizon is not None:
        assert after.base_timestamp == horizon
        again = retain_records(thinned, lambda _: True, delete_horizon_ms=horizon + 1)
        assert again == thinned, "a horizon never moves"


def test_a_batch_left_without_records_is_its_header_and_is_skipped() -> None:
    batch = build_batch(RECORDS, timestamp=0, base_offset=5, producer_id=1, producer_epoch=0, base_sequence=0)
    empty = retain_records(batch, lambda _: False)
    header = read_header(empty)
    assert len(empty) == header.size == HEADER_BYTES
    assert verify_crc(empty, 0, header)
    assert (header.records_count, header.last_offset, header.base_timestamp, header.max_timestamp) == (0, 7, -1, 1500)
    assert list(iter_records(empty)) == []
    assert read_control_record(empty) is None


# --- control batches


@given(
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**15 - 1),
    st.booleans(),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**62),
)
def test_a_marker_reads_back_as_it_was_written(
    producer_id: int, producer_epoch: int, commit: bool, coordinator_epoch: int, timestamp: int
) -> None:
    batch = build_control_batch(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        commit=commit,
        coordinator_epoch=coordinator_epoch,
        timestamp=timestamp,
        base_offset=3,
    )
    header = read_header(batch)
    assert verify_crc(batch, 0, header)
    assert header.is_control
    assert header.is_transactional
    assert header.compression is Compression.NONE
    assert (header.base_sequence, header.last_sequence, header.records_count) == (-1, -1, 1)
    marker = read_control_record(batch)
    assert marker is not None
    assert marker.is_commit == commit
    assert marker.coordinator_epoch == coordinator_epoch
    assert next(iter(iter_records(batch))).timestamp == timestamp


def test_other_clients_read_our_markers() -> None:
    for commit in (False, True):
        batch = bytes(
            build_control_batch(producer_id=1, producer_epoch=2, commit=commit, coordinator_epoch=3, timestamp=4)
        )
        aiokafka = _DefaultRecordBatchPy(batch)
        assert aiokafka.is_control_batch
        assert aiokafka.is_transactional
        assert next(aiokafka).key == (b"\0\0\0\x01" if commit else b"\0\0\0\0")
        (marker,) = KafkaPythonBatch(batch)
        assert (marker.commit, marker.abort) == (commit, not commit)


def control_batch(key: bytes | None, value: bytes | None) -> bytearray:
    return build_batch([NewRecord(key, value)], timestamp=0, transactional=True)


def test_control_records_of_other_types_and_newer_versions_are_tolerated() -> None:
    assert read_control_record(control_batch(b"\0\0\0\x02", b"")) is None
    newer = read_control_record(control_batch(b"\0\x05\0\x01more", b"\0\x07\0\0\0\x09more"))
    assert newer is not None
    assert (newer.type, newer.coordinator_epoch) == (ControlType.COMMIT, 9)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"\0\0\0", b"\0\0\0\0\0\0"),
        (b"\xff\xff\0\0", b"\0\0\0\0\0\0"),
        (b"\0\0\0\0", b"\0"),
        (b"\0\0\0\0", b"\xff\xff\0\0\0\0"),
    ],
)
def test_a_malformed_control_record_is_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptRecords):
        read_control_record(control_batch(key, value))


# --- numbers


def test_sequences_wrap_after_2_to_the_31_minus_1() -> None:
    assert next_sequence(-1) == 0
    assert next_sequence(5, 3) == 8
    assert next_sequence(MAX_SEQUENCE) == 0
    assert next_sequence(MAX_SEQUENCE - 1, 4) == 2
    assert previous_sequence(2, 4) == MAX_SEQUENCE - 1
    assert previous_sequence(0) == MAX_SEQUENCE


def test_the_last_sequence_of_a_batch_wraps_too() -> None:
    batch = build_batch(RECORDS, timestamp=0, producer_id=1, producer_epoch=0, base_sequence=MAX_SEQUENCE)
    assert read_header(batch).last_sequence == 1


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_of_64_bits_round_trip(value: int) -> None:
    assert read_varint(varint(value), 0, 64) == (value, len(varint(value)))


@pytest.mark.parametrize(
    ("encoded", "bits"),
    [
        (b"", 32),
        (b"\x80", 32),
        (b"\xff\xff\xff\xff\x10", 32),
        (b"\x80\x80\x80\x80\x80\x00", 32),
        (b"\xff" * 9 + b"\x02", 64),
        (b"\x80" * 10 + b"\x00", 64),
    ],
)
def test_varints_that_do_not_fit_are_corrupt(encoded: bytes, bits: int) -> None:
    with pytest.raises(CorruptRecords):
        read_varint(encoded, 0, bits)
