"""Something that is looked up again now and then, while all else goes on.

Owns the look on its way. Always true: there is one at a time; its answer is given once; one that fails is told and
tried again soon, and costs nothing else.
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
    """Looks every `every_ms`, for the first time so long from now. Ask for the `answer` now and then."""

    def __init__(self, what: str, look: Callable[[], Coroutine[Any, Any, T]], *, every_ms: int, clock: Clock) -> None:
        """`what` begins the sentence that says that a look has failed."""
        self.what = what
        self._look = look
        self._every_ms: Final = every_ms
        self._clock = clock
        self._next_ms = clock.elapsed_ms() + every_ms
        self._looking: asyncio.Task[T] | None = None

    def answer(self) -> T | None:
        """Begin to look if it is time; what was found, if a look has ended."""
        now_ms = self._clock.elapsed_ms()
        if self._looking is None:
            if now_ms >= self._next_ms:
                self._looking = asyncio.create_task(self._look())
            return None
        if not self._looking.done():
            return None
        looked, self._looking = self._looking, None
        error = looked.exception()
        if isinstance(error, (ClientError, MissingTopic, TimeoutError)):
            # What is known goes on; whether somebody is late is for the timer of a task to say.
            log.warning("%s failed: %s", self.what, error)
            self._next_ms = now_ms + min(self._every_ms, LAST_BACKOFF_MS)
            return None
        self._next_ms = now_ms + self._every_ms
        return looked.result()

    async def close(self) -> None:
        """Take back the look that is on its way."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
            self._looking = None
