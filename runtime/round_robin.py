"""`RoundRobin`: something that one may have at a time, in turns between those who ask for it.

Always true: of two owners who wait neither has a second turn before the other has a first one, however many turns one
of them asks for; turns of one owner come in the order in which they were asked for.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class RoundRobin:
    """The turns of some owners."""

    __slots__ = ("_is_taken", "_served", "_waiting")

    def __init__(self) -> None:
        self._is_taken = False
        self._served: Hashable = None
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}
        """By owner; the first one is next."""

    @asynccontextmanager
    async def turn(self, owner: Hashable) -> AsyncIterator[None]:
        """Wait for a turn of `owner`, and have it."""
        if self._is_taken:
            await self._wait(owner)
        self._is_taken = True
        self._served = owner
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, owner: Hashable) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(owner, turn)
            else:  # it came in the moment in which its owner gave up
                self._pass_on()
            raise

    def _leave(self, owner: Hashable, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(owner, deque())
        if turn in queue:
            queue.remove(turn)
            if not queue:
                del self._waiting[owner]

    def _pass_on(self) -> None:
        waiting = self._waiting
        if self._served in waiting:
            waiting[self._served] = waiting.pop(self._served)  # behind the others
        while waiting:
            owner = next(iter(waiting))
            turn = waiting[owner][0]
            self._leave(owner, turn)
            if not turn.done():  # else its owner has given up, and did not run since
                turn.set_result(None)
                self._served = owner
                return
        self._is_taken = False
