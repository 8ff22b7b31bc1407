"""Each rule of what compaction keeps, by itself (storage.md 14.2 to 14.6)."""

import pytest
from batches import NOW_MS
from compaction import keyed

from eosin.protocol.records.batch import (
    BatchHeader,
    ControlRecord,
    ControlType,
    NewRecord,
    build_batch,
    build_control_batch,
    read_header,
    retain_records,
    without_records,
)
from eosin.storage.compaction.aborted_ranges import AbortedRanges
from eosin.storage.compaction.key_map import ENTRY_BYTES, KeyMap
from eosin.storage.compaction.live_producers import LiveProducers
from eosin.storage.compaction.record_spans import OFFSET, read_spans
from eosin.storage.compaction.rules import BatchFate, CompactionRules
from eosin.storage.indexes.aborted import AbortedRow
from eosin.storage.producers.entry import ProducerEntry
from eosin.storage.producers.state import ProducerState

COMMIT = ControlRecord(ControlType.COMMIT, 1)
ABORT = ControlRecord(ControlType.ABORT, 1)
HORIZON = NOW_MS + 1000


def keys(latest: dict[str, int], end: int = 1000) -> KeyMap:
    found = KeyMap(first_offset=0, limit_bytes=1 << 20)
    for key, offset in latest.items():
        found.put(key.encode(), offset)
    found.end_offset = end
    return found


def rules(
    latest: dict[str, int] | None = None, *aborted: AbortedRow, end: int = 1000, now_ms: int = NOW_MS
) -> CompactionRules:
    return CompactionRules(keys(latest or {}, end), AbortedRanges(aborted), now_ms=now_ms, delete_retention_ms=1000)


def at(batch: bytes, base_offset: int, horizon_ms: int | None = None) -> bytes:
    """The batch as it stands in a log."""
    if horizon_ms is not None:
        batch = bytes(retain_records(batch, lambda record: True, delete_horizon_ms=horizon_ms))
    return base_offset.to_bytes(8, "big") + batch[8:]


def marker_at(offset: int, pid: int = 1, *, commit: bool = True, horizon_ms: int | None = None) -> BatchHeader:
    batch = build_control_batch(producer_id=pid, producer_epoch=0, commit=commit, coordinator_epoch=1, timestamp=NOW_MS)
    return read_header(at(bytes(batch), offset, horizon_ms))


def surviving(judge: CompactionRules, batch: bytes) -> list[int]:
    header = read_header(batch)
    spans, _ = read_spans(batch[61:], 0, 1000)
    return [header.base_offset + span[OFFSET] for span in judge.surviving(header, spans)]


def wants_horizon(judge: CompactionRules, batch: bytes) -> bool:
    header = read_header(batch)
    spans, _ = read_spans(batch[61:], 0, 1000)
    return judge.wants_horizon(header, judge.surviving(header, spans))


# Records


def test_of_each_key_the_latest_record_stays() -> None:
    batch = at(keyed(("a", "1"), ("b", "1"), ("a", "2"), ("c", "1")), 10)
    assert surviving(rules({"a": 12, "b": 40}), batch) == [12, 13]


def test_a_record_whose_key_has_no_later_one_in_the_uncompacted_part_stays() -> None:
    assert surviving(rules({}), at(keyed(("a", "1")), 10)) == [10]


def test_a_record_behind_the_mapped_stretch_stays() -> None:
    batch = at(keyed(("a", "1"), ("a", "2"), ("a", "3")), 10)
    assert surviving(rules({"a": 11}, end=12), batch) == [11, 12]


def test_a_record_without_a_key_goes() -> None:
    batch = at(bytes(build_batch([NewRecord(None, b"v"), NewRecord(b"k", b"v")], timestamp=NOW_MS)), 10)
    assert surviving(rules(), batch) == [11]


def test_a_tombstone_stays_until_its_horizon_has_passed() -> None:
    fresh = at(keyed(("a", None), ("b", "1")), 10)
    assert surviving(rules({"a": 10}), fresh) == [10, 11]
    waiting = at(keyed(("a", None), ("b", "1")), 10, HORIZON)
    assert surviving(rules({"a": 10}, now_ms=HORIZON - 1), waiting) == [10, 11]
    assert surviving(rules({"a": 10}, now_ms=HORIZON), waiting) == [11]


def test_a_tombstone_that_is_outlived_by_a_value_goes_at_once() -> None:
    assert surviving(rules({"a": 99}), at(keyed(("a", None)), 10)) == []


