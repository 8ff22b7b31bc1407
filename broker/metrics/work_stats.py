"""Counters of work beside requests: flushes of logs, and questions to transaction coordinators (console.md 4.2).

Kept only where the HTTP listener is on.
"""

import threading

from eosin.broker.metrics.stats import Latencies
from eosin.protocol.errors import ErrorCode
from eosin.runtime.clock import stopwatch_ns


class FlushStats:
    """How long flushes take. Counted in the threads that make them."""

    def __init__(self) -> None:
        self.latencies = Latencies()
        self._lock = threading.Lock()

    def took(self, took_ns: int) -> None:
        """Count one."""
        with self._lock:
            self.latencies.observe(took_ns)


class VerificationStats:
    """What coordinators have answered to partitions that take the first batch of a transaction (KIP-890). An answer
    about several partitions counts as its first error."""

    def __init__(self) -> None:
        self.results: dict[str, int] = {}
        self.latencies = Latencies()

    def answered(self, error: ErrorCode, began_ns: int) -> None:
        """Count one question."""
        self.results[error.name] = self.results.get(error.name, 0) + 1
        self.latencies.observe(stopwatch_ns() - began_ns)
