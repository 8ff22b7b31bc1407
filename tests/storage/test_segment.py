"""One segment: the rows that its indexes get, when it is full or old, and walking through its batches."""

import struct

import pytest
from batches import NOW_MS, data

from eosin.lab.disk.lying_disk import LyingDisk
from eosin.protocol.records.batch import CorruptRecords, read_header, stamp_in_place
from eosin.storage.log.batch_scan import last_boundary, scan_batches, scan_headers, seek
from eosin.storage.log.segment import Segment, stem


def segment(disk: LyingDisk | None = None, base: int = 100) -> Segment:
    disk = disk or LyingDisk()
    disk.make_directory("/p")
    return Segment.create(disk, "/p", base, created_ms=NOW_MS)


def put(to: Segment, *, count: int = 1, at: int = NOW_MS, interval: int = 4096, size: int = 10) -> int:
    """Append a batch; its position."""
    batch = bytearray(data(count, at=at, size=size))
    stamp_in_place(batch, base_offset=to.end_offset, partition_leader_epoch=0)
    header = read_header(batch)
    position = to.size
    to.append(
        (bytes(batch),),
        size=header.size,
        last_offset=header.last_offset,
        max_timestamp=header.max_timestamp,
        index_interval_bytes=interval,
    )
    return position


def test_names_are_padded_to_twenty_digits() -> None:
    assert stem(42) == "00000000000000000042"
    assert segment(base=42).path == "/p/00000000000000000042"


def test_an_index_row_comes_when_more_than_the_interval_lies_before_the_batch() -> None:
    made = segment()
    size = len(data())
    positions = [put(made, interval=2 * size) for _ in range(8)]
    # The first batch is never indexed; a row needs strictly more than the interval since the last indexed batch began.
    assert made.offset_index.rows() == [(3, positions[3]), (6, positions[6])]


def test_a_row_pairs_a_batchs_own_last_offset_with_its_own_start() -> None:
    made = segment()
    put(made, count=3)
    position = put(made, count=5, interval=1)
    assert made.offset_index.rows() == [(7, position)]


def test_time_rows_hold_the_largest_timestamp_so_far_and_the_batch_that_has_it() -> None:
    made = segment()
    put(made, at=NOW_MS + 50, interval=1)
    put(made, at=NOW_MS + 90, interval=1)
    put(made, at=NOW_MS + 10, interval=1)
    put(made, at=NOW_MS + 90, interval=1)
    put(made, count=2, at=NOW_MS + 99, interval=10**6)
    assert made.time_index.rows() == [(NOW_MS + 90, 1)]
    assert (made.max_timestamp, made.max_timestamp_offset) == (NOW_MS + 100, 105)
    made.finish()
    made.finish()
    assert made.time_index.rows() == [(NOW_MS + 90, 1), (NOW_MS + 100, 5)]


def test_leftovers_of_an_older_segment_are_removed() -> None:
    disk = LyingDisk()
    disk.make_directory("/p")
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        disk.write_atomic(f"/p/{stem(100)}{suffix}", b"x" * 12)
    made = segment(disk)
    assert made.file.size == 0
    assert disk.list("/p") == [f"{stem(100)}.log"]


def is_over(made: Segment, size: int = 10, **given: int) -> bool:
    roomy = {"last_offset": 101, "limit_bytes": 10**9, "max_index_bytes": 10**6}
    young = {"max_timestamp": NOW_MS, "now_ms": NOW_MS, "roll_after_ms": 10**9}
    return made.is_over(size, **{**roomy, **young, **given})


def test_it_ages_by_the_timestamp_of_its_first_batch_or_else_by_the_clock() -> None:
    made = segment()
    put(made, at=NOW_MS)
    assert not is_over(made, max_timestamp=NOW_MS + 100, now_ms=NOW_MS + 10**9, roll_after_ms=100)
    assert is_over(made, max_timestamp=NOW_MS + 101, now_ms=NOW_MS, roll_after_ms=100)
    made.roll_jitter_ms = 5
    assert is_over(made, max_timestamp=NOW_MS + 96, now_ms=NOW_MS, roll_after_ms=100)
    silent = segment(LyingDisk())
    put(silent, at=-1)
    assert not is_over(silent, max_timestamp=-1, now_ms=NOW_MS + 100, roll_after_ms=100)
    assert is_over(silent, max_timestamp=-1, now_ms=NOW_MS + 101, roll_after_ms=100)


