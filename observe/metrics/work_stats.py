"""Counters of work beside requests: the start, flushes of logs, and questions to transaction coordinators (console.md
4.2).

Kept only where the HTTP listener is on.
"""

import threading
from bisect import bisect_left
from typing import Final

from eosin.network.request_stats import Latencies
from eosin.protocol.errors import ErrorCode
from eosin.runtime.clock import stopwatch_ns

SIZES: Final = tuple(256 * 4**step for step in range(10))
"""Bytes: 256 to 64 MiB."""


class FlushStats:
    """The times of flushes, counted in the threads that make them, and the bytes that they make durable."""

    def __init__(self) -> None:
        self.latencies = Latencies()
        self.sizes = [0] * (len(SIZES) + 1)
        """The last is for what is above all bounds."""
        self.total_bytes = 0
        self._lock = threading.Lock()

    def record(self, took_ns: int) -> None:
        """Count one."""
        with self._lock:
            self.latencies.observe(took_ns)

    def made_durable(self, size: int) -> None:
        """Count the bytes of one. In the event loop."""
        self.sizes[bisect_left(SIZES, size)] += 1
        self.total_bytes += size


class StartStats:
    """The times of the parts of a start."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        """By part: `open` until the logs are recovered; after that `listen` until connections are accepted, and `load`
        until the coordinators have read their logs."""
        self._since_ns = stopwatch_ns()

    def opened(self) -> None:
        """The logs are open. The other parts begin."""
        self.reached("open")
        self._since_ns = stopwatch_ns()

    def reached(self, part: str) -> None:
        """The end of a part."""
        self.seconds[part] = (stopwatch_ns() - self._since_ns) / 1e9


class VerificationStats:
    """The answers of coordinators to partitions that take the first batch of a transaction (KIP-890). An answer
    about several partitions counts as its first error."""

    def __init__(self) -> None:
        self.results: dict[str, int] = {}
        self.latencies = Latencies()

    def record(self, error: ErrorCode, began_ns: int) -> None:
        """Count one question."""
        self.results[error.name] = self.results.get(error.name, 0) + 1
        self.latencies.observe(stopwatch_ns() - began_ns)
