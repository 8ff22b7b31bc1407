"""`FrameMemory`: how much memory large frames may hold, over all connections and of each (security.md 6.2).

A frame counts from the moment at which it may be received until nobody views its memory any more, whoever holds the
last view: the memory counts itself out when it is freed. What does not fit waits, unread, in the order in which it
came. Always true: a frame that was admitted may be received to its end, so nothing waits for something that waits; and
where nothing is held the next one is admitted, however large it is. Frames of a connection's own buffer are not
counted: there is one for each connection.
"""

import mmap
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

LAZY_BYTES: Final = 1 << 20
"""Memory of more than this is taken from the system page by page as it fills: the size is only a claim of the peer."""

NO_LIMIT: Final = 1 << 62


class Waiter(Protocol):
    """A connection whose frame has no room."""

    def frame_admitted(self) -> None:
        """Now it has."""


class Share:
    """The large frames of one connection."""

    __slots__ = ("held_bytes",)

    def __init__(self) -> None:
        self.held_bytes = 0


class Claim:
    """A frame that counts, or waits for its turn to."""

    __slots__ = ("is_counted", "memory", "share", "size")

    def __init__(self, memory: "FrameMemory", share: Share, size: int) -> None:
        self.memory = memory
        self.share = share
        self.size = size
        self.is_counted = False

    def end(self) -> None:
        """The memory is free. May be called in any thread."""
        if self.is_counted:
            self.memory.freed(self)


class _Bytes(bytearray):
    __slots__ = ("claim",)
    claim: Claim

    def __del__(self) -> None:
        self.claim.end()


class _Pages(mmap.mmap):
    claim: Claim

    def __del__(self) -> None:
        self.claim.end()


class FrameMemory:
    """The limits, and what is held."""

    def __init__(
        self,
        *,
        limit_bytes: int = NO_LIMIT,
        share_bytes: int = NO_LIMIT,
        others: Callable[[], int] = lambda: 0,
        soon: Callable[[Callable[[], None]], object] = lambda call: call(),
    ) -> None:
        """`share_bytes` is the limit of one connection; `others` tells what else counts against `limit_bytes`. `soon`
        calls in the loop, and may be called in any thread."""
        self.limit_bytes: Final = limit_bytes
        self.share_bytes: Final = share_bytes
        self._others = others
        self._soon = soon
        self._held_bytes = 0
        self._freed: deque[Claim] = deque()
        """The frames that were freed, in any thread, and still count."""
        self._waiting: dict[Waiter, Claim] = {}

    @property
    def held_bytes(self) -> int:
        """What counts now."""
        self._collect()
        return self._held_bytes

    @property
    def waiting(self) -> int:
        """How many frames have no room."""
        return len(self._waiting)

    def claim(self, size: int, share: Share) -> tuple[memoryview, Claim]:
        """Memory of `size` bytes, and whether it counts already. It is not touched before it is written."""
        claim = Claim(self, share, size)
        view: memoryview
        if size <= LAZY_BYTES:
            plain = _Bytes(size)
            plain.claim = claim
            view = memoryview(plain)
        else:
            pages = _Pages(-1, size)
            pages.claim = claim
            view = memoryview(pages)
        self._collect()
        # Behind others, unless all of those wait for earlier frames of their own connections.
        if not any(not each.share.held_bytes for each in self._waiting.values()):
            self._admit(claim)
        return view, claim

    def wait(self, waiter: Waiter, claim: Claim) -> None:
        """Tell `waiter` when its claim counts."""
        self._waiting[waiter] = claim

    def gone(self, waiter: Waiter) -> None:
        """It waits no more."""
        self._waiting.pop(waiter, None)

    def freed(self, claim: Claim) -> None:
        """A claim that counted has ended. May be called in any thread."""
        self._freed.append(claim)
        if self._waiting:
            self._soon(self._serve)

    def _collect(self) -> None:
        while self._freed:
            claim = self._freed.popleft()
            self._held_bytes -= claim.size
            claim.share.held_bytes -= claim.size

    def _admit(self, claim: Claim) -> bool:
        held, share = self._held_bytes, claim.share
        fits = not held or held + self._others() + claim.size <= self.limit_bytes
        if not fits or (share.held_bytes and share.held_bytes + claim.size > self.share_bytes):
            return False
        self._held_bytes += claim.size
        share.held_bytes += claim.size
        claim.is_counted = True
        return True

    def _serve(self) -> None:
        """Admit what there is room for. One that waits for others of its own connection holds up nobody else."""
        self._collect()
        for waiter, claim in list(self._waiting.items()):
            if self._admit(claim):
                del self._waiting[waiter]
                waiter.frame_admitted()
            elif not claim.share.held_bytes:
                return
