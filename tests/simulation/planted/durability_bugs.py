"""Bugs in what is synced, recovered and compacted."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from eosin.lab.disk.lying_disk import LyingDisk
from eosin.lab.disk.lying_files import LyingFile
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import BatchHeader
from eosin.storage.checkpoints.checkpoint import Checkpoint
from eosin.storage.compaction.key_pass import KeyPass
from eosin.storage.compaction.rules import BatchFate, CompactionRules
from eosin.storage.compaction.segment_swap import Swap
from eosin.storage.deletions import Deletions
from eosin.storage.disk.flusher import Flush
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.manager import LogManager
from eosin.storage.producers.entry import NO_TRANSACTION
from eosin.storage.producers.open_transactions import OpenTransactions
from eosin.storage.recovery import loader, segment_scan
from eosin.storage.recovery.producer_replay import rebuild_producers
from simulation.planted.places import plant


@contextmanager
def sync_skipped() -> Iterator[None]:
    """Records of topics are acknowledged as if they had been synced."""
    run_records = Flush.run_records

    def careless(self: Flush) -> None:
        if all("/__" in file.path for file in self._files):
            run_records(self)

    with plant(Flush, "run_records", careless):
        yield


@contextmanager
def producers_forgotten() -> Iterator[None]:
    """After a start nobody knows which batches the producers have sent."""

    def careless(log: PartitionLog, *rest: Any) -> int:
        return log.log_end_offset

    with plant(loader, "rebuild_producers", careless):
        yield


@contextmanager
def open_transactions_forgotten() -> Iterator[None]:
    """After a start nobody knows which transactions are open."""

    def careless(log: PartitionLog, *rest: Any) -> int:
        start = rebuild_producers(log, *rest)
        for entry in log.producer_state:
            entry.transaction_first_offset = NO_TRANSACTION
        log.producer_state.transactions = OpenTransactions()
        return start

    with plant(loader, "rebuild_producers", careless):
        yield


@contextmanager
def checksums_not_checked() -> Iterator[None]:
    """Recovery takes a batch with a hole for a good one."""
    with plant(segment_scan, "verify_crc", lambda *batch: True):
        yield


@contextmanager
def offsets_not_synced() -> Iterator[None]:
    """Group offsets are acknowledged as if they had been synced."""
    run_records = Flush.run_records

    def careless(self: Flush) -> None:
        if not any("/__consumer_offsets" in file.path for file in self._files):
            run_records(self)

    with plant(Flush, "run_records", careless):
        yield


@contextmanager
def live_marker_compacted_away() -> Iterator[None]:
    """Compaction drops a marker whose records are still there."""
    judge_marker = CompactionRules.judge_marker

    def careless(self: CompactionRules, *batch: Any) -> BatchFate:
        judge_marker(self, *batch)
        return BatchFate.DROP_RECORDS

    with plant(CompactionRules, "judge_marker", careless):
        yield


@contextmanager
def latest_value_compacted_away() -> Iterator[None]:
    """Compaction takes an aborted value for the latest of its key."""
    has_keys = KeyPass._has_keys

    def careless(self: KeyPass, header: BatchHeader) -> bool:
        return has_keys(self, header) or (header.records_count != 0 and not header.is_control)

    with plant(KeyPass, "_has_keys", careless):
        yield


@contextmanager
def compacted_segment_not_synced() -> Iterator[None]:
    """Compaction puts a segment in the place of others that is not on the disk yet."""
    write = Swap._write

    def careless(self: Swap, *indexes: Any) -> None:
        with (
            plant(LyingFile, "sync", lambda file: None),
            plant(LyingDisk, "sync_file", lambda disk, path: None),
        ):
            write(self, *indexes)

    with plant(Swap, "_write", careless):
        yield


@contextmanager
def checkpoint_ahead_of_the_data() -> Iterator[None]:
    """A recovery point vouches for what has not been synced."""
    run = Checkpoint.run

    def careless(self: Checkpoint) -> None:
        with plant(Flush, "run_records", lambda flush: None):
            run(self)

    with plant(Checkpoint, "run", careless):
        yield


@contextmanager
def deleted_log_kept() -> Iterator[None]:
    """A topic that is created again has the records of the one that was deleted."""
    create_log = LogManager.create_log

    def careless(self: LogManager, partition: TopicPartition, topic_id: bytes, *rest: Any) -> PartitionLog:
        log = self.logs.get(partition)
        if log is not None:
            log.topic_id = topic_id
        return create_log(self, partition, topic_id, *rest)

    with (
        plant(LogManager, "create_log", careless),
        plant(Deletions, "begin", lambda self, topic: None),
        plant(Deletions, "delete_now", lambda self, topic: None),
    ):
        yield
