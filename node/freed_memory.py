"""`FreedMemory`: what this process has freed, given back to the system.

glibc keeps what is freed in the middle of its heap: five hundred peers that send half a frame before a login, and go,
leave 70 MiB of that behind, and a thousand that greet by TLS leave 20. `malloc_trim` finds it, and takes some 10 ms
for so much, in which nobody else can allocate. So it is asked once for what the start has left, 1 MiB, and from then on
only while more is resident than once was, and less often while that brings nothing, since the broker then needs what it
has.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

CHECK_MS: Final = 10_000
"""Interval between checks."""
STEP_BYTES: Final = 16 << 20
"""Less is left as it is."""
_WORTH_BYTES: Final = 1 << 20
"""Number of freed bytes after which the next check asks again."""
MOST_ROUNDS: Final = 1
"""Looks between two questions where the last one found little: what is left of a flood is asked for within 30 s of its
end, and a question that finds nothing takes a millisecond."""
_STATM: Final = Path("/proc/self/statm")


class FreedMemory:
    """`check` is called each `CHECK_MS`."""

    def __init__(self, resident_bytes: Callable[[], int], give_back: Callable[[], object]) -> None:
        """`give_back` asks the allocator for all that it keeps."""
        self.resident_bytes: Final = resident_bytes
        self._give_back = give_back
        self._least = self._last = resident_bytes()
        """Resident memory at its least, and after the last question."""
        self._left = 0
        """Looks that come before the next question."""
        self._is_first = True
        """True until it is asked for what the start has left."""

    @classmethod
    def of_this_process(cls) -> Self | None:
        """None where the system does not tell what is resident."""
        if not _STATM.exists():
            return None
        page = os.sysconf("SC_PAGE_SIZE")
        return cls(lambda: int(_STATM.read_bytes().split()[1]) * page, _trim)

    async def check(self) -> None:
        """Give back what there is to be had, if it may be much."""
        if self.is_due():
            await asyncio.to_thread(self.trim)

    def is_due(self) -> bool:
        """True if this look is one at which the allocator is asked."""
        now = self.resident_bytes()
        self._least = min(self._least, now)
        if self._is_first:
            return True
        if now <= self._least + STEP_BYTES:
            self._left = 0
            return False
        if self._left and abs(now - self._last) < STEP_BYTES:
            self._left -= 1
            return False
        return True

    def trim(self) -> None:
        """Ask it, and see what came of it."""
        self._is_first = False
        before = self.resident_bytes()
        self._give_back()
        self._last = self.resident_bytes()
        self._least = min(self._least, self._last)
        got_much = before - self._last >= _WORTH_BYTES
        self._left = 0 if got_much else MOST_ROUNDS


def _trim() -> None:
    """Ask glibc; other C libraries keep what they have."""
    import ctypes  # most processes never need it

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
