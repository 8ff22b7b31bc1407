"""Bugs to plant in the broker, so that the judge can be judged: each is what a careless change might do.

Each is a context manager; within it every broker of this process has the bug.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

import msgspec

from eosin.coordinator import ending, introduction, machine, transaction_log
from eosin.coordinator.groups.offsets import OffsetStore
from eosin.coordinator.interpreter import Interpreter
from eosin.coordinator.requests import Loaded
from eosin.coordinator.txn import Phase, Txn
from eosin.protocol.records import BatchHeader
from eosin.storage import log_loader, log_reader
from eosin.storage.appends import Appended, AppendResult, Marker, VerificationGuard
from eosin.storage.flusher import Flush
from eosin.storage.partition_log import PartitionLog
from eosin.storage.producer_entry import KeptBatch
from eosin.storage.producer_state import ProducerState

Bug = Callable[[], AbstractContextManager[None]]


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
def pending_offsets_applied_on_abort() -> Iterator[None]:
    """An aborted transaction's offsets become the group's."""
    complete = OffsetStore.complete

    def careless(self: OffsetStore, producer_id: int, *, commit: bool) -> None:
        complete(self, producer_id, commit=True)

    with patch.object(OffsetStore, "complete", careless):
        yield


@contextmanager
def pending_offsets_visible() -> Iterator[None]:
    """An open transaction's offsets are the group's already."""

    def careless(self: OffsetStore, producer_id: int, group_id: str, partition: Any, value: Any) -> None:
        self.put(group_id, partition, value)

    with patch.object(OffsetStore, "put_pending", careless):
        yield


@contextmanager
def epoch_not_persisted() -> Iterator[None]:
    """A new instance's epoch is in memory only."""
    value_of = transaction_log._value

    def careless(txn: Txn) -> Any:
        if txn.phase is Phase.EMPTY and txn.producer_epoch > 0:
            txn = msgspec.structs.replace(txn, producer_epoch=txn.producer_epoch - 1)
        return value_of(txn)

    with patch.object(transaction_log, "_value", careless):
        yield


@contextmanager
def epoch_not_raised() -> Iterator[None]:
    """A new instance gets the epoch that the old one has."""
    next_epoch = introduction._next_epoch

    def careless(txn: Txn, *rest: Any) -> Any:
        if txn.producer_epoch > 0:
            txn = msgspec.structs.replace(txn, producer_epoch=txn.producer_epoch - 1)
        return next_epoch(txn, *rest)

    with patch.object(introduction, "_next_epoch", careless):
        yield


@contextmanager
def roll_forward_skipped() -> Iterator[None]:
    """A decided transaction that is found at a start is not finished."""
    decide = machine.decide

    @wraps(decide)
    def careless(txn: Txn, request: Any, now_ms: int) -> Any:
        if isinstance(request, Loaded):
            return txn, ()
        return decide(txn, request, now_ms)

    with patch("eosin.coordinator.interpreter.decide", careless):
        yield


@contextmanager
def decision_not_durable() -> Iterator[None]:
    """A commit is answered, and its markers are written, before the decision is on disk."""
    write = Interpreter._write

    def careless(self: Interpreter, *what: Any, durable: bool) -> None:
        write(self, *what, durable=False)

    with patch.object(Interpreter, "_write", careless):
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
def late_repetition_in_the_way() -> Iterator[None]:
    """A batch that comes again, late, keeps the next transaction's batches out: they have to wait for it."""
    with patch("eosin.storage.producer_state.next_sequence", lambda last: 0):
        yield


@contextmanager
def producers_forgotten() -> Iterator[None]:
    """After a start nobody knows which batches the producers have sent."""

    def careless(log: PartitionLog, *rest: Any) -> int:
        return log.log_end_offset

    with patch.object(log_loader, "rebuild_producers", careless):
        yield


@contextmanager
def zombies_welcome() -> Iterator[None]:
    """Whoever knows the producer id may end its transaction."""
    end = ending.end

    def careless(txn: Txn, request: Any, now_ms: int) -> Any:
        if request.producer_id == txn.producer_id and txn.phase is Phase.ONGOING:
            request = msgspec.structs.replace(request, producer_epoch=txn.producer_epoch)
        return end(txn, request, now_ms)

    with patch.object(machine, "end", careless):
        yield


BUGS: dict[str, Bug] = {
    bug.__name__: bug
    for bug in (
        marker_not_written,
        marker_of_the_other_kind,
        duplicate_accepted,
        last_stable_offset_too_high,
        sync_skipped,
        aborted_list_incomplete,
        pending_offsets_applied_on_abort,
        pending_offsets_visible,
        epoch_not_persisted,
        epoch_not_raised,
        roll_forward_skipped,
        decision_not_durable,
        late_writes_accepted,
        late_repetition_in_the_way,
        producers_forgotten,
        zombies_welcome,
    )
}
"""Every bug by its name."""

CAUGHT_BY: dict[str, int] = {
    "marker_not_written": 0,
    "marker_of_the_other_kind": 0,
    "duplicate_accepted": 3,
    "last_stable_offset_too_high": 1,
    "sync_skipped": 0,
    "aborted_list_incomplete": 0,
    "pending_offsets_applied_on_abort": 0,
    "pending_offsets_visible": 0,
    "epoch_not_persisted": 30,
    "epoch_not_raised": 3,
    "roll_forward_skipped": 9,
    "decision_not_durable": 7,
    "late_writes_accepted": 93,
    "producers_forgotten": 1,
    "zombies_welcome": 20,
}
"""A seed whose run catches the bug; `python -m simulation --hunt` finds them when plans change."""