def test_a_tombstone_behind_the_mapped_stretch_outlives_its_horizon() -> None:
    batch = at(keyed(("a", None)), 10, HORIZON)
    assert surviving(rules({}, end=10, now_ms=HORIZON), batch) == [10]


def test_a_batch_that_keeps_a_tombstone_is_given_a_horizon_once() -> None:
    assert wants_horizon(rules({"a": 10}), at(keyed(("a", None)), 10))
    assert not wants_horizon(rules({"a": 10}), at(keyed(("a", None)), 10, HORIZON))
    assert not wants_horizon(rules({"a": 11}), at(keyed(("a", None), ("a", "1")), 10)), "its tombstone goes"
    assert not wants_horizon(rules(), at(keyed(("a", "1")), 10))


def test_the_horizon_is_delete_retention_ms_away() -> None:
    assert rules(now_ms=5000).new_horizon_ms == 6000


# Aborted transactions


def test_the_records_of_an_aborted_transaction_go_with_any_key_and_value() -> None:
    judge = rules({}, AbortedRow(1, 10, 30, 31))
    assert judge.judge_data(read_header(at(keyed(("a", "1"), pid=1, seq=0, txn=True), 9))) is BatchFate.JUDGE_RECORDS
    assert judge.judge_data(read_header(at(keyed(("a", "1"), pid=1, seq=1, txn=True), 10))) is BatchFate.DROP_RECORDS
    assert judge.judge_data(read_header(at(keyed(("a", "1"), pid=2, seq=0, txn=True), 11))) is BatchFate.JUDGE_RECORDS
    assert judge.judge_data(read_header(at(keyed(("a", "1"), pid=1, seq=2), 12))) is BatchFate.JUDGE_RECORDS
    assert judge.judge_data(read_header(at(keyed(("a", "1"), pid=1, seq=3, txn=True), 29))) is BatchFate.DROP_RECORDS
    judge.judge_marker(marker_at(30, commit=False), ABORT)
    assert judge.judge_data(read_header(at(keyed(("a", "1"), pid=1, seq=4, txn=True), 31))) is BatchFate.JUDGE_RECORDS


def test_records_after_an_aborted_transaction_count_although_its_marker_was_not_met() -> None:
    judge = rules({}, AbortedRow(1, 10, 20, 21), AbortedRow(1, 40, 50, 51))
    verdicts = [
        judge.judge_data(read_header(at(keyed(("a", "1"), pid=1, seq=0, txn=True), offset))) for offset in (30, 45, 60)
    ]
    assert verdicts == [BatchFate.JUDGE_RECORDS, BatchFate.DROP_RECORDS, BatchFate.JUDGE_RECORDS]


# Markers


@pytest.mark.parametrize("control", [COMMIT, ABORT])
def test_a_marker_stays_while_data_of_its_transaction_stays(control: ControlRecord) -> None:
    judge = rules()
    judge.data_stays(read_header(at(keyed(("a", "1"), pid=1, seq=0, txn=True), 10)))
    assert judge.judge_marker(marker_at(11, commit=control.is_commit), control) is BatchFate.KEEP


def test_an_empty_header_counts_as_data_of_its_transaction() -> None:
    judge = rules()
    judge.data_stays(read_header(without_records(at(keyed(("a", "1"), pid=1, seq=0, txn=True), 10))))
    assert judge.judge_marker(marker_at(11), COMMIT) is BatchFate.KEEP


def test_data_of_others_or_of_an_earlier_transaction_does_not_keep_a_marker() -> None:
    judge = rules()
    judge.data_stays(read_header(at(keyed(("a", "1"), pid=1, seq=0, txn=True), 10)))
    judge.judge_marker(marker_at(11), COMMIT)
    judge.data_stays(read_header(at(keyed(("a", "1"), pid=2, seq=0, txn=True), 12)))
    judge.data_stays(read_header(at(keyed(("a", "1"), pid=1, seq=1), 13)))
    assert judge.judge_marker(marker_at(14), COMMIT) is BatchFate.SET_HORIZON


def test_a_marker_without_data_waits_for_its_horizon_and_goes() -> None:
    assert rules().judge_marker(marker_at(11), COMMIT) is BatchFate.SET_HORIZON
    assert rules(now_ms=HORIZON - 1).judge_marker(marker_at(11, horizon_ms=HORIZON), COMMIT) is BatchFate.KEEP
    assert rules(now_ms=HORIZON).judge_marker(marker_at(11, horizon_ms=HORIZON), COMMIT) is BatchFate.DROP_RECORDS


