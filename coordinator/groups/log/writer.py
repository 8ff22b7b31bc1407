"""`LogWriter`: appends to one partition of `__consumer_offsets`, and reports in the order of the log what is durable.

Always true: every write is settled exactly once, writes that were accepted are settled in the order of their offsets,
and one is settled with NONE only when the high watermark has passed it. So memory that applies
writes when they settle equals a reload of the log.
"""

import asyncio
from asyncio import Future
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from eosin.coordinator.ports import CoordinatorLog
from eosin.protocol.errors import ErrorCode
from eosin.runtime.clock import Clock
from eosin.storage.results.log_results import AppendOrigin, AppendResult, Marker, Refused

NO_OFFSET: Final = -1

Settled = Callable[[ErrorCode, int], None]
"""(NONE, base offset) when the write is durable; (error, -1) when it was refused or its log failed. May be called
before the writing call returns. Must not raise."""


class _Write(NamedTuple):
    end_offset: int
    base_offset: int
    settled: Settled


class LogWriter:
    """The only writer of one partition."""

    def __init__(self, log: CoordinatorLog) -> None:
        self._log = log
        self._in_flight: deque[_Write] = deque()
        self._watched: Future[ErrorCode] | None = None
        self._settling = False

    @property
    def in_flight(self) -> int:
        """Number of writes that are in the log but not yet durable."""
        return len(self._in_flight)

    def write(self, batch: bytes, *, now_ms: int, settled: Settled) -> None:
        """Append a batch."""
        self._accept(self._log.append(batch, now_ms=now_ms, origin=AppendOrigin.COORDINATOR), settled)

    def write_marker(self, marker: Marker, *, now_ms: int, settled: Settled) -> None:
        """Append a transaction marker."""
        self._accept(self._log.append_marker(marker, now_ms=now_ms), settled)

    def after_writes(self, settled: Settled) -> None:
        """Write nothing, but settle when everything written so far has."""
        self._enqueue(_Write(self._log.log_end_offset, NO_OFFSET, settled))

    def close(self, error: ErrorCode) -> None:
        """Settle all writes in flight with `error`. They are in the log all the same, and a reload may find them."""
        if self._watched is not None:
            self._watched.remove_done_callback(self._on_durable)
            self._watched = None
        self._settle_all(error)

    def _accept(self, result: AppendResult, settled: Settled) -> None:
        if isinstance(result, Refused):
            settled(result.error, NO_OFFSET)
        else:
            self._enqueue(_Write(result.last_offset + 1, result.base_offset, settled))

    def _enqueue(self, write: _Write) -> None:
        if not self._in_flight and not self._settling and self._log.high_watermark >= write.end_offset:
            self._settle(write, ErrorCode.NONE)
        else:
            self._in_flight.append(write)
        if self._in_flight and self._watched is None and not self._settling:
            self._watch()

    def _watch(self) -> None:
        """Settle what is durable, then wait for the first write that is not: one wait serves all that a sync covers."""
        while self._in_flight:
            end_offset = self._in_flight[0].end_offset
            if self._log.high_watermark >= end_offset:
                self._settle_first(ErrorCode.NONE)
                continue
            durable = self._log.durable(end_offset)
            if not durable.done():
                self._watched = durable
                durable.add_done_callback(self._on_durable)
                return
            self._settle_first(_outcome(durable))

    def _on_durable(self, durable: "Future[ErrorCode]") -> None:
        self._watched = None
        self._settle_first(_outcome(durable))
        self._watch()

    def _settle_first(self, error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            self._settle_all(error)  # a log that has failed takes down everything after that write as well
        elif self._in_flight:
            self._settle(self._in_flight.popleft(), error)

    def _settle_all(self, error: ErrorCode) -> None:
        while self._in_flight:
            self._settle(self._in_flight.popleft(), error)

    def _settle(self, write: _Write, error: ErrorCode) -> None:
        self._settling = True
        try:
            write.settled(error, write.base_offset if error is ErrorCode.NONE else NO_OFFSET)
        finally:
            self._settling = False


def _outcome(durable: "Future[ErrorCode]") -> ErrorCode:
    return ErrorCode.KAFKA_STORAGE_ERROR if durable.cancelled() else durable.result()


class PendingWrite:
    """Pass it as the `settled` of a write, then wait for it. A write that is durable at once costs no future."""

    __slots__ = ("_outcome", "_waiting")

    def __init__(self) -> None:
        self._outcome: ErrorCode | None = None
        self._waiting: Future[ErrorCode] | None = None

    def __call__(self, error: ErrorCode, base_offset: int) -> None:
        self._outcome = error
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(error)

    @property
    def error(self) -> ErrorCode:
        """The error of a write that has ended; NONE while it has not."""
        return self._outcome or ErrorCode.NONE

    @property
    def is_done(self) -> bool:
        """True once it has ended."""
        return self._outcome is not None

    async def wait(self) -> ErrorCode:
        """Returns the outcome of the write, once it has ended."""
        if self._outcome is not None:
            return self._outcome
        self._waiting = asyncio.get_running_loop().create_future()
        return await self._waiting

    async def wait_at_most(self, timeout_ms: float, clock: Clock) -> ErrorCode:
        """Returns the outcome of the write; REQUEST_TIMED_OUT when it has none yet, which undoes nothing."""
        if self._outcome is not None:
            return self._outcome
        waiting: Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self._waiting = waiting
        timer = clock.call_later(
            timeout_ms, lambda: None if waiting.done() else waiting.set_result(ErrorCode.REQUEST_TIMED_OUT)
        )
        try:
            return await waiting
        finally:
            timer.cancel()
