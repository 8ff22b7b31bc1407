"""`ThreadRest`: how a thread that computes stays out of the event loop's way, and ends when nobody wants its result.

The interpreter switches between threads after a while, and code that is compiled holds it for as long as it runs. So
whatever computes in a thread calls `rest` about once a millisecond.
"""

import threading
from typing import Final

from eosin.runtime.clock import pause

_REST_MS: Final = 0.05


class GivenUp(Exception):
    """Nobody wants the result any more."""


class ThreadShares:
    """The pieces of work that threads compute side by side: the one that has worked least goes on, the others wait at
    their next rest. So what takes a millisecond ends soon, however long the others take. Always true: the piece that
    has rested least never waits, and a piece that has ended holds up nobody."""

    __slots__ = ("_changed", "_rests")

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rests: dict[ThreadRest, int] = {}
        """Number of rests of each piece since its first one, which is about its work in ms."""

    def wait(self, piece: "ThreadRest") -> None:
        """Count a rest of `piece`, and wait while another one has had fewer. Returns at once when it is given up."""
        rests = self._rests
        with self._changed:
            if piece.is_given_up:
                return
            mine = rests[piece] = rests.get(piece, 0) + 1
            if len(rests) > 1:
                self._changed.notify_all()
                self._changed.wait_for(lambda: piece.is_given_up or mine <= min(rests.values()))

    def end(self, piece: "ThreadRest") -> None:
        """Forget `piece`, which is given up or has ended."""
        with self._changed:
            piece.is_given_up = True
            self._rests.pop(piece, None)
            self._changed.notify_all()


class ThreadRest:
    """The rests of one piece of work."""

    __slots__ = ("_shares", "is_given_up")

    def __init__(self, shares: ThreadShares | None = None) -> None:
        """`shares` are those of the pieces that are computed side by side."""
        self._shares = shares
        self.is_given_up = False
        """True if the piece ends at its next rest."""

    def give_up(self) -> None:
        """End the work at its next rest. Also to be called when it has ended."""
        if self._shares is None:
            self.is_given_up = True
        else:
            self._shares.end(self)

    def rest(self) -> None:
        """Let the event loop have the interpreter, and pieces that have worked less. Raises GivenUp."""
        if not self.is_given_up:
            pause(_REST_MS)
            if self._shares is not None:
                self._shares.wait(self)
        if self.is_given_up:
            raise GivenUp