def test_it_is_full_by_bytes_and_by_relative_offset() -> None:
    made = segment()
    put(made)
    size = made.size
    assert not is_over(made)
    assert is_over(made, limit_bytes=size + 9)
    assert not is_over(made, last_offset=100 + 2**31 - 1)
    assert is_over(made, last_offset=100 + 2**31)


def test_a_released_segment_is_read_again() -> None:
    made = segment()
    for index in range(30):
        put(made, at=NOW_MS + index, interval=100)
    rows, times = made.offset_index.rows(), made.time_index.rows()
    for unstored in made.unstored_indexes():
        write = unstored.write()
        write.run()
        unstored.mark_stored(write.rows)
    assert made.unstored_indexes() == []
    made.release()
    assert (made.offset_index.rows(), made.time_index.rows()) == (rows, times)
    made.was_used = False
    made.release_if_idle()
    put(made, at=NOW_MS + 99, interval=100)
    assert made.offset_index.rows()[:-1] == rows


# Walking


def content(sizes: list[int]) -> bytes:
    out = b""
    for offset, size in enumerate(sizes):
        batch = bytearray(data(size=size))
        stamp_in_place(batch, base_offset=offset * 10, partition_leader_epoch=0)
        out += bytes(batch)
    return out


SIZES = [10, 30_000, 5, 5, 9000, 200_000, 1, 70_000, 2_000_000, 3]


@pytest.mark.parametrize("torn", [0, 1, 30, 69])
def test_every_walk_sees_the_same_batches_in_bounded_reads(torn: int) -> None:
    whole = content(SIZES)
    log = whole[: len(whole) - torn]
    reads: list[int] = []

    def read(position: int, size: int) -> bytes:
        reads.append(size)
        return log[position : position + size]

    expected = [(position, header.base_offset) for position, header in scan_headers(read, 0, len(log))]
    assert len(expected) == len(SIZES) - (1 if torn else 0)
    assert max(reads) <= 64 * 1024
    batches = list(scan_batches(read, 0, len(log)))
    assert [(position, header.base_offset) for position, header, _ in batches] == expected
    assert all(bytes(batch) == log[position : position + header.size] for position, header, batch in batches)
    for position, offset in expected:
        assert seek(read, 0, len(log), offset) == position
        assert seek(read, 0, len(log), offset - 5) == position
    end, following = last_boundary(log, 0)
    assert following == expected[-1][1] + 1
    assert end == (len(log) if not torn else expected[-1][0] + read_header(log, expected[-1][0]).size)


def test_a_walk_passes_over_a_batch_that_is_too_long_without_reading_it() -> None:
    log = content([10, 3_000_000, 10])
    reads: list[int] = []

    def read(position: int, size: int) -> bytes:
        reads.append(size)
        return log[position : position + size]

    found = [(header.base_offset, len(batch)) for _, header, batch in scan_batches(read, 0, len(log), longest=10_000)]
    whole = [(header.base_offset, len(batch)) for _, header, batch in scan_batches(read, 0, len(log))]
    assert found == [whole[0], (whole[1][0], 0), whole[2]]
    del reads[:]
    list(scan_batches(read, 0, len(log), longest=10_000))
    assert max(reads) <= 1024 * 1024


def test_bytes_that_are_no_batch_stop_a_walk_loudly() -> None:
    log = content([10, 10]) + struct.pack(">qi", 20, -5) + bytes(80)
    for walk in (scan_headers, scan_batches):
        with pytest.raises(CorruptRecords):
            list(walk(lambda position, size: log[position : position + size], 0, len(log)))
    with pytest.raises(CorruptRecords):
        seek(lambda position, size: log[position : position + size], 0, len(log), 10**6)
    assert last_boundary(log, 0)[1] == 11
