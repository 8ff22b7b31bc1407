"""`SpanQueue`: what is on its way from the event loop to the thread that sends it.

Always true: it holds `limit` at most, and what finds it full is dropped and counted; the event loop never waits for it.
"""

import threading
from collections import deque
from typing import Final

from eosin.observe.tracing.span_sources import Traced

BATCH: Final = 32
"""Spans of one request to the collector: their encoding holds the interpreter for 2 ms."""


class SpanQueue:
    """Filled by the event loop, emptied by one thread."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._traced: deque[Traced] = deque()
        self._is_due = threading.Event()
        self.is_closed = False
        self.dropped = 0
        """Written by the event loop alone; the next two by the thread alone."""
        self.sent = 0
        self.failed = 0

    def __len__(self) -> int:
        return len(self._traced)

    def offer(self, traced: Traced) -> None:
        """Take it along, or drop it when the queue is full."""
        waiting = len(self._traced)
        if waiting >= self._limit or self.is_closed:
            self.dropped += 1
            return
        self._traced.append(traced)
        if waiting + 1 == BATCH:
            self._is_due.set()

    def close(self) -> None:
        """Take nothing more; the thread sends what is there and ends."""
        self.is_closed = True
        self._is_due.set()

    def give_up(self) -> int:
        """Drop what is left; how much that was."""
        left = len(self._traced)
        self._traced.clear()
        self.dropped += left
        return left

    def wait(self, seconds: float) -> None:
        """Wait for a batch, or so long."""
        if not self.is_closed:
            self._is_due.wait(seconds)
            self._is_due.clear()

    def next_batch(self) -> list[Traced]:
        """The next batch, oldest first; empty when nothing waits."""
        taken: list[Traced] = []
        while self._traced and len(taken) < BATCH:
            try:
                taken.append(self._traced.popleft())
            except IndexError:  # a stop that would not wait has given it up
                break
        return taken
