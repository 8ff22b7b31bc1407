"""`ThreadRest`: how a thread that computes stays out of the event loop's way, and ends when nobody wants its result.

The interpreter switches between threads every 5 ms, and code that is compiled holds it for as long as it runs. So
whatever computes in a thread calls `take` about once a millisecond.
"""

from typing import Final

from eosin.runtime.clock import pause

_REST_MS: Final = 0.05


class GivenUp(Exception):
    """Nobody wants the result any more."""


class ThreadRest:
    """The rests of one piece of work."""

    __slots__ = ("_is_given_up",)

    def __init__(self) -> None:
        self._is_given_up = False

    def give_up(self) -> None:
        """End the work at its next rest."""
        self._is_given_up = True

    def take(self) -> None:
        """Let the event loop have the interpreter. Raises GivenUp."""
        if self._is_given_up:
            raise GivenUp
        pause(_REST_MS)
