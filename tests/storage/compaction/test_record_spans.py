"""Looking at records without building them: the same records, for every batch and every damage."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eosin.protocol.records.batch import NewRecord, build_batch, iter_records
from eosin.protocol.records.compression import CorruptRecords
from eosin.protocol.records.fields import decode_record
from eosin.storage.compaction.record_spans import Span, joined, read_spans, shifted

BYTES = st.one_of(st.none(), st.binary(max_size=20), st.binary(min_size=60, max_size=200))
RECORDS = st.lists(
    st.builds(
        NewRecord,
        BYTES,
        BYTES,
        st.integers(0, 2**40),
        st.lists(st.tuples(st.text(max_size=3), BYTES), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=200,
)


def payload(records: list[NewRecord]) -> bytes:
    return bytes(build_batch(records, timestamp=1000)[61:])


def all_spans(data: bytes, limit: int = 10_000) -> list[Span]:
    spans, position = read_spans(data, 0, limit)
    assert position == len(data)
    return spans


@settings(max_examples=100, deadline=None)
@given(RECORDS)
def test_spans_agree_with_decoded_records(records: list[NewRecord]) -> None:
    batch = build_batch(records, timestamp=1000)
    built = list(iter_records(batch))
    base = built[0].timestamp
    found = [(span[4], base + span[3], span[5], span[6]) for span in all_spans(payload(records))]
    assert found == [(record.offset, record.timestamp, record.key, record.value is None) for record in built]


@given(RECORDS, st.integers(1, 7))
def test_spans_may_be_read_a_few_at_a_time(records: list[NewRecord], few: int) -> None:
    data, position, found = payload(records), 0, []
    while position < len(data):
        spans, position = read_spans(data, position, few)
        assert len(spans) <= few
        found += spans
    assert found == all_spans(data)


@given(RECORDS, st.data())
def test_any_of_the_records_are_joined_as_they_are(records: list[NewRecord], chosen: st.DataObject) -> None:
    data = payload(records)
    spans = all_spans(data)
    wanted = [span for span in spans if chosen.draw(st.booleans())]
    assert joined(data, wanted) == b"".join(data[span[0] : span[2]] for span in wanted)


@given(RECORDS, st.integers(-(2**40), 2**40))
def test_shifted_records_differ_in_their_timestamps_alone(records: list[NewRecord], shift_ms: int) -> None:
    data = payload(records)
    moved = shifted(data, all_spans(data), shift_ms)
    at = position = 0
    while position < len(data):
        before, position = decode_record(data, position, base_offset=0, base_timestamp=shift_ms)
        after, at = decode_record(moved, at, base_offset=0, base_timestamp=0)
        assert after == before
    assert at == len(moved)


@settings(max_examples=300)
@given(RECORDS, st.data())
def test_damaged_records_are_corrupt_or_records_but_never_anything_else(
    records: list[NewRecord], chosen: st.DataObject
) -> None:
    data = bytearray(payload(records))
    for _ in range(chosen.draw(st.integers(1, 3))):
        data[chosen.draw(st.integers(0, len(data) - 1))] = chosen.draw(st.integers(0, 255))
    del data[chosen.draw(st.integers(0, len(data))) :]
    try:
        spans, position = read_spans(bytes(data), 0, 1000)
    except CorruptRecords:
        return
    assert position == len(data)
    assert all(0 <= span[0] < span[1] < span[2] <= len(data) for span in spans)


@pytest.mark.parametrize("data", [b"\x01", b"\x00", b"\x02\x00", b"\x80\x80\x80\x80\x80\x80", b"\x08\x00\x00\x01\x05"])
def test_bytes_that_are_no_record_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptRecords):
        read_spans(data, 0, 10)
