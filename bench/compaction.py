"""How fast logs are compacted, what that costs as they grow (budget: flat within 20 %), and how long others must wait.

A log of records of 1 KiB (and one of 100 bytes), each key written four times, on a real disk.
"""

import asyncio
import random
import tempfile
import time
from dataclasses import dataclass

from msgspec.structs import replace

from bench.report import Row, percentile
from eosin.coordinator.transaction_log import encode_batch
from eosin.coordinator.txn import Phase, Txn
from eosin.protocol.names import TRANSACTION_STATE_TOPIC, TopicPartition
from eosin.protocol.records import NewRecord, build_batch
from eosin.storage.appends import Appended, AppendOrigin
from eosin.storage.clock import SeededChance, SystemClock
from eosin.storage.compaction.cleaner import CleanerConfig
from eosin.storage.disk import Disk
from eosin.storage.files import SystemDisk
from eosin.storage.flusher import Durability
from eosin.storage.log_config import LogConfig
from eosin.storage.log_manager import LogManager
from eosin.storage.memory_disk import MemoryDisk
from eosin.storage.partition_log import PartitionLog

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
    """What each turn of the event loop took meanwhile."""


def _manager(disk: Disk, folder: str, durability: Durability = Durability.OS) -> LogManager:
    return LogManager(
        disk,
        folder,
        clock=SystemClock(),
        chance=SeededChance(1),
        durability=durability,
        defaults=CONFIG,
        cleaner=CleanerConfig(backoff_ms=0),
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
        manager = _manager(SystemDisk(), folder)
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


def _state_records(index: int) -> list[bytes]:
    txn = Txn(
        transactional_id=f"id-{index}",
        producer_id=index,
        producer_epoch=1,
        phase=Phase.ONGOING,
        timeout_ms=60_000,
        partitions=frozenset({TopicPartition("orders", index % 12)}),
        start_ms=1,
        updated_ms=1,
        client_version=2,
    )
    phases = (Phase.ONGOING, Phase.PREPARE_COMMIT, Phase.COMPLETE_COMMIT)
    return [encode_batch([replace(txn, phase=phase)], now_ms=1, transaction_version=2) for phase in phases]


async def _state_cost(transactions: int, ids: int) -> tuple[float, float]:
    """CPU per transaction (us) for keeping `__transaction_state` small, and what it grew to, as a multiple of what is
    live."""
    manager = _manager(MemoryDisk(), "memory", Durability.MEMORY)
    await manager.open()
    scripts = [_state_records(index) for index in range(ids)]
    logs = [
        manager.create_log(TopicPartition(TRANSACTION_STATE_TOPIC, index), bytes(15) + b"\1", CONFIG, 0)
        for index in range(50)
    ]
    spent = largest = 0.0
    for number in range(transactions):
        for batch in scripts[number % ids]:
            logs[number % ids % 50].append(batch, now_ms=1, origin=AppendOrigin.COORDINATOR)
        if number % 2000 == 1999:
            began = time.process_time()
            await manager.checkpoint()
            await manager.cleaner.round()
            spent += time.process_time() - began
            largest = max(largest, sum(log.size_bytes for log in logs))
    await manager.close()
    return spent / transactions * 1e6, largest / sum(len(script[-1]) for script in scripts)


def _throughput(found: Measured, what: str) -> Row:
    return Row(GROUP, f"throughput, {what}", found.mib / found.seconds, "MiB/s", higher_is_better=True)


def run(quick: bool = False) -> list[Row]:
    """Compact ever larger logs, and the transaction log over many transactions."""
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
    cost, multiple = asyncio.run(_state_cost(20_000 if quick else 200_000, 10_000))
    rows.append(Row(GROUP, "__transaction_state, 10,000 ids: CPU per transaction", cost, "us"))
    rows.append(Row(GROUP, "__transaction_state, 10,000 ids: size over live size", multiple, "x", budget=10))
    return rows
