"""The audit reads headers alone, and finds what a full decode of every record finds (A6)."""

from itertools import pairwise
from typing import Any

import pytest
from audited_logs import START_MS, DrawnLog, batches_of, decode, logs
from hypothesis import given, settings
from hypothesis import strategies as st

from eosin.protocol.records.batch import NewRecord, build_batch, build_control_batch, read_header, verify_crc

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

import numpy as np

from eosin.pipeline.audit import headers as headers_module
from eosin.pipeline.audit.columns import Columns, concatenate, length
from eosin.pipeline.audit.headers import NOT_A_BATCH, TORN_TAIL, WRONG_CHECKSUM, SegmentScan
from eosin.pipeline.audit.merging import Merged, merge
from eosin.pipeline.audit.pieces import fold, of_batches
from eosin.pipeline.audit.segment_facts import SegmentFacts
from eosin.pipeline.audit.sequences import NAMES

DRAWN = settings(deadline=None, max_examples=60)


def reader(data: bytes) -> headers_module.Read:
    return lambda position, size: data[position : position + size]


def facts_of(log: DrawnLog) -> list[SegmentFacts]:
    last = max(log.segments)
    return [
        SegmentFacts.of(reader(data), len(data), base_offset=base, is_last=base == last)
        for base, data in log.segments.items()
    ]


def merged(facts: list[SegmentFacts]) -> Merged:
    segments: dict[str, Any] = {
        "segment": [], "first_offset": [], "next_offset": [], "holes": []
    }  # fmt: skip
    for base, each in facts_with_bases(facts):
        segments["segment"].append(base)
        for name in ("first_offset", "next_offset", "holes"):
            segments[name].append(getattr(each.scan, name))
    table = {name: np.array(column, np.int64) for name, column in segments.items()}
    return merge(concatenate([each.pieces for each in facts]), table)


def facts_with_bases(facts: list[SegmentFacts]) -> list[tuple[int, SegmentFacts]]:
    return [(each.scan.base_offset, each) for each in facts]


def rows_of(columns: Columns) -> list[dict[str, Any]]:
    return [{name: column[index].item() for name, column in columns.items()} for index in range(length(columns))]


