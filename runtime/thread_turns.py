"""`ThreadTurns`: who may have something computed in a thread now, and who goes on while several do.

Always true: an owner has one piece of work computed at a time; owners take turns, as `RoundRobin` says; and of the
pieces that are computed side by side the one that has worked least goes on (`ThreadShares`), so a short piece ends
soon beside a long one of somebody else.
"""

from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Final

from eosin.runtime.round_robin import RoundRobin
from eosin.runtime.thread_rest import ThreadRest, ThreadShares

SIDE_BY_SIDE: Final = 2
"""Owners whose work is computed at a time: each may hold what a whole batch decompresses to."""


class ThreadTurns:
    """Turns of one kind of work."""

    __slots__ = ("_shares", "_turns")

    def __init__(self, places: int = SIDE_BY_SIDE) -> None:
        """So many owners have work computed at a time."""
        self._turns = RoundRobin(places)
        self._shares = ThreadShares()

    @asynccontextmanager
    async def turn(self, owner: Hashable) -> AsyncIterator[ThreadRest]:
        """Wait for a turn of `owner`; the rests that its work takes in the thread. The work is given up at the end."""
        async with self._turns.turn(owner):
            rest = ThreadRest(self._shares)
            try:
                yield rest
            finally:
                rest.give_up()
