"""Time, as a parameter: what pipelines measure limits with. The only module here that asks the system for it."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Something that tells the time, and waits."""

    def now_ms(self) -> int:
        """Wall clock time in ms since 1970, for what people and records are told."""

    def monotonic_ms(self) -> int:
        """A time in ms that never goes back, for limits."""

    def wait_ms(self, duration_ms: float) -> None:
        """Block this thread for so long."""

    async def sleep_ms(self, duration_ms: float) -> None:
        """Let other tasks go on for so long."""


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        """Wall clock time in ms since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """A time in ms that never goes back."""
        return time.monotonic_ns() // 1_000_000

    def wait_ms(self, duration_ms: float) -> None:
        """Block this thread for so long."""
        time.sleep(duration_ms / 1000)

    async def sleep_ms(self, duration_ms: float) -> None:
        """Let other tasks go on for so long."""
        await asyncio.sleep(duration_ms / 1000)
