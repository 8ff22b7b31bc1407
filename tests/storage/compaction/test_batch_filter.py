"""What is left of a batch, as bytes: the same as building it record by record, and nothing else changed."""

import asyncio

from batches import NOW_MS
from hypothesis import given, settings
from hypothesis import strategies as st
from manual_clock import ManualClock

from eosin.protocol.records.batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    Compression,
    NewRecord,
    Record,
    build_batch,
    build_control_batch,
    iter_records,
    read_control_record,
    read_header,
    retain_records,
    set_timestamps_in_place,
    verify_crc,
)
from eosin.storage.compaction.aborted_ranges import AbortedRanges
from eosin.storage.compaction.batch_filter import BatchFilter
from eosin.storage.compaction.key_map import KeyMap
from eosin.storage.compaction.live_producers import LiveProducers
from eosin.storage.compaction.pace import Pace
from eosin.storage.compaction.rules import CompactionRules
from eosin.storage.disk.memory import MemoryDisk
from eosin.storage.producers.state import ProducerState

BASE = 500


def filtered(batch: bytes, gone: set[bytes], *, must_stay: bool = False, now_ms: int = NOW_MS) -> bytes | None:
    """What stays of a batch at offset 500, when later records have the keys `gone`."""
    keys = KeyMap(first_offset=0, limit_bytes=1 << 20)
    for key in gone:
        keys.put(key, 10**6)
    keys.end_offset = 10**6
    rules = CompactionRules(keys, AbortedRanges(()), now_ms=now_ms, delete_retention_ms=1000)
    pace = Pace(ManualClock(), bytes_per_second=1e300)
    judge = BatchFilter(keys, rules, LiveProducers(ProducerState(), uncompacted_from=0), pace, MemoryDisk())
    view = memoryview(batch)
    kept = asyncio.run(judge.kept(read_header(view), view, must_stay=must_stay))
    if kept is view:
        return batch
    return None if kept is None else bytes(kept)


def placed(batch: bytes | bytearray) -> bytes:
    return BASE.to_bytes(8, "big") + bytes(batch)[8:]


KEYS = [b"a", b"b", b"c"]
RECORDS = st.lists(
    st.builds(NewRecord, st.sampled_from(KEYS), st.one_of(st.none(), st.binary(max_size=9)), st.integers(0, 2**40)),
    min_size=1,
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(RECORDS, st.sets(st.sampled_from(KEYS)), st.sampled_from(list(Compression)), st.booleans(), st.booleans())
def test_a_filtered_batch_equals_one_built_record_by_record(
    records: list[NewRecord], gone: set[bytes], compression: Compression, appended: bool, stays: bool
) -> None:
    built = build_batch(
        records, timestamp=NOW_MS, producer_id=7, producer_epoch=3, base_sequence=11, compression=compression,
        partition_leader_epoch=5,
    )  # fmt: skip
    if appended:
        attributes = read_header(built).attributes | LOG_APPEND_TIME
        set_timestamps_in_place(built, attributes=attributes, max_timestamp=NOW_MS)
    batch = placed(built)
    result = filtered(batch, gone, must_stay=stays)

    def keep(record: Record) -> bool:
        return record.key not in gone

    survivors = [record for record in iter_records(batch) if keep(record)]
    if not survivors and not stays:
        assert result is None
        return
    assert result is not None
    horizon = NOW_MS + 1000 if any(record.value is None for record in survivors) else None
    expected = retain_records(batch, keep, delete_horizon_ms=horizon)
    assert list(iter_records(result)) == list(iter_records(expected)) == survivors
    header, reference = read_header(result), read_header(expected)
    assert verify_crc(result, 0, header)
    assert header.size == len(result)
    for field in (
        "base_offset", "last_offset_delta", "partition_leader_epoch", "attributes", "max_timestamp", "producer_id",
        "producer_epoch", "base_sequence", "records_count",
    ):  # fmt: skip
        if field == "max_timestamp" and len(survivors) == len(records) and horizon is None:
            continue  # untouched, whatever it says
        assert getattr(header, field) == getattr(reference, field), field
    if horizon is not None:
        assert header.base_timestamp == horizon
    if len(survivors) == len(records) and horizon is None:
        assert result == batch, "byte for byte"


def test_a_second_pass_leaves_a_horizon_where_it_is() -> None:
    batch = placed(build_batch([NewRecord(b"a", None), NewRecord(b"b", b"1")], timestamp=NOW_MS))
    first = filtered(batch, set())
    assert first is not None
    assert read_header(first).base_timestamp == NOW_MS + 1000
    assert filtered(first, set(), now_ms=NOW_MS + 999) == first
    later = filtered(first, {b"b"}, now_ms=NOW_MS + 500)
    assert later is not None
    assert read_header(later).base_timestamp == NOW_MS + 1000
    assert [record.timestamp for record in iter_records(later)] == [NOW_MS]
    assert filtered(first, {b"b"}, now_ms=NOW_MS + 1000) is None


def test_a_marker_with_a_horizon_keeps_its_kind() -> None:
    batch = build_control_batch(producer_id=1, producer_epoch=4, commit=False, coordinator_epoch=9, timestamp=NOW_MS)
    kept = filtered(placed(batch), set())
    assert kept is not None
    assert read_header(kept).has_delete_horizon
    assert read_control_record(kept) == read_control_record(batch)
    assert [record.timestamp for record in iter_records(kept)] == [NOW_MS]
    emptied = filtered(kept, set(), now_ms=NOW_MS + 1000, must_stay=True)
    assert emptied is not None
    assert len(emptied) == HEADER_BYTES
    header = read_header(emptied)
    assert (header.is_control, header.has_delete_horizon, header.base_timestamp) == (True, False, -1)
    assert filtered(emptied, set()) is None


def test_a_large_batch_is_judged_in_slices() -> None:
    records = [NewRecord(b"%d" % index, None if index % 7 == 0 else b"v" * 50) for index in range(3000)]
    batch = placed(build_batch(records, timestamp=NOW_MS, compression=Compression.ZSTD))
    assert len(batch) > 1000
    kept = filtered(batch, {b"%d" % index for index in range(0, 3000, 2)})
    assert kept is not None
    assert [record.offset - BASE for record in iter_records(kept)] == list(range(1, 3000, 2))
