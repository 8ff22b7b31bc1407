"""Records as columns are the records that are decoded one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eosin.client.consumer import FetchedBatch
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import (
    CorruptRecords,
    NewRecord,
    build_batch,
    iter_records,
    read_header,
    retain_records,
)
from eosin.protocol.records.compression import Compression
from eosin.protocol.records.header import set_timestamps_in_place

pytest.importorskip("pyarrow")

from eosin.pipeline.source.columnar_records import RecordColumns, decode_columns

LOG_APPEND_TIME = 1 << 3
PARTITION = TopicPartition("t", 0)
content = st.none() | st.binary(max_size=5) | st.binary(min_size=60, max_size=70) | st.just(b"x" * 9000)
records = st.builds(
    NewRecord,
    content,
    content,
    st.integers(min_value=0, max_value=2**45),
    st.lists(st.tuples(st.text(max_size=3), content), max_size=2).map(tuple),
)


def fetched(batch: bytes | bytearray) -> FetchedBatch:
    return FetchedBatch(PARTITION, read_header(batch), memoryview(batch))


def rows(columns: RecordColumns) -> list[tuple[object, ...]]:
    headers = columns.headers or [()] * len(columns.offsets)
    content = columns.keys.to_pylist(), columns.values.to_pylist()
    numbers = columns.offsets.tolist(), columns.timestamps.tolist(), columns.timestamp_types.tolist()
    return list(zip(*content, *numbers, headers, strict=True))


@st.composite
def batches(draw: st.DrawFn) -> list[FetchedBatch]:
    found, offset = [], draw(st.integers(0, 3))
    for some in draw(st.lists(st.lists(records, min_size=1, max_size=5), max_size=3)):
        codec = draw(st.sampled_from([Compression.NONE, Compression.LZ4]))
        batch = bytearray(build_batch(some, timestamp=7, base_offset=offset, compression=codec))
        if draw(st.booleans()):
            attributes = read_header(batch).attributes | LOG_APPEND_TIME
            set_timestamps_in_place(batch, attributes=attributes, max_timestamp=1_700_000_000_000)
        found.append(fetched(batch))
        offset += len(some) + draw(st.integers(0, 2))
    return found


@given(batches(), st.integers(0, 12), st.integers(0, 12))
def test_columns_hold_the_records_of_a_range(found: list[FetchedBatch], first: int, end: int) -> None:
    expected = [
        (each.key, each.value, each.offset, each.timestamp, int(batch.header.is_log_append_time), each.headers)
        for batch in found
        for each in iter_records(batch.batch)
        if first <= each.offset < end
    ]
    assert rows(decode_columns(found, first, end, with_headers=True)) == expected


def test_gaps_that_compaction_has_left_are_none_in_the_offsets() -> None:
    batch = build_batch([NewRecord(None, f"{each}".encode()) for each in range(4)], timestamp=1)
    kept = retain_records(batch, lambda each: each.offset % 2 == 1)
    assert [row[:3] for row in rows(decode_columns([fetched(kept)], 0, 9, with_headers=False))] == [
        (None, b"1", 1),
        (None, b"3", 3),
    ]


@pytest.mark.parametrize("damage", range(61, 75))
def test_a_damaged_record_is_corrupt_or_another_record_and_nothing_else(damage: int) -> None:
    batch = bytearray(build_batch([NewRecord(b"k", b"v"), NewRecord(None, b"w" * 200)], timestamp=1))
    for value in (0x00, 0x7F, 0x80, 0xFF):
        batch[damage] = value
        try:
            decode_columns([fetched(batch)], 0, 9, with_headers=True)
        except CorruptRecords:
            continue
