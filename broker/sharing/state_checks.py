"""`StateChecks`: when a leader looks if the stored state of its share partition was begun anew (share-partitions.md
2.9)."""

from typing import Final

from eosin.runtime.clock import Clock

CHECK_MS: Final = 1000
"""Between two looks, and between the reading of the state and the first one."""


class StateChecks:
    """The looks of one share partition. Always true: after each session that opens there is one, which may be for many
    of them."""

    __slots__ = ("_checked_ms", "_clock", "_is_awaited")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._checked_ms = clock.elapsed_ms()
        self._is_awaited = False

    async def turn(self) -> bool:
        """Wait until it is time to look; False if somebody else waits for that already, and looks for all."""
        if self._is_awaited:
            return False
        wait_ms = self._checked_ms + CHECK_MS - self._clock.elapsed_ms()
        if wait_ms > 0:
            self._is_awaited = True
            await self._clock.sleep(wait_ms)
            self._is_awaited = False
        self._checked_ms = self._clock.elapsed_ms()
        return True