@DRAWN
@given(logs(), st.sampled_from([100, 200, headers_module.CHUNK_BYTES]))
def test_the_runs_are_those_of_a_full_decode(log: DrawnLog, chunk_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(headers_module, "CHUNK_BYTES", chunk_bytes)
        found = merged(facts_of(log)).runs
    expected = decode(log).runs
    names = list(expected[0]) if expected else []
    rows = [{name: row[name] for name in names} for row in rows_of(found) if row["batches"]]
    assert sorted(rows, key=lambda row: row["first_offset"]) == sorted(expected, key=lambda row: row["first_offset"])


@DRAWN
@given(logs(), st.sampled_from([100, 200, headers_module.CHUNK_BYTES]))
def test_the_sequence_faults_are_those_of_a_full_decode(log: DrawnLog, chunk_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(headers_module, "CHUNK_BYTES", chunk_bytes)
        facts = facts_of(log)
    rows = rows_of(concatenate([*(each.faults for each in facts), merged(facts).faults]))
    found = sorted((row["producer_id"], row["offset"], NAMES[row["what"]]) for row in rows)
    assert found == sorted(decode(log).faults)


@DRAWN
@given(logs())
def test_every_damage_is_reported_and_nothing_else(log: DrawnLog) -> None:
    last = max(log.segments)
    problems = [(each.scan.base_offset, problem) for each in facts_of(log) for problem in each.problems]
    checksums = {problem.offset for _, problem in problems if "checksum" in problem.detail}
    assert checksums == log.damaged
    rest = [(base, problem) for base, problem in problems if "checksum" not in problem.detail]
    assert len(rest) == (log.torn_bytes > 0)
    assert all(base == last and problem.what == TORN_TAIL for base, problem in rest)
    sound = sum(verify_crc(batch, 0, read_header(batch)) for _, batch in batches_of(log))
    assert sum(each.scan.batches for each in facts_of(log)) == sound


@DRAWN
@given(logs())
def test_blocks_of_the_last_stable_offset_agree_with_a_walk_through_the_log(log: DrawnLog) -> None:
    merged_log = merged(facts_of(log))
    runs = [row for row in rows_of(merged_log.runs) if row["batches"]]
    end = max(each.scan.next_offset for each in facts_of(log))
    holders = set()
    for offset in range(end + 1):
        is_open = [
            run["first_offset"]
            for run in runs
            if run["first_offset"] <= offset and (run["marker"] < 0 or offset < run["marker_offset"])
        ]
        if is_open:
            holders.add(min(is_open))
    blocks = rows_of(merged_log.blocks)
    assert {block["held_offset"] for block in blocks} == holders
    assert [block["until_offset"] for block in blocks] == sorted(block["until_offset"] for block in blocks)
    assert all(before["until_ms"] >= 0 for before, _ in pairwise(blocks))


@DRAWN
@given(logs(), st.data())
def test_pieces_fold_to_the_same_runs_wherever_the_log_is_cut(log: DrawnLog, data: st.DataObject) -> None:
    whole = b"".join(bytes(batch) for _, batch in batches_of(log))
    scanned = [columns for columns, _, _ in SegmentScan(reader(whole), len(whole), base_offset=0, is_last=False)]
    batches = of_batches(concatenate(scanned), 0)
    cut = data.draw(st.integers(0, length(batches)))
    one = {name: column[:cut] for name, column in batches.items()}
    other = {name: column[cut:] for name, column in batches.items()}
    assert rows_of(fold([fold([one]), fold([other])])) == rows_of(fold([batches]))


def a_batch(offset: int = 0) -> bytes:
    return bytes(build_batch([NewRecord(b"k", b"v")], timestamp=START_MS, base_offset=offset))


def problems_of(data: bytes, *, is_last: bool) -> list[str]:
    facts = SegmentFacts.of(reader(data), len(data), base_offset=0, is_last=is_last)
    return [problem.what for problem in facts.problems]


@pytest.mark.parametrize("tail", [a_batch(1)[:-1], b"\0" * 100, b"\0" * 5, b"\xff" * 70, b"\x7f" * 70])
def test_a_torn_tail_is_damage_only_where_another_segment_follows(tail: bytes) -> None:
    assert problems_of(a_batch() + tail, is_last=True) == [TORN_TAIL]
    assert problems_of(a_batch() + tail, is_last=False) == [NOT_A_BATCH]


def test_a_wrong_checksum_is_damage_except_in_the_last_batch_of_all() -> None:
    bad = bytearray(a_batch(1))
    bad[-1] ^= 1
    assert problems_of(a_batch() + bad, is_last=True) == [TORN_TAIL]
    assert problems_of(a_batch() + bad, is_last=False) == [WRONG_CHECKSUM]
    assert problems_of(a_batch() + bad + a_batch(2), is_last=True) == [WRONG_CHECKSUM]


def numbered(offset: int, sequence: int) -> bytes:
    record = [NewRecord(b"k", b"v")]
    batch = build_batch(
        record, timestamp=START_MS, base_offset=offset, producer_id=1, producer_epoch=0, base_sequence=sequence
    )
    return bytes(batch)


def faults_of(log: DrawnLog) -> list[tuple[int, str]]:
    facts = facts_of(log)
    rows = rows_of(concatenate([*(each.faults for each in facts), merged(facts).faults]))
    return [(row["offset"], NAMES[row["what"]]) for row in rows]


def test_a_gap_is_no_fault_where_damage_has_destroyed_the_batches_between() -> None:
    bad = bytearray(numbered(1, 1))
    bad[-1] ^= 1
    whole = numbered(0, 0) + bad + numbered(2, 2)
    assert faults_of(DrawnLog({0: whole}, set())) == []
    assert faults_of(DrawnLog({0: numbered(0, 0) + numbered(1, 2)}, set())) == [(1, "gap")]


def test_a_gap_at_a_segment_border_counts_despite_holes_elsewhere() -> None:
    holes = a_batch(0) + a_batch(5)
    log = {0: holes + numbered(6, 0), 7: numbered(7, 3) + a_batch(20)}
    assert faults_of(DrawnLog(log, set())) == [(7, "gap")]
    log = {0: holes + numbered(6, 0), 8: numbered(8, 3)}
    assert faults_of(DrawnLog(log, set())) == []


def test_a_control_batch_that_is_not_a_marker_is_passed_over() -> None:
    leader_change = bytearray(
        build_control_batch(producer_id=-1, producer_epoch=-1, commit=True, coordinator_epoch=0, timestamp=1)
    )
    facts = SegmentFacts.of(reader(bytes(leader_change)), len(leader_change), base_offset=0, is_last=True)
    assert length(facts.pieces) == 0


def test_an_old_message_format_is_reported() -> None:
    data = bytearray(a_batch())
    data[16] = 1
    facts = SegmentFacts.of(reader(bytes(data)), len(data), base_offset=0, is_last=False)
    assert "magic 1" in facts.problems[0].detail


def test_an_empty_segment_yields_no_facts() -> None:
    facts = SegmentFacts.of(reader(b""), 0, base_offset=5, is_last=True)
    assert (length(facts.pieces), facts.problems, facts.scan.next_offset) == (0, [], 5)
