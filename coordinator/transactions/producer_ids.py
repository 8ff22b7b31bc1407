"""Hands out producer ids from blocks that cluster metadata has made durable (transactions.md 9).

Always true: an id is handed out once; the next block is requested before the present one is used up, one request at a
time; and the rest of a block at the end of the process is never used.
"""

import asyncio
import logging
from typing import Final

from eosin.coordinator.transactions.ports import ProducerIds
from eosin.runtime.backoff import backoff_ms
from eosin.runtime.chance import Chance
from eosin.runtime.clock import Clock, Timer
from eosin.runtime.start_now import start_now

_LOG: Final = logging.getLogger(__name__)

PREFETCH_USED_PERCENT: Final = 90
"""The next block is asked for when this much of the present one is used."""
RETRY_BACKOFF_MS: Final = 50
RETRY_BACKOFF_MAX_MS: Final = 1000
LARGEST_PRODUCER_ID: Final = (1 << 63) - 1

_NOTHING: Final = range(0)


class ProducerIdBlocks:
    """The present block and the one after it."""

    def __init__(self, source: ProducerIds, *, clock: Clock, chance: Chance) -> None:
        self._source = source
        self._clock = clock
        self._chance = chance
        self._block = _NOTHING
        self._used = 0
        self._next_block = _NOTHING
        self._asked: asyncio.Task[range] | None = None
        self._retry: Timer | None = None
        self._failures = 0

    def allocate(self) -> int | None:
        """An id that was never used, or None when there is none right now: the client is to come back soon."""
        if self._used == len(self._block):
            if not self._next_block:
                self._prefetch()
            self._block, self._next_block, self._used = self._next_block, _NOTHING, 0
            if not self._block:
                return None
        producer_id = self._block[self._used]
        self._used += 1
        if self._used * 100 >= len(self._block) * PREFETCH_USED_PERCENT and not self._next_block:
            self._prefetch()
        return producer_id

    async def fill(self) -> None:
        """Request the first block, and wait until that has succeeded or failed."""
        self._prefetch()
        if self._asked is not None:
            await asyncio.wait([self._asked])

    def stop(self) -> None:
        """Request no more blocks."""
        if self._retry is not None:
            self._retry.cancel()
        if self._asked is not None:
            self._asked.cancel()

    def _prefetch(self) -> None:
        if self._asked is not None or self._retry is not None:
            return
        try:
            answer = start_now(self._source.allocate_block())
        except OSError as error:
            self._failed(error)
            return
        if isinstance(answer, range):
            self._store(answer)
        else:
            self._asked = answer
            answer.add_done_callback(self._block_allocated)

    def _block_allocated(self, asked: "asyncio.Task[range]") -> None:
        self._asked = None
        if asked.cancelled():
            return
        error = asked.exception()
        if isinstance(error, OSError):
            self._failed(error)
        else:
            self._store(asked.result())

    def _store(self, block: range) -> None:
        highest = max(self._block.stop, self._next_block.stop)
        if not len(block) or block.step != 1 or block.start < highest or block.stop > LARGEST_PRODUCER_ID:
            self._failed(ValueError(f"{block} after ids up to {highest}"))
            return
        self._failures = 0
        self._next_block = block

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        _LOG.error("no block of producer ids: %s", error)
        wait_ms = backoff_ms(
            self._failures, first_ms=RETRY_BACKOFF_MS, longest_ms=RETRY_BACKOFF_MAX_MS, chance=self._chance
        )
        self._retry = self._clock.call_later(wait_ms, self._again)

    def _again(self) -> None:
        self._retry = None
        self._prefetch()
