"""`Runs`: the offsets of a share partition's window, as runs that are alike (KIP-932; share-partitions.md 2).

Always true: the runs lie back to back, from `start` up to `end`, which is not in them; none is empty; of two neighbours
something differs once `merge` went over them. So memory grows with what differs, never with the number of records.
"""

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import Final

from eosin.coordinator.share_states import DeliveryState

NOT_WRITTEN: Final = 0
"""The number of the write that a run is part of, if it is part of none."""
TERMINAL: Final = frozenset({DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED})
"""The states that a record never leaves."""
_AVAILABLE: Final = DeliveryState.AVAILABLE
_ARCHIVING: Final = DeliveryState.ARCHIVING
_ACQUIRED: Final = DeliveryState.ACQUIRED
_first_of: Final = attrgetter("first")


class Run:
    """Offsets from `first` up to `end`, which is not in it, that have everything in common."""

    __slots__ = ("count", "due_ms", "end", "first", "member", "state", "target", "write")

    def __init__(self, first: int, end: int, state: DeliveryState, *, count: int = 0) -> None:
        self.first = first
        self.end = end
        self.state = state
        self.count = count
        """Number of deliveries, one that is under way included; 0 once the run is terminal."""
        self.member = ""
        """The member that has acquired it."""
        self.due_ms = 0.0
        """The time at which its acquisition lock ends."""
        self.write = NOT_WRITTEN
        """The number of the write that decides about its acknowledgement."""
        self.target = state
        """The state that it has once that write has succeeded."""

    @property
    def is_free(self) -> bool:
        """True if it may be acquired."""
        return self.state is _AVAILABLE

    @property
    def is_terminal(self) -> bool:
        """True if none of its records is ever delivered again."""
        return self.state in TERMINAL

    def _is_like(self, other: "Run") -> bool:
        return (
            self.state is other.state
            and self.count == other.count
            and self.member == other.member
            and self.write == other.write
            and self.target is other.target
            and self.due_ms == other.due_ms
        )


class Runs:
    """The runs of one window. Their fields are changed by `ShareWindow` alone, states by `change` alone."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self.acquired = 0
        """Number of offsets in state ACQUIRED."""
        self.available = 0
        """Number of offsets in state AVAILABLE."""
        self.archiving = 0
        """Number of offsets in state ARCHIVING: their dead letters are still to be written."""
        self._runs: list[Run] = []

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def add(self, run: Run) -> None:
        """Put a run behind all others."""
        assert run.first == self.end < run.end
        self._runs.append(run)
        self.end = run.end
        self._count(run.state, run.end - run.first)

    def extend(self, end: int) -> None:
        """Make the last run longer, up to `end`."""
        self._count(self._runs[-1].state, end - self.end)
        self._runs[-1].end = self.end = end

    def within(self, first: int, end: int) -> list[Run]:
        """The runs of exactly the offsets from `first` up to `end`, as far as they are in the window; those that reach
        beyond are split."""
        first, end = max(first, self.start), min(end, self.end)
        if first >= end:
            return []
        at = self._split(first)
        return self._runs[at : self._split(end)]

    def overlapping(self, first: int, end: int) -> Iterator[Run]:
        """The runs that hold any offset from `first` up to `end`, unchanged."""
        runs = self._runs
        if first >= end or not runs:
            return
        for at in range(max(0, self._index(first)), len(runs)):
            if runs[at].first >= end:
                return
            yield runs[at]

    def change(self, run: Run, state: DeliveryState) -> None:
        """Give a run another state. A run that is not acquired any more has no member and no lock, and one that is
        terminal no count. A run never leaves a terminal state."""
        assert not run.is_terminal or run.state is state, "a terminal state is final"
        size = run.end - run.first
        self._count(run.state, -size)
        self._count(state, size)
        run.state = run.target = state
        run.write = NOT_WRITTEN
        if state is not _ACQUIRED:
            run.member, run.due_ms = "", 0.0
        if state in TERMINAL:
            run.count = 0

    def merge(self, first: int, end: int) -> None:
        """Join neighbours that are alike, between these offsets and at both."""
        runs = self._runs
        if len(runs) < 2:
            return
        at = max(0, self._index(first) - 1)
        until = min(len(runs), self._index(end) + 2)
        kept = [runs[at]]
        for run in runs[at + 1 : until]:
            if kept[-1]._is_like(run):
                kept[-1].end = run.end
            else:
                kept.append(run)
        runs[at:until] = kept

    def drop_before(self, offset: int) -> None:
        """Begin at `offset`; behind the end, with nothing."""
        if offset <= self.start:
            return
        if offset >= self.end:
            self.restart(offset)
            return
        at = self._split(offset)
        for run in self._runs[:at]:
            self._count(run.state, run.first - run.end)
        del self._runs[:at]
        self.start = offset

    def drop_from(self, offset: int) -> None:
        """End at `offset`; before the start, with nothing."""
        if offset >= self.end:
            return
        if offset <= self.start:
            self.restart(offset)
            return
        at = self._split(offset)
        for run in self._runs[at:]:
            self._count(run.state, run.first - run.end)
        del self._runs[at:]
        self.end = offset

    def restart(self, offset: int) -> None:
        """Hold nothing, and begin at `offset`."""
        self._runs.clear()
        self.acquired = self.available = self.archiving = 0
        self.start = self.end = offset

    def drop_terminal_prefix(self) -> None:
        """Begin at the first run that is not terminal."""
        runs = self._runs
        at = 0
        while at < len(runs) and runs[at].is_terminal:
            at += 1
        if at:
            self.start = runs[at - 1].end
            del runs[:at]

    def _index(self, offset: int) -> int:
        """The index of the run of `offset`, which is in the window or behind it; -1 before it."""
        return bisect_right(self._runs, offset, key=_first_of) - 1

    def _split(self, offset: int) -> int:
        """The index of the run that begins at `offset`, which is in the window or its end."""
        if offset == self.end:
            return len(self._runs)
        at = self._index(offset)
        run = self._runs[at]
        if run.first == offset:
            return at
        rest = Run(offset, run.end, run.state, count=run.count)
        rest.member, rest.due_ms, rest.write, rest.target = run.member, run.due_ms, run.write, run.target
        run.end = offset
        self._runs.insert(at + 1, rest)
        return at + 1

    def _count(self, state: DeliveryState, size: int) -> None:
        if state is _ACQUIRED:
            self.acquired += size
        elif state is _AVAILABLE:
            self.available += size
        elif state is _ARCHIVING:
            self.archiving += size
