"""Logs for tests of the audit: drawn at random as segment files, and what a full decode of every record says."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from eosin.protocol.records.batch import (
    MAX_SEQUENCE,
    Compression,
    NewRecord,
    build_batch,
    build_control_batch,
    iter_records,
    read_control_record,
    read_header,
    verify_crc,
)

START_MS = 1_700_000_000_000


@dataclass
class DrawnLog:
    """One partition: its segments, by base offset."""

    segments: dict[int, bytes]
    damaged: set[int]
    """Base offsets of batches whose checksum is wrong, and of those with a torn end."""
    torn_bytes: int = 0


@dataclass
class Producer:
    epoch: int = 0
    sequence: int = 0
    open: bool = False


_step = st.tuples(
    st.sampled_from(["data"] * 6 + ["plain", "idempotent", "commit", "commit", "abort", "fence"]),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([Compression.NONE, Compression.NONE, Compression.GZIP, Compression.LZ4]),
    st.sampled_from([0] * 9 + [1, -1, 5, MAX_SEQUENCE]),
    st.integers(0, 3),
)


@st.composite
def logs(draw: st.DrawFn, max_steps: int = 40) -> DrawnLog:
    """Interleaved producers, aborts, open transactions, gaps and repeats, segment borders, holes, damage."""
    steps = draw(st.lists(_step, min_size=1, max_size=max_steps))
    borders = draw(st.sets(st.integers(1, max_steps), max_size=4))
    producers: dict[int, Producer] = defaultdict(Producer)
    offset = draw(st.sampled_from([0, 7]))
    segments: dict[int, bytearray] = {offset: bytearray()}
    sizes: list[tuple[int, int, int]] = []
    now = START_MS
    for number, (what, producer_id, count, codec, jitter, later) in enumerate(steps):
        now += later
        if number in borders and segments[max(segments)]:
            segments[offset] = bytearray()
        if draw(st.integers(0, 19)) == 0:
            offset += 2  # what compaction leaves
        batch = _batch(what, producer_id, producers[producer_id], count, codec, jitter, now, offset)
        target = segments[max(segments)]
        sizes.append((max(segments), len(target), len(batch)))
        target += batch
        offset = read_header(batch).next_offset
    damaged = _damage(draw, segments, sizes)
    torn = draw(st.sampled_from([0, 0, 1, 30, 70]))
    if torn:
        segments[max(segments)] += bytes(build_batch([NewRecord(None, b"t" * 40)], timestamp=now, base_offset=offset))[
            :torn
        ]
    return DrawnLog({base: bytes(data) for base, data in segments.items()}, damaged, torn)


def _batch(
    what: str, producer_id: int, producer: Producer, count: int, codec: Compression, jitter: int, now: int, offset: int
) -> bytearray:
    if what in ("commit", "abort", "fence"):
        if what == "fence":
            producer.epoch, producer.sequence = producer.epoch + 1, 0
        return build_control_batch(
            producer_id=producer_id,
            producer_epoch=producer.epoch - (jitter == 5),
            commit=what == "commit",
            coordinator_epoch=offset % 3,
            timestamp=now,
            base_offset=offset,
        )
    records = [NewRecord(b"k", b"v" * (index * 20), timestamp=now + (index * 7) % 3) for index in range(count)]
    if what == "plain":
        return build_batch(records, timestamp=now, base_offset=offset, compression=codec)
    sequence = max(0, producer.sequence + jitter) % (MAX_SEQUENCE + 1)
    producer.sequence = (sequence + count) % (MAX_SEQUENCE + 1)
    return build_batch(
        records,
        timestamp=now,
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        transactional=what == "data",
        compression=codec,
    )


def _damage(draw: st.DrawFn, segments: dict[int, bytearray], sizes: list[tuple[int, int, int]]) -> set[int]:
    if draw(st.integers(0, 3)):
        return set()
    base, position, size = draw(st.sampled_from(sizes))
    segments[base][position + size - 1] ^= 0x55
    return {read_header(segments[base], position).base_offset}


@dataclass
class Decoded:
    """The result of reading every record of a partition, one after the other."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    faults: list[tuple[int, int, str]] = field(default_factory=list)
    """Producer id, offset, what."""


