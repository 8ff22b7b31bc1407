"""The speed of compaction, its cost as logs grow (budget: flat within 20 %), and the time that others must wait.

A log of records of 1 KiB (and one of 100 bytes), each key written four times, on a real disk.
"""

import asyncio
import random
import tempfile
import time
from dataclasses import dataclass

from bench.report import Row, percentile
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.runtime.chance import SeededChance
from eosin.runtime.clock import Clock, SystemClock
from eosin.storage.compaction.cleaner import CleanerConfig
from eosin.storage.disk.flusher import Durability
from eosin.storage.disk.interfaces import Disk
from eosin.storage.disk.system import SystemDisk
from eosin.storage.log.config import LogConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.manager import LogManager
from eosin.storage.results.log_results import Appended

GROUP = "Compaction"
MIB = 1 << 20
WRITES_PER_KEY = 4
RECORDS_PER_BATCH = 16
SLICE_MS = 0.1
"""A turn that takes longer was one in which compaction worked."""
CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=64 * MIB)


@dataclass
class Measured:
    """One compaction."""

    mib: float
    seconds: float
    cpu_seconds: float
    turns_ms: list[float]
    """The time that each turn of the event loop took meanwhile."""


def storage(
    disk: Disk, folder: str, durability: Durability = Durability.OS, *, pace_clock: Clock | None = None
) -> LogManager:
    """The storage of a broker that compacts whatever there is, at every round; its rests are kept on `pace_clock`, by
    default the machine's."""
    return LogManager(
        disk,
        folder,
        clock=SystemClock(),
        chance=SeededChance(1),
        durability=durability,
        defaults=CONFIG,
        cleaner=CleanerConfig(backoff_ms=0),
        pace_clock=pace_clock,
    )


def _fill(log: PartitionLog, mib: int, value_bytes: int) -> None:
    chance = random.Random(1)
    value = b"x" * value_bytes
    now_ms = 1_700_000_000_000
    keys = max(1, mib * MIB // (value_bytes + 20) // WRITES_PER_KEY)
    while log.size_bytes < mib * MIB:
        records = [NewRecord(b"key-%08d" % chance.randrange(keys), value) for _ in range(RECORDS_PER_BATCH)]
        assert isinstance(log.append(build_batch(records, timestamp=now_ms), now_ms=now_ms), Appended)


async def _turns(found: list[float]) -> None:
    # By the thread's own time: what other processes of the machine take is not compaction's doing.
    last = time.thread_time()
    while True:
        await asyncio.sleep(0)
        now = time.thread_time()
        found.append((now - last) * 1000)
        last = now


async def _compact(mib: int, value_bytes: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        manager = storage(SystemDisk(), folder)
        await manager.open()
        log = manager.create_log(TopicPartition("bench", 0), bytes(15) + b"\1", CONFIG, 0)
        _fill(log, mib, value_bytes)
        log.roll(0)
        await manager.checkpoint(force=True)
        before = log.size_bytes / MIB
        turns: list[float] = []
        watch = asyncio.create_task(_turns(turns))
        cpu, began = time.process_time(), time.perf_counter()
        await manager.cleaner.round()
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu
        watch.cancel()
        assert log.size_bytes / MIB < 0.6 * before
        await manager.close()
    return Measured(before, seconds, cpu_seconds, turns)


def _throughput(found: Measured, what: str) -> Row:
    return Row(GROUP, f"throughput, {what}", found.mib / found.seconds, "MiB/s", higher_is_better=True)


def run(quick: bool = False) -> list[Row]:
    """Compact ever larger logs."""
    rows: list[Row] = []
    steps = (4, 40) if quick else (10, 100, 1024)
    first = 0.0
    for mib in steps:
        found = asyncio.run(_compact(mib, 1000))
        what = f"{mib:,} MiB of 1,000-byte values"
        rows.append(_throughput(found, what))
        cost = found.cpu_seconds / found.mib * 1000
        first = first or cost
        budget = None if mib == steps[0] else 1.2
        rows.append(Row(GROUP, f"CPU per MiB, {what}", cost, "ms", first, f"{steps[0]} MiB", budget))
    small = asyncio.run(_compact(steps[1], 100))
    rows.append(_throughput(small, f"{steps[1]} MiB of 100-byte values"))
    held = percentile([turn for turn in found.turns_ms + small.turns_ms if turn > SLICE_MS], 0.99)
    rows.append(Row(GROUP, "slice of the event loop, p99", held, "ms", budget=5))
    return rows
