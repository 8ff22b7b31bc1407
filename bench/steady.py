"""The steady cost of a broker: what it does when nobody asks for anything, and what saving costs while a few of many
partitions are written.

The storage of a broker lives through an hour by a clock that is moved, so an hour takes as long as its work; what is
measured is the CPU of the process during that work alone. A broker in a process of its own is watched besides, in real
time and at rest.
"""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Final

from broker_process import BrokerProcess
from manual_clock import ManualClock

from bench.raw_connection import cpu_seconds
from bench.report import Row
from bench.scale import wire_with_topics, write_each
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.runtime.chance import SeededChance
from eosin.storage.checkpoints.checkpoint_saver import SMALL_AFTER_MS
from eosin.storage.disk.flusher import Durability
from eosin.storage.disk.system import SystemDisk
from eosin.storage.log.config import LogConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.manager import LogManager
from eosin.storage.results.log_results import Appended

GROUP: Final = "Steady cost"
PARTITIONS: Final = 10_000
WRITTEN: Final = 100
PARTITIONS_PER_TOPIC: Final = 1000
ROUND_MS: Final = 1000
TOPIC_ID: Final = bytes(15) + b"\1"
IDLE_BUDGET: Final = 0.2
CHECKPOINT_BUDGET: Final = 2.0
RECORD_BYTES: Final = {"a record of 1 KiB": 1024, "a batch of 256 KiB": 256 * 1024}
"""The batch of each written partition in a second: by it, it is saved each minute, or each five seconds."""
MOST_BYTES: Final = 4 * 1024**3
"""Written in all for one figure."""


class _Storage:
    """The storage of a broker, whose time is moved."""

    def __init__(self, folder: str) -> None:
        self.clock = ManualClock()
        self.manager = LogManager(
            SystemDisk(),
            folder,
            clock=self.clock,
            chance=SeededChance(1),
            durability=Durability.OS,
            high_watermark_interval_ms=5000,  # as of a broker
        )
        self.logs: list[PartitionLog] = []
        self._due_ms: dict[str, int] = {}

    async def open(self, partitions: int) -> None:
        """So many partitions, each written once and saved."""
        await self.manager.open()
        config = LogConfig()
        for number in range(partitions):
            topic, index = divmod(number, PARTITIONS_PER_TOPIC)
            self.logs.append(self.manager.create_log(TopicPartition(f"many-{topic}", index), TOPIC_ID, config, 0))
        self.write(self.logs, 1)
        await self.live(2 * SMALL_AFTER_MS)

    def write(self, logs: list[PartitionLog], size: int) -> None:
        """A batch with a record of so many bytes for each of these."""
        now_ms = self.clock.now_ms()
        batch = build_batch([NewRecord(key=None, value=b"x" * size)], timestamp=now_ms)
        for log in logs:
            assert isinstance(log.append(batch, now_ms=now_ms), Appended)

    async def live(self, for_ms: int, *, written: int = 0, size: int = 0) -> float:
        """Let time pass, with a batch of `size` bytes for `written` logs each second; CPU seconds of the upkeep."""
        spent = 0.0
        for _ in range(for_ms // ROUND_MS):
            self.write(self.logs[:written], size)
            self.clock.advance(ROUND_MS)
            began = time.process_time()
            for work in self.manager.periodic_work():
                if self.clock.elapsed_ms() >= self._due_ms.get(work.name, 0):
                    self._due_ms[work.name] = self.clock.elapsed_ms() + work.interval_ms
                    done = work.run()
                    if done is not None:
                        await done
            spent += time.process_time() - began
        return spent


async def _upkeep(partitions: int, written: int, minutes: int) -> list[Row]:
    """The upkeep of logs at rest, and of logs of which some are written."""
    with tempfile.TemporaryDirectory() as folder:
        storage = _Storage(folder)
        await storage.open(partitions)
        rows = []
        for_ms = minutes * 60_000
        share = await storage.live(for_ms) / for_ms * 1e5
        rows.append(Row(GROUP, f"upkeep of {partitions:,} logs at rest", share, "% of a core", budget=IDLE_BUDGET))
        for what, size in RECORD_BYTES.items():
            lived_ms = min(for_ms, MOST_BYTES // (written * size) * ROUND_MS)
            share = await storage.live(lived_ms, written=written, size=size) / lived_ms * 1e5
            name = f"upkeep of {partitions:,} logs, {what} a second for {written} of them"
            rows.append(Row(GROUP, name, share, "% of a core", budget=CHECKPOINT_BUDGET))
        await storage.manager.close()
        return rows


def _at_rest(partitions: int, seconds: float, rest_s: float) -> Row:
    """CPU of a broker with nothing to do, once it has saved what was written."""
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder) / "data") as broker:
        wire = wire_with_topics(broker, partitions)
        if partitions:
            write_each(wire, partitions)
        time.sleep(rest_s)
        began, before = time.perf_counter(), cpu_seconds(broker.pid)
        time.sleep(seconds)
        share = (cpu_seconds(broker.pid) - before) / (time.perf_counter() - began) * 100
        wire.close()
    name = (
        f"a broker at rest, {partitions:,} partitions, each written once" if partitions else "an empty broker at rest"
    )
    return Row(GROUP, name, share, "% of a core", budget=IDLE_BUDGET)


def run(quick: bool = False) -> list[Row]:
    """All of it."""
    partitions, written, minutes = (100, 10, 2) if quick else (PARTITIONS, WRITTEN, 20)
    rows = asyncio.run(_upkeep(partitions, written, minutes))
    seconds, rest_s = (2.0, 1.0) if quick else (60.0, 2.5 * SMALL_AFTER_MS / 1000)
    return [*rows, _at_rest(0, seconds, rest_s if quick else 10.0), _at_rest(partitions, seconds, rest_s)]
