"""The audit from 100 MiB to 2 GiB of log, on one core and on two.

What is measured is the whole audit in a warm session, up to the summary, in time and in CPU of Spark with its workers;
and the reading of headers alone, without Spark. The log: 8 partitions in segments of 64 MiB, batches of 16 KiB, ten to
a transaction, every tenth transaction aborted. Goal: MiB per CPU second stay the same however large the log is.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.report import Row
from eosin.pipeline import audit, session
from eosin.pipeline.audit.segment_facts import SegmentFacts
from eosin.pipeline.audit.segment_files import find_segments, open_segment
from eosin.pipeline.common.errors import MissingDependency
from eosin.pipeline.spark.session import require_java
from eosin.protocol.records.batch import NewRecord, build_batch, build_control_batch

GROUP = "Audit"
PARTITIONS = 8
SEGMENT_BYTES = 64 << 20
BATCH_BYTES = 16 << 10
BATCHES_PER_TRANSACTION = 10
PRODUCERS = 20
_START_MS = 1_700_000_000_000
_TICKS = os.sysconf("SC_CLK_TCK")


def _batches(producer: int, epoch: int, first_offset: int, commit: bool) -> Iterator[bytes | bytearray]:
    """One transaction. Random bytes stand for what no codec makes smaller."""
    records = [NewRecord(None, os.urandom(1000)) for _ in range(BATCH_BYTES // 1024)]
    offset = first_offset
    for number in range(BATCHES_PER_TRANSACTION):
        yield build_batch(
            records,
            timestamp=_START_MS + offset,
            base_offset=offset,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=number * len(records),
            transactional=True,
        )
        offset += len(records)
    yield build_control_batch(
        producer_id=producer, producer_epoch=epoch, commit=commit, coordinator_epoch=0, timestamp=_START_MS + offset,
        base_offset=offset,
    )  # fmt: skip


def fill(folder: Path, size: int) -> None:
    """Log directories of `size` bytes."""
    for partition in range(PARTITIONS):
        home = folder / f"events-{partition}"
        home.mkdir(parents=True)
        left, offset, number = size // PARTITIONS, 0, 0
        while left > 0:
            with (home / f"{offset:020}.log").open("wb") as file:
                written = 0
                while written < min(SEGMENT_BYTES, left):
                    epoch, producer = divmod(number, PRODUCERS)
                    for batch in _batches(producer, epoch, offset, number % 10 != 9):
                        written += file.write(batch)
                    offset += BATCHES_PER_TRANSACTION * (BATCH_BYTES // 1024) + 1
                    number += 1
            left -= written


def cpu_of_children() -> float:
    """CPU seconds of every process below this one: the JVM and its Python workers, ended ones included."""
    stats = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            stats[int(entry.name)] = (int(fields[1]), sum(map(int, fields[11:15])) / _TICKS)
    below, found = [os.getpid()], 0.0
    while below:
        parent = below.pop()
        for pid, (of, spent) in stats.items():
            if of == parent:
                below.append(pid)
                found += spent
    return found


@contextmanager
def _spark(cores: int) -> Iterator[Any]:
    settings = {"spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "false", "spark.log.level": "ERROR"}
    spark = session("bench", master=f"local[{cores}]", conf=settings)
    try:
        yield spark
    finally:
        spark.stop()


def _audit(spark: Any, folder: Path) -> int:
    report = audit.transactions(spark, str(folder))
    (row,) = report.summary.collect()
    report.close()
    return int(row["transactions"])


def _headers_alone(folder: Path) -> float:
    began = time.process_time()
    for each in find_segments(str(folder)):
        read, size = open_segment(each.path)
        SegmentFacts.of(read, size, base_offset=each.base_offset, is_last=each.is_last)
    return time.process_time() - began


def run(quick: bool = False) -> list[Row]:
    """Ever larger logs, then the largest on one core and on two."""
    try:
        require_java()
    except MissingDependency as missing:
        print(f"audit is not measured: {missing}")
        return []
    rows: list[Row] = []
    sizes = (16, 32) if quick else (100, 500, 1024, 2048)
    home = Path(tempfile.mkdtemp(prefix="eosin-audit-"))
    try:
        for mebibytes in sizes:
            fill(home / str(mebibytes), mebibytes << 20)
        base = _headers_alone(home / str(sizes[0])) / sizes[0]
        for mebibytes in sizes:
            each = _headers_alone(home / str(mebibytes)) / mebibytes
            rows.append(Row(GROUP, f"CPU of reading headers, {mebibytes:,} MiB", each * 1024, "s/GiB", base * 1024,
                            f"{sizes[0]} MiB", 1.2))  # fmt: skip
        took: dict[int, float] = {}
        for cores in (2, 1):  # in a JVM that is warm, one core must not profit less than two
            with _spark(cores) as spark:
                _audit(spark, home / str(sizes[0]))  # warm
                for mebibytes in sizes if cores == 2 else sizes[-1:]:
                    cpu, began = cpu_of_children(), time.perf_counter()
                    transactions = _audit(spark, home / str(mebibytes))
                    took[cores] = time.perf_counter() - began
                    what = f"{mebibytes:,} MiB, {transactions:,} transactions, {cores} cores"
                    rows.append(Row(GROUP, f"audit of {what}", took[cores], "s"))
                    rows.append(Row(GROUP, f"CPU of it, {what}", cpu_of_children() - cpu, "s"))
        name = f"speed of 2 cores over 1, {sizes[-1]:,} MiB"
        rows.append(Row(GROUP, name, took[1] / took[2], "x", higher_is_better=True))
    finally:
        shutil.rmtree(home)
    return rows
