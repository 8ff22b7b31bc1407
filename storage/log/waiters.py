"""`Waiters`: who waits for a partition's high watermark."""

import asyncio
import heapq

from eosin.protocol.errors import ErrorCode

Waiter = asyncio.Future[ErrorCode]


class Waiters:
    """Futures by the end offset that each waits for."""

    __slots__ = ("_heap", "_made")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Waiter]] = []
        self._made = 0

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, end_offset: int) -> Waiter:
        """A future that is done once the high watermark is at or beyond `end_offset`."""
        waiter: Waiter = asyncio.get_running_loop().create_future()
        self._made += 1
        heapq.heappush(self._heap, (end_offset, self._made, waiter))
        return waiter

    def reached(self, high_watermark: int) -> bool:
        """Answer everyone who waited for `high_watermark` or less; whether anyone still waits."""
        heap = self._heap
        while heap and heap[0][0] <= high_watermark:
            waiter = heapq.heappop(heap)[2]
            if not waiter.done():
                waiter.set_result(ErrorCode.NONE)
        return bool(heap)

    def give_up(self, error: ErrorCode) -> None:
        """Answer everyone with `error`."""
        waiting, self._heap = sorted(self._heap), []
        for _, _, waiter in waiting:
            if not waiter.done():
                waiter.set_result(error)
