"""`Settlement`: waits for one write."""

import asyncio
from asyncio import Future

from eosin.protocol.errors import ErrorCode
from eosin.runtime.clock import Clock


class Settlement:
    """Pass it as the `settled` of a write, then wait for it. A write that is durable at once costs no future."""

    __slots__ = ("_outcome", "_waiting")

    def __init__(self) -> None:
        self._outcome: ErrorCode | None = None
        self._waiting: Future[ErrorCode] | None = None

    def __call__(self, error: ErrorCode, base_offset: int) -> None:
        self._outcome = error
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(error)

    async def wait(self) -> ErrorCode:
        """How the write ended."""
        if self._outcome is not None:
            return self._outcome
        self._waiting = asyncio.get_running_loop().create_future()
        return await self._waiting

    async def wait_at_most(self, timeout_ms: float, clock: Clock) -> ErrorCode:
        """How the write ended; REQUEST_TIMED_OUT when it has not, which undoes nothing."""
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
