"""`ReplicatedCoordinatorLog`: a partition of an internal topic as its coordinator writes it in a cluster: nothing is
appended that could not be committed now (cluster.md 6.5).

Without this, a request of a client would wait until enough replicas are back, and its record would stand in the way of
all that follow; refused before it is written, the client hears to try again later and nothing has changed.
"""

from asyncio import Future
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from eosin.protocol.errors import ErrorCode
from eosin.storage.results.log_results import AppendResult, Refused

if TYPE_CHECKING:
    from eosin.storage.log.partition_log import PartitionLog
    from eosin.storage.results.log_results import AppendOrigin, Marker

TOO_FEW: Final = Refused(
    ErrorCode.NOT_ENOUGH_REPLICAS, "fewer replicas are in sync than min.insync.replicas of the internal topic asks for"
)


class ReplicatedCoordinatorLog:
    """Implements `eosin.coordinator.ports.CoordinatorLog`."""

    __slots__ = ("_has_enough_in_sync", "_log", "durable")

    def __init__(self, log: "PartitionLog", has_enough_in_sync: "Callable[[PartitionLog], bool]") -> None:
        self._log = log
        self._has_enough_in_sync = has_enough_in_sync
        self.durable: Callable[[int], Future[ErrorCode]] = log.durable

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the election."""
        return self._log.leader_epoch

    @property
    def log_end_offset(self) -> int:
        """The next offset to be written."""
        return self._log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """Everything below is on every replica in sync, as durable as configured."""
        return self._log.high_watermark

    def append(self, batch: bytes, *, now_ms: int, origin: "AppendOrigin") -> AppendResult:
        """Check and write one batch, unless too few replicas are in sync."""
        if not self._has_enough_in_sync(self._log):
            return TOO_FEW
        return self._log.append(batch, now_ms=now_ms, origin=origin)

    def append_records(
        self, records: bytes, *, count: int, now_ms: int, awaited: bool = True, bounded: bool = True
    ) -> AppendResult:
        """The same for encoded records of no producer's."""
        if not self._has_enough_in_sync(self._log):
            return TOO_FEW
        return self._log.append_records(records, count=count, now_ms=now_ms, awaited=awaited, bounded=bounded)

    def append_marker(self, marker: "Marker", *, now_ms: int) -> AppendResult:
        """The same for a transaction marker."""
        if not self._has_enough_in_sync(self._log):
            return TOO_FEW
        return self._log.append_marker(marker, now_ms=now_ms)

    def runs(self, from_offset: int = 0) -> "Iterator[memoryview]":
        """Every batch from `from_offset` or the log start to the log end, in order."""
        return self._log.runs(from_offset)
