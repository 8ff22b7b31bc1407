"""Work on many things, a few in each turn of the event loop."""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from eosin.runtime.clock import Clock

_T = TypeVar("_T")

TURN_MS: Final = 2
"""Length of one turn of such work, but for its last item."""


class _Waiting:
    """Work that waits for its next turn of one event loop."""

    __slots__ = ("_is_scheduled", "_queue")

    def __init__(self) -> None:
        self._queue: deque[asyncio.Future[None]] = deque()
        self._is_scheduled = False

    def add(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """A place in the queue: done when it is this work's turn."""
        place = loop.create_future()
        self._queue.append(place)
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._let_one_go_on, loop)
        return place

    def _let_one_go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        queue = self._queue
        while queue:
            place = queue.popleft()
            if not place.done():  # else its work was cancelled
                place.set_result(None)
                break
        self._is_scheduled = bool(queue)
        if queue:
            loop.call_soon(self._let_one_go_on, loop)


_WAITING: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Waiting]] = WeakKeyDictionary()
"""By event loop, and nothing here keeps a loop that is closed."""


async def next_turn() -> None:
    """Let the event loop turn. Of all work that waits here one goes on in each turn of the loop, so that a hundred long
    requests hold up everybody else for as long as one of them does."""
    loop = asyncio.get_running_loop()
    waiting = _WAITING.get(loop)
    if waiting is None:
        waiting = _WAITING[loop] = _Waiting()
    await waiting.add(loop)


async def in_turns(items: Iterable[_T], do: Callable[[_T], None], clock: Clock, *, per_turn: int = sys.maxsize) -> None:
    """Do something to each of `items`, which may be lazy, and let the event loop turn every few milliseconds, and after
    `per_turn` items. An item may be gone by its turn: `do` checks that."""
    left, until_ms = per_turn, clock.elapsed_ms() + TURN_MS
    for item in items:
        do(item)
        left -= 1
        if left <= 0 or clock.elapsed_ms() >= until_ms:
            await next_turn()
            left, until_ms = per_turn, clock.elapsed_ms() + TURN_MS


async def outcome_in_turns(steps: Generator[None, None, _T], clock: Clock) -> _T:
    """The outcome of a computation in short steps; the event loop turns every few milliseconds."""
    until_ms = clock.elapsed_ms() + TURN_MS
    while True:
        try:
            next(steps)
        except StopIteration as end:
            outcome: _T = end.value
            return outcome
        if clock.elapsed_ms() >= until_ms:
            await next_turn()
            until_ms = clock.elapsed_ms() + TURN_MS


class SharedTurns:
    """The turns of several queues, each of which may be that of one partition: in a turn of the event loop all of them
    together work as long as one would. They go on one after the other, so that each has its turns."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left = 1.0
        """The part of this turn that no step has taken."""
        self._until_ms = 0
        self._next: asyncio.Handle | None = None
        self._waiting: deque[TurnQueue] = deque()

    def try_step(self, part: float) -> bool:
        """True if a step, which is this part of a turn, fits into this one: the caller takes it now. There is time for
        the first step of a turn, and for others until `TURN_MS` after it."""
        if self._next is None:  # the first one of this turn
            self._left, self._until_ms = 1.0, self._clock.elapsed_ms() + TURN_MS
            self._next = asyncio.get_running_loop().call_soon(self._next_turn)
        if self._left < part / 2 or self._clock.elapsed_ms() >= self._until_ms:
            return False
        self._left -= part
        return True

    def wait(self, queue: "TurnQueue") -> None:
        """Have a queue go on in the next turn that is its own: this one had no room for it."""
        self._waiting.append(queue)

    def _next_turn(self) -> None:
        self._next = None
        for _ in range(len(self._waiting)):
            if not self._waiting.popleft().work():
                break


class TurnQueue:
    """Steps of many jobs, one job after the other, a few steps in each turn of the event loop: so many for all jobs
    together, however many come in one turn. What fits into the turn in which it comes is done at once."""

    def __init__(self, clock: Clock, *, steps_per_turn: int, turns: SharedTurns | None = None) -> None:
        """A turn ends after `steps_per_turn` steps, or `TURN_MS` after its first. The turns are those of other queues
        too if they are `turns`: then a step takes its part of the turn from them."""
        self._part = 1 / steps_per_turn
        self._turns = SharedTurns(clock) if turns is None else turns
        self._is_waiting = False
        self._jobs: deque[Iterator[None]] = deque()
        self._emptied: list[asyncio.Future[None]] = []

    def add(self, job: Iterator[None]) -> None:
        """Take each step of `job`, which must not raise, in the event loop."""
        self._jobs.append(job)
        if not self._is_waiting:
            self.work()

    def try_step(self) -> bool:
        """True if one more step fits into this turn and no job waits: the caller takes it now."""
        return not self._jobs and self._turns.try_step(self._part)

    async def finished(self) -> None:
        """Wait until there is nothing left to do."""
        if self._jobs:
            self._emptied.append(asyncio.get_running_loop().create_future())
            await self._emptied[-1]

    def finish(self) -> None:
        """Do all that is left, now."""
        while self._jobs:
            self._step()

    def work(self) -> bool:
        """For `SharedTurns`: take the steps for which this turn has room. True if none is left."""
        self._is_waiting = False
        try:
            while self._jobs and self._turns.try_step(self._part):
                self._step()
        finally:
            if self._jobs:
                self._is_waiting = True
                self._turns.wait(self)
        return not self._jobs

    def _step(self) -> None:
        job = self._jobs[0]
        try:
            next(job)
        except StopIteration:
            self._jobs.popleft()
        if not self._jobs:
            waiting, self._emptied = self._emptied, []
            for each in waiting:
                if not each.done():
                    each.set_result(None)
