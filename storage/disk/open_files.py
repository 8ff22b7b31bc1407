"""`OpenFiles`: which segments hold a descriptor, and how many may.

A process has a limit of descriptors, and partitions have none. A segment opens its file when it is used, and says so
here; beyond the limit, those that were used least recently close theirs. Always true: a file that a thread works with
(pinned) is never closed for room; only one thread at a time opens segments (the one that loads the logs, then the event
loop), so nothing here is locked.
"""

import sys
from typing import Protocol


class Holder(Protocol):
    """Something that opens its file again when it needs it."""

    was_used: bool
    """True if the file was asked for since this was last set to False."""

    @property
    def is_pinned(self) -> bool:
        """True if a thread works with the file."""

    def close_file(self) -> None:
        """Give the descriptor back."""

    def release_if_idle(self) -> None:
        """Give back the descriptor, and memory that can be read again, if the file was not used since the last call."""


class OpenFiles:
    """The holders of descriptors, roughly by when they were last used."""

    __slots__ = ("_holders", "_limit")

    def __init__(self, limit: int = sys.maxsize) -> None:
        self._holders: dict[Holder, None] = {}
        self._limit = limit

    def __len__(self) -> int:
        return len(self._holders)

    def holders(self) -> list[Holder]:
        """All that hold one now."""
        return list(self._holders)

    @property
    def is_full(self) -> bool:
        """True if one more would close another."""
        return len(self._holders) >= self._limit

    def opened(self, holder: Holder) -> None:
        """`holder` has opened its file."""
        if len(self._holders) >= self._limit:
            self._close(len(self._holders) - self._limit + 1)
        self._holders[holder] = None

    def closed(self, holder: Holder) -> None:
        """`holder` has closed its file."""
        self._holders.pop(holder, None)

    def limit_to(self, limit: int) -> None:
        """Keep at most `limit` files open from now on."""
        self._limit = limit
        if len(self._holders) > limit:
            self._close(len(self._holders) - limit)

    def make_room(self) -> None:
        """The system has no descriptor left, whatever the limit: close half of what is open."""
        self._close((len(self._holders) + 1) // 2)

    def _close(self, count: int) -> None:
        # The clock algorithm: a holder that was used since its last turn gets another one. Two rounds, as the first
        # may find that all were used.
        holders = self._holders
        for _ in range(2 * len(holders)):
            if not count:
                return
            holder = next(iter(holders))
            del holders[holder]
            if holder.was_used or holder.is_pinned:
                holder.was_used = False
                holders[holder] = None
            else:
                holder.close_file()
                count -= 1
