"""`RoundRobin`: something that few may have at a time, in turns between those who ask for it.

Always true: of two owners who wait neither has a second turn before the other has a first one, however many turns one
of them asks for; an owner has one turn at a time, and they come in the order in which they were asked for.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class RoundRobin:
    """The turns of some owners."""

    __slots__ = ("_free", "_served", "_waiting")

    def __init__(self, places: int = 1) -> None:
        """So many owners have a turn at a time."""
        self._free = places
        self._served: set[Hashable] = set()
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}
        """By owner; the first one that has no turn is next."""

    @asynccontextmanager
    async def turn(self, owner: Hashable) -> AsyncIterator[None]:
        """Wait for a turn of `owner`, and have it."""
        if self._free and owner not in self._served:
            self._free -= 1
            self._served.add(owner)
        else:
            await self._wait(owner)
        try:
            yield
        finally:
            self._pass_on(owner)

    async def _wait(self, owner: Hashable) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(owner, turn)
            else:  # it came in the moment in which its owner gave up
                self._pass_on(owner)
            raise

    def _leave(self, owner: Hashable, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(owner, deque())
        if turn in queue:
            queue.remove(turn)
            if not queue:
                del self._waiting[owner]

    def _pass_on(self, served: Hashable) -> None:
        """A turn of `served` is over."""
        waiting = self._waiting
        self._served.discard(served)
        if served in waiting:
            waiting[served] = waiting.pop(served)  # behind the others
        while True:
            owner = next((each for each in waiting if each not in self._served), None)
            if owner is None:
                self._free += 1
                return
            turn = waiting[owner][0]
            self._leave(owner, turn)
            if not turn.done():  # else its owner has given up, and did not run since
                turn.set_result(None)
                self._served.add(owner)
                return
