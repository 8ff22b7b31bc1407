"""A data directory and its logs, for tests of storage."""

from batches import ORDERS, TOPIC_ID
from manual_clock import ManualClock
from manual_flusher import ManualFlusher

from eosin.lab.disk.lying_disk import LyingDisk
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.runtime.chance import SeededChance
from eosin.storage.compaction.cleaner import CleanerConfig
from eosin.storage.disk.flusher import Durability, Flusher
from eosin.storage.disk.interfaces import Disk
from eosin.storage.log.config import LogConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.manager import LogManager
from eosin.storage.results.log_results import Appended, AppendResult, ReadResult, VerificationGuard

DATA_DIR = "/data"


class Logs:
    """One broker's storage on a fake disk; `reopen` stands for a restart."""

    def __init__(
        self,
        *,
        disk: Disk | None = None,
        durability: Durability = Durability.OS,
        clock: ManualClock | None = None,
        config: LogConfig | None = None,
        flusher: Flusher | None = None,
        verification_enabled: bool = False,
        cleaner: CleanerConfig | None = None,
        data_dir: str = DATA_DIR,
        reserve_bytes: int = 0,
        replicated: bool = False,
        high_watermark_interval_ms: int = 0,
    ) -> None:
        self.clock = clock or ManualClock()
        self.disk = disk if disk is not None else LyingDisk(self.clock.now_ms)
        self.durability = durability
        self.config = config or LogConfig()
        self.flusher = flusher
        self.verification_enabled = verification_enabled
        self.cleaner = cleaner
        self.data_dir = data_dir
        self.reserve_bytes = reserve_bytes
        self.replicated = replicated
        self.high_watermark_interval_ms = high_watermark_interval_ms
        self.epoch = 0
        self.manager = self._manager()

    def _manager(self) -> LogManager:
        if self.durability is Durability.FSYNC and self.flusher is None:
            self.flusher = ManualFlusher()
        return LogManager(
            self.disk,
            self.data_dir,
            clock=self.clock,
            chance=SeededChance(1),
            durability=self.durability,
            flusher=self.flusher,
            verification_enabled=self.verification_enabled,
            defaults=self.config,
            cleaner=self.cleaner,
            reserve_bytes=self.reserve_bytes,
            replicated=self.replicated,
            high_watermark_interval_ms=self.high_watermark_interval_ms,
        )

    @property
    def fake(self) -> LyingDisk:
        """The disk, when it is a fake one."""
        assert isinstance(self.disk, LyingDisk)
        return self.disk

    async def open(self) -> PartitionLog:
        """Start, and return the log of orders-0."""
        await self.manager.open()
        return self.log()

    def log(self, partition: TopicPartition = ORDERS) -> PartitionLog:
        """The log of a partition, made if there is none."""
        return self.manager.create_log(partition, TOPIC_ID, self.config, self.epoch)

    async def reopen(self) -> PartitionLog:
        """Stop cleanly and start again."""
        await self.manager.close()
        return await self.start_again()

    async def reopen_without_log(self) -> LogManager:
        """Stop cleanly and start again, without asking for a log."""
        await self.manager.close()
        return await self.start_again_without_log(self.disk)

    async def start_again_without_log(self, disk: Disk) -> LogManager:
        """Start on another disk, without having stopped and without asking for a log."""
        self.disk = disk
        self.manager = self._manager()
        await self.manager.open()
        return self.manager

    async def start_again(self, disk: Disk | None = None) -> PartitionLog:
        """Start, on another disk if given, without having stopped."""
        if disk is not None:
            self.disk = disk
        if isinstance(self.flusher, ManualFlusher):
            self.flusher = None
        self.epoch += 1
        self.manager = self._manager()
        return await self.open()

    def append(self, log: PartitionLog, batch: bytes, guard: VerificationGuard | None = None) -> AppendResult:
        """Append at the clock's time."""
        return log.append(batch, now_ms=self.clock.now_ms(), guard=guard)


def appended(result: AppendResult) -> Appended:
    """`result`, which must be a success."""
    assert isinstance(result, Appended), result
    return result


def read_now(
    log: PartitionLog,
    offset: int = 0,
    *,
    max_bytes: int = 1 << 20,
    isolation: IsolationLevel | None = IsolationLevel.READ_UNCOMMITTED,
    min_one_batch: bool = True,
) -> ReadResult:
    """A read that must be answered at once."""
    result = log.read(offset, max_bytes=max_bytes, isolation=isolation, min_one_batch=min_one_batch)
    assert isinstance(result, ReadResult)
    return result
