"""The clock of a simulated machine: it goes with the world's time, and a fault may set it forward, or back."""

import asyncio
from collections.abc import Callable

from eosin.runtime.clock import Timer
from simulation.loop import Scheduler

EPOCH_MS = 1_700_000_000_000


class SimulatedClock:
    """`eosin.runtime.clock.Clock` on a `Scheduler`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.ahead_ms = 0
        """How far the wall clock is ahead of what has passed."""

    def now_ms(self) -> int:
        return EPOCH_MS + self.ahead_ms + int(self._scheduler.now * 1000)

    def elapsed_ms(self) -> int:
        return int(self._scheduler.now * 1000)

    def moment_of(self, timestamp_ms: int) -> int:
        return timestamp_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None], *, periodic: bool = False) -> Timer:
        return asyncio.get_running_loop().call_later(max(0.0, delay_ms) / 1000, callback)

    def call_soon(self, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_soon(callback)

    def running_ms(self) -> float:
        return self._scheduler.now * 1000

    def start_deadline(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        return self.call_later(delay_ms, callback)

    async def sleep(self, delay_ms: float, *, periodic: bool = False) -> None:
        await asyncio.sleep(delay_ms / 1000)
