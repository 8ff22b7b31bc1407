"""Repeats a lookup in the background at an interval.

Owns the lookup in flight. Always true: one lookup runs at a time; its result is returned once; a lookup that fails is
logged and repeated soon, and disturbs nothing else.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

from eosin.client.errors import ClientError
from eosin.pipeline.common.errors import MissingTopic
from eosin.pipeline.common.task_timeouts import LAST_BACKOFF_MS
from eosin.runtime.clock import Clock

T = TypeVar("T")

log = logging.getLogger(__name__)


class PeriodicLookup(Generic[T]):
    """Looks up every `every_ms`, for the first time after that interval. Call `poll` regularly."""

    def __init__(self, what: str, lookup: Callable[[], Coroutine[Any, Any, T]], *, every_ms: int, clock: Clock) -> None:
        """The log line of a failure names the lookup as `what`."""
        self._what = what
        self._lookup = lookup
        self._every_ms: Final = every_ms
        self._clock = clock
        self._next_ms = clock.elapsed_ms() + every_ms
        self._running: asyncio.Task[T] | None = None

    def poll(self) -> T | None:
        """Start a lookup if one is due; the result of a lookup that has ended since the last call, if any."""
        now_ms = self._clock.elapsed_ms()
        if self._running is None:
            if now_ms >= self._next_ms:
                self._running = asyncio.create_task(self._lookup())
            return None
        if not self._running.done():
            return None
        ended, self._running = self._running, None
        error = ended.exception()
        if isinstance(error, (ClientError, MissingTopic, TimeoutError)):
            # The last result stays valid; only the timer of a task decides that a task is late.
            log.warning("%s failed: %s", self._what, error)
            self._next_ms = now_ms + min(self._every_ms, LAST_BACKOFF_MS)
            return None
        self._next_ms = now_ms + self._every_ms
        return ended.result()

    async def close(self) -> None:
        """Cancel the lookup in flight."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
            self._running = None
