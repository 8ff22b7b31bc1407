"""A data directory whose journal is written when a test says so, on a disk that a test spoils."""

import asyncio

from batches import NOW_MS, ORDERS, TOPIC_ID
from manual_clock import ManualClock
from waiting import settled

from eosin.lab.disk.lying_disk import LyingDisk
from eosin.protocol.names import TopicPartition
from eosin.runtime.chance import SeededChance
from eosin.storage.disk.flusher import Ended, Work, outcome
from eosin.storage.journal.flusher import JournalFlusher
from eosin.storage.journal.journal import JournalConfig
from eosin.storage.log.config import LogConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.manager import LogManager
from eosin.storage.results.log_results import Appended

DATA_DIR = "/data"
LEAST_BYTES = 8192


class ManualJournalFlusher(JournalFlusher):
    """`JournalFlusher` without threads."""

    def __init__(self) -> None:
        super().__init__(threads=0)
        self.gathered = asyncio.Event()
        """Set when a wait for company has ended."""
        self.jobs: list[tuple[Work, Ended]] = []
        """The jobs that a thread would do, in the order in which they were asked for."""

    def _submit(self, work: Work, ended: Ended) -> None:
        self._under_way += 1
        self.jobs.append((work, ended))

    def _submit_group(self, work: Work, ended: Ended) -> None:
        self._submit(work, ended)

    def step(self) -> None:
        """Do one of them."""
        work, ended = self.jobs.pop(0)
        self._results.append((ended, outcome(work)))
        self._deliver()

    @property
    def gathers(self) -> bool:
        """True if the next group waits for company."""
        return self._gather_timer is not None

    def _gathered(self) -> None:
        self.gathered.set()
        super()._gathered()

    def end_gathering(self) -> None:
        """The time of that wait is over."""
        assert self._gather_timer is not None
        self._gather_timer.cancel()
        self._gathered()

    async def turns(self) -> None:
        """Turns of the event loop: what finds no room in the journal is tried otherwise in the next one."""
        await settled()

    async def run(self) -> None:
        """Do everything that there is to do."""
        await self.turns()
        while self.jobs or self.gathers:
            if self.gathers:
                self.end_gathering()
            else:
                self.step()
            await self.turns()


class JournalledLogs:
    """One broker's storage at durability `fsync`."""

    def __init__(
        self,
        disk: LyingDisk | None = None,
        *,
        direct_bytes: int = 1000,
        journal_bytes: int = 1 << 16,
        replicated: bool = False,
        seed: int = 1,
    ) -> None:
        self.clock = ManualClock()
        self.disk = disk or LyingDisk(self.clock.now_ms)
        self.flusher = ManualJournalFlusher()
        self.manager = LogManager(
            self.disk,
            DATA_DIR,
            clock=self.clock,
            chance=SeededChance(seed),
            flusher=self.flusher,
            verification_enabled=False,
            journal=JournalConfig(size_bytes=journal_bytes, least_bytes=LEAST_BYTES, direct_bytes=direct_bytes),
            replicated=replicated,
        )

    async def open(self) -> PartitionLog:
        """Start, and return the log of orders-0."""
        await self.manager.open()
        return self.log()

    def log(self, partition: TopicPartition = ORDERS, topic_id: bytes = TOPIC_ID) -> PartitionLog:
        """The log of a partition, made if there is none."""
        return self.manager.create_log(partition, topic_id, LogConfig(), 0)

    async def append(self, log: PartitionLog, batch: bytes) -> None:
        """Append, and make it durable."""
        assert isinstance(log.append(batch, now_ms=NOW_MS), Appended)
        await self.flusher.run()

    async def close(self) -> None:
        """Stop cleanly."""
        closing = asyncio.ensure_future(self.manager.close())
        while not closing.done():
            await self.flusher.run()
        await closing
