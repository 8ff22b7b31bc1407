"""Directories for the commands that look at them: written by a real log on a fake disk, then damaged on purpose."""

from pathlib import Path
from typing import Self

from batches import NOW_MS, ORDERS, TOPIC_ID, data, marker
from logs import DATA_DIR, Logs

from eosin.coordinator.hashing import partition_for
from eosin.coordinator.transactions.log.encoder import encode_batch
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from eosin.lab.disk.lying_disk import LyingDisk
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, METADATA_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.records.internal import encode_key, encode_value
from eosin.protocol.schemas.records.cluster_metadata import TopicConfig, TopicKey, TopicRecord
from eosin.protocol.types import Message
from eosin.storage.inspection.dump import DumpOptions, dump_file
from eosin.storage.inspection.names import named
from eosin.storage.inspection.values import FileProblem, Value
from eosin.storage.log.config import LogConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.log_results import Appended, AppendOrigin

FOLDER = f"{DATA_DIR}/{ORDERS}"
SMALL = LogConfig(segment_bytes=4000, index_interval_bytes=200)


async def written(logs: Logs | None = None) -> LyingDisk:
    """orders-0 with three segments: plain, idempotent, committed, aborted and still open records, stopped cleanly."""
    logs = logs or Logs(config=SMALL)
    log = await logs.open()
    write_history(logs, log)
    await logs.manager.close()
    return logs.fake


def write_history(logs: Logs, log: PartitionLog) -> None:
    """The records of `written`."""
    for round_ in range(12):
        at = NOW_MS + 1000 * round_
        logs.append(log, data(3, at=at, size=40))
        logs.append(log, data(2, pid=1, seq=2 * round_, at=at, size=40))
        logs.append(log, data(2, pid=2, seq=2 * round_, txn=True, at=at, size=40))
        logs.append(log, data(1, pid=3, seq=round_, txn=True, at=at + 500, size=40))
        log.append_marker(marker(2, 0, commit=round_ % 2 == 0), now_ms=at + 600)
        if round_ % 3 == 2 and round_ < 11:
            log.append_marker(marker(3, 0, commit=False), now_ms=at + 700)


def dumped(disk: LyingDisk, name: str, *, deep: bool = False, topic: str | None = None) -> list[Value]:
    """The values that are found in a file of orders-0."""
    file = named(f"{FOLDER}/{name}" if "/" not in name else name)
    assert file is not None
    return list(dump_file(disk, file, DumpOptions(deep=deep, topic=topic)))


def problems(values: list[Value]) -> list[FileProblem]:
    """The problems among the values."""
    return [value for value in values if isinstance(value, FileProblem)]


def exported(disk: LyingDisk, folder: Path) -> Path:
    """The data directory of `disk` on the system's disk."""
    for path in disk.paths():
        target = folder / path.removeprefix("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(disk.read_whole(path))
    return folder / DATA_DIR.removeprefix("/")


class Stopped:
    """A data directory with a metadata log, a coordinator's log and partitions, to be stopped and then spoilt."""

    def __init__(self) -> None:
        self.logs = Logs(config=SMALL)
        self.coordinator_partitions = 5

    async def begin(self) -> Self:
        """Two topics, one of them compacted, and the internal ones."""
        await self.logs.manager.open()
        for name, partitions, policy in (
            (TRANSACTION_STATE_TOPIC, self.coordinator_partitions, "compact"),
            (CONSUMER_OFFSETS_TOPIC, 5, "compact"),
            ("orders", 2, "delete"),
            ("table", 1, "compact"),
        ):
            self.topic(name, partitions=partitions, policy=policy)
        return self

    def topic(self, name: str, *, partitions: int = 1, policy: str = "delete", topic_id: bytes = TOPIC_ID) -> None:
        """A topic comes into being, or changes."""
        configs = (TopicConfig("cleanup.policy", policy),)
        self.record(TopicPartition(METADATA_TOPIC, 0), TopicKey(name), TopicRecord(topic_id, partitions, configs))

    def no_topic(self, name: str) -> None:
        """A topic is deleted."""
        self.record(TopicPartition(METADATA_TOPIC, 0), TopicKey(name), None)

    def record(self, partition: TopicPartition, key: Message, value: Message | None, version: int = 0) -> None:
        """One record of an internal topic."""
        encoded = NewRecord(encode_key(key), None if value is None else encode_value(value, version))
        self.batch(partition, build_batch([encoded], timestamp=self.logs.clock.now_ms()))

    def batch(self, partition: TopicPartition, batch: bytes | bytearray) -> None:
        """One batch, written by a coordinator."""
        log = self.logs.log(partition)
        now_ms = self.logs.clock.now_ms()
        assert isinstance(log.append(batch, now_ms=now_ms, origin=AppendOrigin.COORDINATOR), Appended)

    def state(self, txn: Txn, *, partition: int | None = None) -> None:
        """A record of `__transaction_state`."""
        if partition is None:
            partition = partition_for(txn.transactional_id, self.coordinator_partitions)
        now_ms = self.logs.clock.now_ms()
        batch = encode_batch([txn], now_ms=now_ms, transaction_version=2)
        self.batch(TopicPartition(TRANSACTION_STATE_TOPIC, partition), batch)

    def write(self, partition: TopicPartition, pid: int, epoch: int = 0, seq: int = 0) -> None:
        """Two records of a transaction."""
        self.logs.append(self.logs.log(partition), data(2, pid=pid, epoch=epoch, seq=seq, txn=True))

    def end(self, partition: TopicPartition, pid: int, epoch: int = 0, *, commit: bool) -> None:
        """A marker."""
        now_ms = self.logs.clock.now_ms()
        assert isinstance(
            self.logs.log(partition).append_marker(marker(pid, epoch, commit=commit), now_ms=now_ms), Appended
        )

    def txn(
        self, state: TransactionState, *partitions: TopicPartition, pid: int = 7, epoch: int = 0, name: str = "tx"
    ) -> Txn:
        """A transactional id in a state."""
        return Txn(
            name,
            producer_id=pid,
            producer_epoch=epoch,
            timeout_ms=60_000,
            state=state,
            partitions=frozenset(partitions),
            start_ms=self.logs.clock.now_ms(),
            updated_ms=self.logs.clock.now_ms(),
        )

    async def stop(self) -> LyingDisk:
        """Stop cleanly."""
        await self.logs.manager.close()
        return self.logs.fake

    async def die(self, *, saved: bool = False) -> LyingDisk:
        """Be killed; with `saved`, after a checkpoint of everything."""
        if saved:
            await self.logs.manager.checkpoint(force=True)
        return self.logs.fake.killed()
