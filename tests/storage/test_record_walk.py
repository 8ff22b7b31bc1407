"""The fast walk accepts what the slow one accepts, and nothing else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_strategies import mutated, new_records

from eosin.protocol.records.batch import NewRecord, build_batch, read_header, records_payload
from eosin.protocol.records.fields import encode_record
from eosin.storage.log.record_walk import first_fault, walk_records


def encoded(records: list[NewRecord]) -> bytes:
    batch = build_batch(records, timestamp=0)
    return bytes(records_payload(batch, read_header(batch)))


def expected(records: list[NewRecord]) -> tuple[int, int, int]:
    stamps = [record.timestamp or 0 for record in records]
    return min(stamps) - stamps[0], max(stamps) - stamps[0], sum(record.key is None for record in records)


def judged(data: bytes, count: int) -> bool:
    """Whether the fast walk accepts, once the slow one was seen to agree."""
    walked = walk_records(data, count)
    assert (walked is None) == (first_fault(data, count) is not None)
    return walked is not None


@st.composite
def alike(draw: st.DrawFn) -> list[NewRecord]:
    """Long runs of records of one layout, broken by others."""
    records: list[NewRecord] = []
    for _ in range(draw(st.integers(1, 3))):
        key = draw(st.none() | st.binary(max_size=3) | st.just(bytes(100)))
        value = draw(st.none() | st.binary(max_size=3) | st.just(bytes(100)) | st.just(bytes(9000)))
        step = draw(st.sampled_from((0, 1, -1, 3, 40, -40, 700)))
        start = draw(st.integers(0, 100_000))
        length = draw(st.integers(1, 90))
        records += [NewRecord(key, value, start + step * index) for index in range(length)]
        records += draw(new_records(min_size=0, max_size=2))
    return records


@given(new_records(max_size=20))
def test_any_records_are_accepted(records: list[NewRecord]) -> None:
    assert walk_records(encoded(records), len(records)) == expected(records)


@given(alike())
@settings(max_examples=60)
def test_runs_of_records_alike_are_accepted(records: list[NewRecord]) -> None:
    data = encoded(records)
    assert walk_records(data, len(records)) == expected(records)
    assert not judged(data, len(records) - 1)
    assert not judged(data, len(records) + 1)
    assert not judged(data + b"\0", len(records))


@given(new_records(max_size=6), st.data())
def test_the_walks_agree_about_damaged_records(records: list[NewRecord], data: st.DataObject) -> None:
    judged(data.draw(mutated(encoded(records))), len(records))


@given(st.binary(max_size=40), st.integers(1, 5))
def test_the_walks_agree_about_arbitrary_bytes(data: bytes, count: int) -> None:
    judged(data, count)


@given(
    st.sampled_from((None, b"", b"key")),
    st.sampled_from((b"", bytes(70))),
    st.integers(0, 50),
    st.integers(0, 2000),
    st.integers(0, 255),
)
@settings(max_examples=200)
def test_the_walks_agree_about_one_wrong_byte_in_a_run(
    key: bytes | None, value: bytes, step: int, at: int, byte: int
) -> None:
    records = [NewRecord(key, value, 1000 + step * index) for index in range(100)]
    data = bytearray(encoded(records))
    data[at % len(data)] = byte
    judged(bytes(data), len(records))


def test_offset_deltas_of_every_width_are_accepted() -> None:
    records = [NewRecord(None, b"", 5)] * 20_000
    assert walk_records(encoded(records), len(records)) == (0, 0, len(records))


@pytest.mark.parametrize("wrong", [0, 64, 8191, 8192, 9999])
def test_a_wrong_offset_delta_is_found_wherever_it_is(wrong: int) -> None:
    parts = [
        encode_record(offset_delta=index - (index == wrong), timestamp_delta=0, key=None, value=b"x" * 10)
        for index in range(10_000)
    ]
    assert walk_records(b"".join(parts), len(parts)) is None
    assert first_fault(b"".join(parts), len(parts)) == (wrong, f"its offset delta is {wrong - 1}, not {wrong}")


def test_timestamps_of_many_bytes_in_runs_are_measured() -> None:
    for step in (10_000, -10_000, 2**30):
        records = [NewRecord(b"k", b"v", 2**40 + step * index) for index in range(200)]
        assert walk_records(encoded(records), 200) == expected(records)


def test_lengths_in_more_bytes_than_they_need_are_accepted_as_kafka_does() -> None:
    plain = encode_record(offset_delta=0, timestamp_delta=0, key=b"k", value=b"v")
    assert plain[0] == 8 << 1
    long_winded = b"\x92\x00" + plain[1:4] + b"\x82\x00" + plain[5:]
    assert judged(long_winded, 1)
    null_key = b"\x90\x00" + plain[1:4] + b"\x81\x00" + plain[6:]
    assert walk_records(null_key, 1) == (0, 0, 1)