def batches_of(log: DrawnLog) -> Iterator[tuple[int, bytes]]:
    """Every whole batch, sound or not, with its segment."""
    for base, data in sorted(log.segments.items()):
        position = 0
        while position + 61 <= len(data):
            header = read_header(data, position)
            if position + header.size > len(data):
                break
            yield base, data[position : position + header.size]
            position += header.size


def decode(log: DrawnLog) -> Decoded:
    """Read the log the slow way."""
    found = Decoded()
    open_runs: dict[int, dict[str, Any]] = {}
    epochs: dict[int, int] = {}
    last: dict[int, tuple[int, int, int]] = {}  # epoch, sequence, holes
    holes, following = 0, None
    for _, batch in batches_of(log):
        header = read_header(batch)
        if following is not None and header.base_offset != following:
            holes += 1
        following = header.next_offset
        if not verify_crc(batch, 0, header):
            holes += 1
            continue
        if header.producer_id < 0:
            continue
        producer_id, epoch = header.producer_id, header.producer_epoch
        if epoch < epochs.get(producer_id, -1):
            found.faults.append((producer_id, header.base_offset, "epoch going back"))
        epochs[producer_id] = epoch
        if header.is_control:
            _end(found, open_runs, batch)
            continue
        if producer_id in last:
            _judge(found, header, last[producer_id], holes)
        last[producer_id] = (epoch, header.last_sequence, holes)
        _add(found, open_runs, batch)
    found.runs += open_runs.values()
    return found


def _judge(found: Decoded, header: Any, last: tuple[int, int, int], holes: int) -> None:
    epoch, sequence, holes_then = last
    if header.producer_epoch < epoch:
        return
    same = header.producer_epoch == epoch
    expected = (0 if sequence == MAX_SEQUENCE else sequence + 1) if same else 0
    if header.base_sequence == expected:
        return
    is_repeat = same and (expected - header.base_sequence) % 2**31 <= 2**30
    if is_repeat or holes == holes_then:
        found.faults.append((header.producer_id, header.base_offset, "repeat" if is_repeat else "gap"))


def _add(found: Decoded, open_runs: dict[int, dict[str, Any]], batch: bytes) -> None:
    header = read_header(batch)
    if not header.is_transactional:
        # A broker would refuse it inside of a transaction; the audit then sees two.
        if header.producer_id in open_runs:
            found.runs.append(open_runs.pop(header.producer_id))
        return
    records = list(iter_records(batch))
    run = open_runs.setdefault(
        header.producer_id,
        {
            "producer_id": header.producer_id,
            "first_offset": records[0].offset,
            "first_epoch": header.producer_epoch,
            "batches": 0,
            "records": 0,
            "bytes": 0,
            "begin_ms": records[0].timestamp,
            "end_ms": -1,
            "marker": -1,
            "marker_offset": -1,
            "marker_ms": -1,
            "marker_epoch": -1,
            "coordinator_epoch": -1,
        },
    )
    run["last_offset"] = records[-1].offset
    run["last_epoch"] = header.producer_epoch
    run["batches"] += 1
    run["records"] += len(records)
    run["bytes"] += len(batch)
    run["begin_ms"] = min(run["begin_ms"], records[0].timestamp)
    run["end_ms"] = max(run["end_ms"], *(record.timestamp for record in records))


def _end(found: Decoded, open_runs: dict[int, dict[str, Any]], batch: bytes) -> None:
    marker = read_control_record(batch)
    assert marker is not None
    (record,) = iter_records(batch)
    header = read_header(batch)
    run = open_runs.pop(header.producer_id, None)
    if run is None:
        return
    run["marker"] = int(marker.is_commit)
    run["marker_offset"] = record.offset
    run["marker_ms"] = record.timestamp
    run["marker_epoch"] = header.producer_epoch
    run["coordinator_epoch"] = marker.coordinator_epoch
    found.runs.append(run)
