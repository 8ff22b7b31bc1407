"""`CheckTurns`: which password is checked next, where more come than threads can check (security.md 3.5).

Always true: at most `at_once` checks are under way and `most_waiting` wait; networks take turns, so whoever sends a
thousand passwords waits for itself; when too many wait, the last one of the network with the most gives way, and the
newcomer only if that is its own.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from eosin.model.close_connection import CloseConnection


class CheckTurns:
    """The turns of one broker."""

    def __init__(self, *, at_once: int, most_waiting: int) -> None:
        self._at_once = at_once
        self._most_waiting = most_waiting
        self._under_way = 0
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By network; the first one of the first network is next."""
        self._count = 0
        """Number of checks that wait."""

    def close(self) -> None:
        """Give no more turns: whoever waits is closed."""
        self._at_once = self._most_waiting = 0
        waiting, self._waiting, self._count = self._waiting, {}, 0
        for turn in [each for turns in waiting.values() for each in turns if not each.done()]:
            turn.set_exception(CloseConnection("the broker stops"))

    @asynccontextmanager
    async def turn(self, network: str) -> AsyncIterator[None]:
        """Wait for a turn, and have it. Raises CloseConnection when too many wait."""
        if self._under_way < self._at_once:
            self._under_way += 1
        else:
            await self._wait(network)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, network: str) -> None:
        if self._count >= self._most_waiting:
            self._make_room(network)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(network, deque()).append(turn)
        self._count += 1
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it came in the moment in which its owner gave up
                self._pass_on()
            raise

    def _make_room(self, network: str) -> None:
        fullest = max(self._waiting.values(), key=len, default=deque[asyncio.Future[None]]())
        too_many = CloseConnection("too many passwords wait to be checked")
        if len(fullest) <= len(self._waiting.get(network, ())) + 1:
            raise too_many
        last = fullest.pop()
        self._count -= 1
        if not last.done():
            last.set_exception(too_many)

    def _pass_on(self) -> None:
        while self._waiting:
            network = next(iter(self._waiting))
            turns = self._waiting.pop(network)
            turn = turns.popleft()
            self._count -= 1
            if turns:
                self._waiting[network] = turns  # behind the others
            if not turn.done():  # else its owner has given up
                turn.set_result(None)
                return
        self._under_way -= 1
