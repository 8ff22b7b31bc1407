"""Bugs in storage."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records import BatchHeader
from eosin.storage import log_loader, log_reader
from eosin.storage.appends import Appended, AppendResult, Isolation, Marker, Refused, VerificationGuard
from eosin.storage.compaction.key_pass import KeyPass
from eosin.storage.compaction.rules import Rules, Verdict
from eosin.storage.compaction.segment_swap import Swap
from eosin.storage.flusher import Flush
from eosin.storage.log_checkpoint import Checkpoint
from eosin.storage.log_manager import LogManager
from eosin.storage.log_replay import rebuild_producers
from eosin.storage.open_transactions import OpenTransactions
from eosin.storage.partition_log import PartitionLog
from eosin.storage.producer_entry import NO_TRANSACTION, KeptBatch
from eosin.storage.producer_state import ProducerState
from simulation.files import SimulatedFile


@contextmanager
def marker_not_written() -> Iterator[None]:
    """A partition says that it has a marker, now and then, and has not written it."""
    append_marker = PartitionLog.append_marker

    def careless(self: PartitionLog, marker: Marker, *, now_ms: int) -> AppendResult:
        if marker.commit and self.partition == 1 and not self.topic.startswith("__"):
            return Appended(self.log_end_offset - 1, self.log_end_offset - 1, -1, self.log_start_offset)
        return append_marker(self, marker, now_ms=now_ms)

    with patch.object(PartitionLog, "append_marker", careless):
        yield


@contextmanager
def marker_of_the_other_kind() -> Iterator[None]:
    """One partition of a transaction is aborted, the others are committed."""
    append_marker = PartitionLog.append_marker

    def careless(self: PartitionLog, marker: Marker, *, now_ms: int) -> AppendResult:
        if self.topic == "b" and marker.commit:
            marker = Marker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                commit=False,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
            )
        return append_marker(self, marker, now_ms=now_ms)

    with patch.object(PartitionLog, "append_marker", careless):
        yield


@contextmanager
def duplicate_accepted() -> Iterator[None]:
    """A batch that is there already is appended again."""
    check_data = ProducerState.check_data

    def careless(self: ProducerState, header: BatchHeader, **how: Any) -> Any:
        verdict = check_data(self, header, **how)
        return None if isinstance(verdict, KeptBatch) else verdict

    with patch.object(ProducerState, "check_data", careless):
        yield


@contextmanager
def last_stable_offset_too_high() -> Iterator[None]:
    """The last stable offset is one too high while a transaction is open."""
    settle = PartitionLog._settle

    def careless(self: PartitionLog, unstable: int | None) -> None:
        settle(self, unstable)
        self.last_stable_offset = min(self.high_watermark, self.last_stable_offset + 1)

    with patch.object(PartitionLog, "_settle", careless):
        yield


@contextmanager
def sync_skipped() -> Iterator[None]:
    """Records of topics are acknowledged as if they had been synced."""
    run = Flush.run

    def careless(self: Flush) -> None:
        if all("/__" in file.path for file in self._files):
            run(self)

    with patch.object(Flush, "run", careless):
        yield


@contextmanager
def aborted_list_incomplete() -> Iterator[None]:
    """One aborted transaction is missing in what readers are told."""
    aborted = log_reader._aborted

    def careless(*where: Any) -> Any:
        return aborted(*where)[1:]

    with patch.object(log_reader, "_aborted", careless):
        yield


@contextmanager
def late_writes_accepted() -> Iterator[None]:
    """Nobody asks the coordinator whether a partition is in the transaction."""

    def careless(self: ProducerState, producer_id: int, guard: VerificationGuard | None, enabled: bool) -> bool:
        return True

    def no_question(self: Any, request: Any, unknown: Any) -> None:
        """The answer would be no."""

    with (
        patch.object(ProducerState, "_is_verified", careless),
        patch("eosin.broker.verification.TransactionVerification._ask", no_question),
    ):
        yield


@contextmanager
def producers_forgotten() -> Iterator[None]:
    """After a start nobody knows which batches the producers have sent."""

    def careless(log: PartitionLog, *rest: Any) -> int:
        return log.log_end_offset

    with patch.object(log_loader, "rebuild_producers", careless):
        yield


@contextmanager
def gap_accepted() -> Iterator[None]:
    """A batch whose predecessor is missing is appended."""
    check_data = ProducerState.check_data

    def careless(self: ProducerState, header: BatchHeader, **how: Any) -> Any:
        verdict = check_data(self, header, **how)
        is_gap = isinstance(verdict, Refused) and verdict.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return None if is_gap else verdict

    with patch.object(ProducerState, "check_data", careless):
        yield


@contextmanager
def high_watermark_too_early() -> Iterator[None]:
    """Readers are shown what is not durable yet."""
    append = PartitionLog.append

    def careless(self: PartitionLog, *what: Any, **how: Any) -> Any:
        result = append(self, *what, **how)
        self.advance(self.log_end_offset)
        return result

    with patch.object(PartitionLog, "append", careless):
        yield


@contextmanager
def undecided_records_shown() -> Iterator[None]:
    """Committed readers are shown everything up to the high watermark."""

    def careless(self: PartitionLog, isolation: Isolation | None) -> int:
        return self.log_end_offset if isolation is None else self.high_watermark

    with patch.object(PartitionLog, "visible_end", careless):
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

    with patch.object(log_loader, "rebuild_producers", careless):
        yield


@contextmanager
def checksums_not_checked() -> Iterator[None]:
    """Recovery takes a batch with a hole for a good one."""
    with patch("eosin.storage.log_recovery.verify_crc", lambda *batch: True):
        yield


@contextmanager
def offsets_not_synced() -> Iterator[None]:
    """Group offsets are acknowledged as if they had been synced."""
    run = Flush.run

    def careless(self: Flush) -> None:
        if not any("/__consumer_offsets" in file.path for file in self._files):
            run(self)

    with patch.object(Flush, "run", careless):
        yield


@contextmanager
def live_marker_compacted_away() -> Iterator[None]:
    """Compaction drops a marker whose records are still there."""
    judge_marker = Rules.judge_marker

    def careless(self: Rules, *batch: Any) -> Verdict:
        judge_marker(self, *batch)
        return Verdict.DROP_RECORDS

    with patch.object(Rules, "judge_marker", careless):
        yield


@contextmanager
def latest_value_compacted_away() -> Iterator[None]:
    """Compaction takes an aborted value for the latest of its key."""
    has_keys = KeyPass._has_keys

    def careless(self: KeyPass, header: BatchHeader) -> bool:
        return has_keys(self, header) or (header.records_count != 0 and not header.is_control)

    with patch.object(KeyPass, "_has_keys", careless):
        yield


@contextmanager
def compacted_segment_not_synced() -> Iterator[None]:
    """Compaction puts a segment in the place of others that is not on the disk yet."""
    write = Swap._write

    def careless(self: Swap, *indexes: Any) -> None:
        with patch.object(SimulatedFile, "sync", lambda file: None):
            write(self, *indexes)

    with patch.object(Swap, "_write", careless):
        yield


@contextmanager
def checkpoint_ahead_of_the_data() -> Iterator[None]:
    """A recovery point vouches for what has not been synced."""
    run = Checkpoint.run

    def careless(self: Checkpoint) -> None:
        with patch.object(Flush, "run", lambda flush: None):
            run(self)

    with patch.object(Checkpoint, "run", careless):
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
        patch.object(LogManager, "create_log", careless),
        patch.object(LogManager, "delete_logs", lambda self, topic: None),
    ):
        yield
