"""`Handshakes`: how many TLS handshakes are under way, and how many are advanced in one turn of the loop (security.md
2.3.5).

A step of a handshake is up to a millisecond of arithmetic. Always true: at most `PER_TURN` steps run before everybody
else gets a turn, at most `limit` peers are between their greeting and the end of their handshake, and the others wait
in the order in which they greeted.
"""

import asyncio
from typing import Final, Protocol

PER_TURN: Final = 4


class HandshakingPeer(Protocol):
    """A connection in its handshake."""

    def step(self) -> None:
        """Go on with what has come."""

    def admitted(self) -> None:
        """There is room for this handshake now, which had to wait."""


class Handshakes:
    """The handshakes of one broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, limit: int) -> None:
        self._loop = loop
        self._limit = limit
        self.under_way = 0
        self._waiting: dict[HandshakingPeer, None] = {}
        self._ready: dict[HandshakingPeer, None] = {}
        self._turn: asyncio.Handle | None = None

    def begin(self, peer: HandshakingPeer) -> bool:
        """Whether `peer` may begin; if not, it waits until `admitted` is called."""
        if self.under_way >= self._limit:
            self._waiting[peer] = None
            return False
        self.under_way += 1
        return True

    def ready(self, peer: HandshakingPeer) -> None:
        """Something came from `peer`: it gets a step in one of the next turns of the loop."""
        self._ready[peer] = None
        if self._turn is None:
            self._turn = self._loop.call_soon(self._run)

    def leave(self, peer: HandshakingPeer, *, had_begun: bool) -> None:
        """The handshake is over, or the peer is gone."""
        self._ready.pop(peer, None)
        self._waiting.pop(peer, None)
        if not had_begun:
            return
        self.under_way -= 1
        if self._waiting:
            following = next(iter(self._waiting))
            del self._waiting[following]
            self.under_way += 1
            following.admitted()

    def _run(self) -> None:
        self._turn = None
        for _ in range(PER_TURN):
            if not self._ready:
                return
            peer = next(iter(self._ready))
            del self._ready[peer]
            peer.step()
        if self._ready and self._turn is None:
            self._turn = self._loop.call_soon(self._run)
