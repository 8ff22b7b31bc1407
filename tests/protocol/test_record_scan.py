"""Keys and values of batches, read the short way: the same as the long way gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eosin.protocol.records.batch import (
    Compression,
    CorruptRecords,
    NewRecord,
    build_batch,
    build_control_batch,
    iter_records,
    read_control_record,
    read_header,
    retain_records,
)
from eosin.protocol.records.scan import KeyValue, key_values, marker_of, sound_batches

KEYS = st.one_of(st.none(), st.binary(max_size=100))
VALUES = st.one_of(st.none(), st.binary(max_size=100), st.binary(min_size=8000, max_size=9000))
HEADERS = st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=3)), max_size=1).map(tuple)
RECORDS = st.lists(
    st.builds(NewRecord, KEYS, VALUES, timestamp=st.one_of(st.none(), st.integers(0, 99)), headers=HEADERS),
    min_size=1,
    max_size=3,
)


def the_long_way(batch: bytes) -> list[KeyValue]:
    return [KeyValue(record.offset, record.key, record.value) for record in iter_records(batch)]


@given(RECORDS, st.sampled_from([Compression.NONE, Compression.GZIP]))
def test_the_short_way_gives_the_same_as_the_long_way(records: list[NewRecord], codec: Compression) -> None:
    batch = bytes(build_batch(records, timestamp=5, base_offset=7, compression=codec))
    assert key_values(batch, read_header(batch)) == the_long_way(batch)


@given(st.integers(61, 90), st.integers(0, 255))
def test_a_damaged_record_is_read_as_the_long_way_reads_it(position: int, byte: int) -> None:
    batch = bytearray(build_batch([NewRecord(b"key", b"value" * 4)], timestamp=5))
    batch[position] = byte
    try:
        expected = the_long_way(bytes(batch))
    except CorruptRecords:
        with pytest.raises(CorruptRecords):
            key_values(batch, read_header(batch))
    else:
        assert key_values(batch, read_header(batch)) == expected


@given(st.integers(61, 77), st.integers(0, 255))
def test_a_marker_is_read_as_the_long_way_reads_it(position: int, byte: int) -> None:
    batch = build_control_batch(producer_id=1, producer_epoch=2, commit=True, coordinator_epoch=9, timestamp=5)
    assert marker_of(batch, read_header(batch)) == read_control_record(batch)
    batch[position] = byte
    try:
        expected = read_control_record(batch)
    except CorruptRecords:
        with pytest.raises(CorruptRecords):
            marker_of(batch, read_header(batch))
    else:
        assert marker_of(batch, read_header(batch)) == expected


def test_a_batch_that_compaction_has_emptied_has_nothing_to_say() -> None:
    batch = bytes(build_batch([NewRecord(b"k", b"v")], timestamp=5))
    empty = retain_records(batch, lambda record: False)
    assert key_values(empty, read_header(empty)) == []


def test_the_batches_of_a_run_come_one_by_one() -> None:
    first = build_batch([NewRecord(b"k", b"v")], timestamp=5, base_offset=7, producer_id=3, transactional=True)
    second = build_control_batch(
        producer_id=4, producer_epoch=2, commit=True, coordinator_epoch=9, timestamp=5, base_offset=8
    )
    third = retain_records(first, lambda _: False)
    run = memoryview(bytes(first + second) + bytes(third))
    assert [run[at : at + size] for at, size, *_ in sound_batches(run)] == [first, second, third]
    assert [(base, producer_id, count) for _, _, base, _, producer_id, count in sound_batches(run)] == [
        (7, 3, 1),
        (8, 4, 1),
        (7, 3, 0),
    ]
    assert [attributes for _, _, _, attributes, _, _ in sound_batches(run)] == [
        read_header(batch).attributes for batch in (first, second, third)
    ]


@given(st.integers(8, 90), st.integers(1, 255))
def test_a_run_with_a_damaged_batch_is_corrupt(position: int, flip: int) -> None:
    batch = bytearray(build_batch([NewRecord(b"key", b"value" * 4)], timestamp=5))
    if 12 <= position < 16:
        return  # the leader epoch is outside of the checksum
    batch[position] ^= flip
    with pytest.raises(CorruptRecords):
        list(sound_batches(memoryview(batch)))


@pytest.mark.parametrize("cut", [1, 40, 60, 61, 70])
def test_a_run_that_ends_within_a_batch_is_corrupt(cut: int) -> None:
    batch = bytes(build_batch([NewRecord(b"key", b"value" * 4)], timestamp=5))
    with pytest.raises(CorruptRecords):
        list(sound_batches(memoryview(batch + batch[:cut])))
