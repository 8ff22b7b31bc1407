"""`MetricsExposition`: the answer of `/metrics` (console.md 4.2).

Always true: scrapes that come together share one answer, which is at most `KEPT_MS` old; a client chooses between two
formats and adds nothing to what is kept.
"""

import asyncio
from typing import Final

from eosin.observe.metrics.collector import Collector
from eosin.observe.metrics.families import Family, single
from eosin.observe.metrics.text import content_type, write
from eosin.runtime.clock import Clock, stopwatch_ns

KEPT_MS: Final = 1000


class MetricsExposition:
    """All metrics of one broker."""

    def __init__(self, collector: Collector, clock: Clock) -> None:
        self._clock = clock
        self._collector = collector
        self._kept: dict[str, tuple[int, asyncio.Task[list[bytes]]]] = {}
        """By content type: when it was read, and the answer."""
        self._took_ns = 0

    def forget(self) -> None:
        """Let the next scrape read anew."""
        self._kept.clear()

    async def expose(self, accept: str) -> tuple[list[bytes], str]:
        """The text of all metrics, in pieces, in a format that `accept` allows, and its content type."""
        now_ms = self._clock.elapsed_ms()
        kind = content_type(accept)
        kept = self._kept.get(kind)
        if kept is None or now_ms - kept[0] >= KEPT_MS:
            writing = asyncio.get_running_loop().create_task(self._write(kind))
            kept = self._kept[kind] = now_ms, writing
        return await asyncio.shield(kept[1]), kind

    async def _write(self, kind: str) -> list[bytes]:
        began_ns = stopwatch_ns()
        found = await write([*await self._collector.families(), self._duration()], kind, self._clock)
        self._took_ns = stopwatch_ns() - began_ns
        return found

    def _duration(self) -> Family:
        text = "How long the scrape before this one took, turns of everybody else included; 0 for the first."
        return single("eosin_scrape_seconds", text, self._took_ns / 1e9)
