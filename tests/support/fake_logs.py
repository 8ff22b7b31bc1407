"""Logs without storage, for tests of what stands above them: batches in a list, durable when the test says so."""

import asyncio
from collections.abc import Collection, Iterator

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition, Uuid
from eosin.protocol.records.batch import read_header
from eosin.storage.log.config import LogConfig
from eosin.storage.results.log_results import Appended, AppendOrigin, AppendResult, Refused


class FakeLog:
    """As much of a `PartitionLog` as cluster metadata uses."""

    def __init__(self, partition: TopicPartition, topic_id: Uuid, config: LogConfig, leader_epoch: int) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.leader_epoch = leader_epoch
        self.failure: OSError | None = None
        self.log_end_offset = 0
        self.high_watermark = 0
        self.size_bytes = 0
        self.held = False
        """True keeps everything from becoming durable, until `release`."""
        self._batches: list[bytes] = []
        self._waiting: list[tuple[int, asyncio.Future[ErrorCode]]] = []

    def update_config(self, config: LogConfig) -> None:
        self.config = config

    def append(self, batch: bytes, *, now_ms: int, origin: AppendOrigin) -> AppendResult:
        if self.failure is not None:
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR)
        base = self.log_end_offset
        count = read_header(batch).records_count
        self._batches.append(bytes(batch))
        self.size_bytes += len(batch)
        self.log_end_offset += count
        if not self.held:
            self.high_watermark = self.log_end_offset
        return Appended(base, base + count - 1)

    def durable(self, end_offset: int) -> "asyncio.Future[ErrorCode]":
        done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        if self.failure is not None:
            done.set_result(ErrorCode.KAFKA_STORAGE_ERROR)
        elif self.high_watermark >= end_offset:
            done.set_result(ErrorCode.NONE)
        else:
            self._waiting.append((end_offset, done))
        return done

    def release(self) -> None:
        """Everything written so far is durable."""
        self.high_watermark = self.log_end_offset
        self._finish(ErrorCode.NONE)

    def fail(self) -> None:
        """The disk is broken from now on."""
        self.failure = OSError("broken")
        self._finish(ErrorCode.KAFKA_STORAGE_ERROR)

    def _finish(self, error: ErrorCode) -> None:
        waiting, self._waiting = self._waiting, []
        for _, done in waiting:
            if not done.done():
                done.set_result(error)

    def batches(self) -> Iterator[bytes]:
        return iter(self._batches)


class FakeCleaner:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[TopicPartition, int]] = []

    def request(self, partition: TopicPartition, offset: int) -> None:
        self.asked.append((partition, offset))


class FakeLogManager:
    """As much of a `LogManager` as cluster metadata uses. Outlives a cluster, as a directory does."""

    def __init__(self) -> None:
        self.cluster_id = "a-cluster-id-of-22-ch."
        self.directory_id = b"d" * 16
        self.logs: dict[TopicPartition, FakeLog] = {}
        self.leader_epochs: list[int] = []
        self.cleaner = FakeCleaner()

    def create_log(self, partition: TopicPartition, topic_id: Uuid, config: LogConfig, leader_epoch: int) -> FakeLog:
        return self.logs.setdefault(partition, FakeLog(partition, topic_id, config, leader_epoch))

    @property
    def failures(self) -> int:
        return sum(log.failure is not None for log in self.logs.values())

    def may_inherit_deleted(self, topic: str) -> bool:
        return False

    def delete_logs(self, topic: str) -> None:
        for partition in [each for each in self.logs if each.topic == topic]:
            del self.logs[partition]

    def set_aside_strays(self, known: Collection[TopicPartition]) -> list[TopicPartition]:
        strays = [each for each in self.logs if each not in known]
        for partition in strays:
            del self.logs[partition]
        return strays

    def set_leader_epoch(self, epoch: int) -> None:
        self.leader_epochs.append(epoch)
