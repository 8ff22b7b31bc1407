"""Time as some processes get it: the clock of a wait that must tell a busy machine from a program that stands still.

Linux counts for each thread how long it ran and how long it was ready and had to wait for a processor
(`/proc/PID/task/TID/schedstat`). Always true: an interval in which the threads got half of the processor time that they
asked for counts half; one in which they asked for none counts whole.
"""

import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

_NANOS: Final = 1_000_000_000
_PROC: Final = Path("/proc")
_EVERY_S: Final = 1.0
"""To look through all threads takes some ms."""

Seen = dict[tuple[int, str], tuple[int, int]]
"""Of each thread, by process and thread: the time that it ran, and that it waited for a processor, in nanoseconds."""


class MachineTime:
    """Counts from its making. Ask now and then: what happened to a thread that has ended between two questions is
    not known."""

    def __init__(
        self,
        members: Callable[[], Iterable[int]],
        *,
        proc: Path = _PROC,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`members` returns the process ids that there are now."""
        self._members = members
        self._proc = proc
        self._clock = clock
        self._seen = self._look()
        self._at = clock()
        self._elapsed_s = 0.0
        self.ran_s = 0.0
        """The processor time that they got."""

    def elapsed_s(self) -> float:
        """The seconds that a free machine would have taken, as far as this can be told, up to a second ago."""
        if self._clock() - self._at < _EVERY_S:
            return self._elapsed_s
        before, self._seen = self._seen, self._look()
        then, self._at = self._at, self._clock()
        ran = waited = 0
        for thread, (running, waiting) in self._seen.items():
            earlier = before.get(thread, (0, 0))
            ran += max(running - earlier[0], 0)
            waited += max(waiting - earlier[1], 0)
        self.ran_s += ran / _NANOS
        self._elapsed_s += counted_s(self._at - then, ran / _NANOS, waited / _NANOS)
        return self._elapsed_s

    def _look(self) -> Seen:
        found: Seen = {}
        for pid in self._members():
            for file in self._proc.glob(f"{pid}/task/*/schedstat"):
                with contextlib.suppress(OSError, ValueError):  # the thread has ended
                    ran, waited, _ = map(int, file.read_text().split())
                    found[pid, file.parent.name] = ran, waited
        return found


def counted_s(interval_s: float, ran_s: float, waited_s: float) -> float:
    """The part of an interval that counts, by what threads ran and waited in it, all together."""
    asked_s = ran_s + waited_s
    if not asked_s:
        return interval_s
    busy_s = min(interval_s, asked_s)
    return interval_s - busy_s + busy_s * ran_s / asked_s