def test_markers_that_only_wait_are_counted_by_when_they_may_go() -> None:
    judge = rules()
    judge.judge_marker(marker_at(11), COMMIT)
    judge.judge_marker(marker_at(12, 2), COMMIT)
    judge.judge_marker(marker_at(13, 3, horizon_ms=NOW_MS + 7), COMMIT)
    judge.judge_marker(marker_at(14, 4, horizon_ms=NOW_MS - 7), COMMIT)
    judge.data_stays(read_header(at(keyed(("a", "1"), pid=5, seq=0, txn=True), 15)))
    judge.judge_marker(marker_at(16, 5), COMMIT)
    size = marker_at(11).size
    assert judge.waiting == {HORIZON: 2 * size, NOW_MS + 7: marker_at(13, 3, horizon_ms=NOW_MS + 7).size}


def test_an_abort_markers_index_row_stays_as_long_as_data_stays_and_no_longer() -> None:
    row = AbortedRow(1, 10, 30, 31)
    judge = rules({}, row)
    judge.data_stays(read_header(at(keyed(("a", "1"), pid=1, seq=0, txn=True), 10)))
    judge.judge_marker(marker_at(30, commit=False), ABORT)
    assert judge.kept_rows == [row]
    judge = rules({}, row)
    judge.judge_marker(marker_at(30, commit=False), ABORT)
    assert judge.kept_rows == []


def test_a_marker_that_is_empty_already_goes() -> None:
    batch = build_control_batch(producer_id=1, producer_epoch=0, commit=True, coordinator_epoch=1, timestamp=NOW_MS)
    assert rules().judge_marker(read_header(without_records(batch)), None) is BatchFate.DROP_RECORDS


def test_a_control_batch_of_an_unknown_kind_stays() -> None:
    assert rules().judge_marker(marker_at(11), None) is BatchFate.KEEP


# Headers that must stay


def live(*entries: ProducerEntry, uncompacted_from: int = 0) -> LiveProducers:
    state = ProducerState()
    for entry in entries:
        state.adopt(entry, NOW_MS)
    return LiveProducers(state, uncompacted_from=uncompacted_from)


def entry_with(*last_offsets: int, epoch: int = 0, refill: bool = False) -> ProducerEntry:
    entry = ProducerEntry(1, producer_epoch=epoch)
    for sequence, offset in enumerate(last_offsets):
        entry.keep(sequence, sequence, offset, 0, NOW_MS)
    entry.needs_refill = refill
    return entry


def one(offset: int, epoch: int = 0, seq: int = 0) -> BatchHeader:
    return read_header(at(keyed(("a", "1"), pid=1, epoch=epoch, seq=seq), offset))


def test_the_batches_by_which_a_retry_is_recognised_are_needed() -> None:
    producers = live(entry_with(10, 20, 30))
    assert [producers.need(one(offset)) for offset in (5, 10, 20, 30)] == [False, True, True, True]


def test_batches_of_an_older_epoch_or_of_an_expired_producer_are_not_needed() -> None:
    assert not live(entry_with(10, epoch=3)).need(one(10, epoch=2))
    assert not live().need(one(10))


def test_the_last_marker_of_an_epoch_without_data_is_needed() -> None:
    assert live(entry_with()).need(marker_at(10))
    assert not live(entry_with(5)).need(marker_at(10))


def test_of_batches_without_sequences_only_the_last_is_needed() -> None:
    entry = ProducerEntry(1, producer_epoch=0)
    entry.keep(-1, -1, 10, 0, NOW_MS)
    entry.keep(-1, -1, 20, 0, NOW_MS)
    producers = live(entry)
    assert not producers.need(one(10, seq=-1))
    assert producers.need(one(20, seq=-1))


def test_after_a_restart_the_log_shows_which_batches_were_the_last_five() -> None:
    producers = live(entry_with(60, refill=True), uncompacted_from=5)
    for offset in (10, 20, 30, 40, 50, 60):
        producers.met(one(offset))
    needed = [offset for offset in (4, 10, 20, 30, 40, 50, 60) if producers.need(one(offset))]
    assert needed == [4, 20, 30, 40, 50, 60], "what an earlier compaction has left was needed then"


# The map


def test_the_map_is_full_at_its_limit_but_never_before_the_first_key() -> None:
    found = KeyMap(first_offset=7, limit_bytes=1)
    assert not found.is_full
    found.put(b"a", 7)
    assert found.is_full
    found = KeyMap(first_offset=0, limit_bytes=10 * (ENTRY_BYTES + 4))
    for offset in range(100):
        found.put(b"key%d" % (offset % 9), offset)
    assert not found.is_full, "the same key again takes no room"
    found.put(b"more", 100)
    assert found.is_full
    assert (len(found), found.latest[b"key0"]) == (10, 99)
