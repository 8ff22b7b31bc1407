"""Bugs in what logs append, refuse and show."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from eosin.broker.transactions.verification import TransactionVerification
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel
from eosin.protocol.records.batch import BatchHeader
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.log.readable_log import ReadableLog
from eosin.storage.producers.entry import KeptBatch
from eosin.storage.producers.state import ProducerState
from eosin.storage.results.log_results import Appended, AppendResult, Marker, Refused, VerificationGuard
from simulation.planted.places import plant


@contextmanager
def marker_not_written() -> Iterator[None]:
    """A partition says that it has a marker, now and then, and has not written it."""
    append_marker = PartitionLog.append_marker

    def careless(self: PartitionLog, marker: Marker, *, now_ms: int) -> AppendResult:
        if marker.commit and self.partition == 1 and not self.topic.startswith("__"):
            return Appended(self.log_end_offset - 1, self.log_end_offset - 1, -1, self.log_start_offset)
        return append_marker(self, marker, now_ms=now_ms)

    with plant(PartitionLog, "append_marker", careless):
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

    with plant(PartitionLog, "append_marker", careless):
        yield


@contextmanager
def duplicate_accepted() -> Iterator[None]:
    """A batch that is there already is appended again."""
    check_data = ProducerState.check_data

    def careless(self: ProducerState, header: BatchHeader, **how: Any) -> Any:
        verdict = check_data(self, header, **how)
        return None if isinstance(verdict, KeptBatch) else verdict

    with plant(ProducerState, "check_data", careless):
        yield


@contextmanager
def last_stable_offset_too_high() -> Iterator[None]:
    """The last stable offset is one too high while a transaction is open."""
    settle = PartitionLog._settle

    def careless(self: PartitionLog, unstable: int | None) -> None:
        settle(self, unstable)
        self.last_stable_offset = min(self.high_watermark, self.last_stable_offset + 1)

    with plant(PartitionLog, "_settle", careless):
        yield


@contextmanager
def aborted_list_incomplete() -> Iterator[None]:
    """One aborted transaction is missing in what readers are told."""
    aborted_rows = ReadableLog.aborted_rows

    def careless(self: ReadableLog, *where: Any) -> Any:
        return aborted_rows(self, *where)[1:]

    with plant(ReadableLog, "aborted_rows", careless):
        yield


@contextmanager
def late_writes_accepted() -> Iterator[None]:
    """Nobody asks the coordinator whether a partition is in the transaction."""

    def careless(self: ProducerState, producer_id: int, guard: VerificationGuard | None, enabled: bool) -> bool:
        return True

    async def no_question(self: Any, request: Any, batches: Any) -> list[Any]:
        return []  # the response would be no

    with (
        plant(ProducerState, "_is_verified", careless),
        plant(TransactionVerification, "_verified", no_question),
    ):
        yield


@contextmanager
def gap_accepted() -> Iterator[None]:
    """A batch whose predecessor is missing is appended."""
    check_data = ProducerState.check_data

    def careless(self: ProducerState, header: BatchHeader, **how: Any) -> Any:
        verdict = check_data(self, header, **how)
        is_gap = isinstance(verdict, Refused) and verdict.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return None if is_gap else verdict

    with plant(ProducerState, "check_data", careless):
        yield


@contextmanager
def high_watermark_too_early() -> Iterator[None]:
    """Readers are shown what is not durable yet."""
    append = PartitionLog.append

    def careless(self: PartitionLog, *what: Any, **how: Any) -> Any:
        result = append(self, *what, **how)
        self.advance(self.log_end_offset)
        return result

    with plant(PartitionLog, "append", careless):
        yield


@contextmanager
def undecided_records_shown() -> Iterator[None]:
    """Committed readers are shown everything up to the high watermark."""

    def careless(self: PartitionLog, isolation: IsolationLevel | None) -> int:
        return self.log_end_offset if isolation is None else self.high_watermark

    with plant(PartitionLog, "visible_end", careless):
        yield
