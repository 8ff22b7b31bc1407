"""Decides when a failing or full disk is more than the trouble of one log (cluster.md 4.19). Pure."""

from collections import deque
from typing import Final, NamedTuple

FAILURES_COUNT_FOR_MS: Final = 60_000
ROOM_SHARE: Final = 20
"""A disk has room again when this part of it is free, or `ROOM_BYTES` are."""
ROOM_BYTES: Final = 1 << 30


class LogFailures:
    """Tells logs that fail one by one from a directory that has failed."""

    def __init__(self, most: int) -> None:
        """`most` is `eosin.log.failures.max`."""
        self._most = most
        self._times_ms: deque[int] = deque()

    def one_more(self, now_ms: int) -> bool:
        """A log has failed; whether that makes as many within a minute as the directory is allowed."""
        self._times_ms.append(now_ms)
        while now_ms - self._times_ms[0] > FAILURES_COUNT_FOR_MS:
            self._times_ms.popleft()
        return len(self._times_ms) >= self._most


class Room(NamedTuple):
    """The free and the total space of a file system, in bytes."""

    free: int
    total: int

    @property
    def is_enough(self) -> bool:
        """True if a broker with so much room may lead again after it had none."""
        return self.free >= min(self.total // ROOM_SHARE, ROOM_BYTES)


class DiskFullFence:
    """Decides whether a broker whose disk is full should let others lead."""

    def __init__(self, patience_ms: int) -> None:
        """`patience_ms` is `eosin.disk.full.fence.ms`."""
        self._patience_ms = patience_ms
        self._full_since_ms: int | None = None
        self.is_wanted = False

    def update(self, *, is_full: bool, room: Room | None, now_ms: int) -> bool:
        """Take what is true now; whether `is_wanted` has changed. `room` None is a file system without limits, or one
        that does not tell."""
        before = self.is_wanted
        if is_full:
            if self._full_since_ms is None:
                self._full_since_ms = now_ms
            self.is_wanted = self.is_wanted or now_ms - self._full_since_ms >= self._patience_ms
        else:
            self._full_since_ms = None
            if self.is_wanted and (room is None or room.is_enough):
                self.is_wanted = False
        return self.is_wanted is not before
