"""`BrokerClock` and `AsyncBrokerClock`: the clock of a broker as a test sees it."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from eosin.lab.clock.values import Advanced, ClockState, Due
from eosin.lab.common.errors import LabError
from eosin.lab.operations import Operations

if TYPE_CHECKING:
    from eosin.lab.async_api import AsyncBrokerApi
    from eosin.lab.broker_api import BrokerApi

MOST_SHOWN: Final = 10
_Clock = TypeVar("_Clock", "BrokerClock", "AsyncBrokerClock")


class BrokerClock:
    """The clock of one broker. It begins at the real time, flows with it, and never goes back."""

    def __init__(self, broker: "BrokerApi") -> None:
        self._broker: Final = broker
        self._shared: list[BrokerClock] = [self]

    def now_ms(self) -> int:
        """The broker's time of day, in ms since the epoch."""
        return self._broker.call(Operations.clock_state).now_ms

    def advance(
        self,
        *,
        ms: float = 0,
        seconds: float = 0,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
        sessions: bool = False,
    ) -> Advanced:
        """Jump ahead, and return what has happened: each timer at its own time, periodic work once at the end. Members
        of groups are not found dead by it, unless `sessions`. Raises LabError."""
        by_ms = total_ms(ms=ms, seconds=seconds, minutes=minutes, hours=hours, days=days)
        results = [each._broker.call(Operations.advance, by_ms, sessions) for each in self._shared]
        return results[self._shared.index(self)]

    def advance_to(self, deadline: int | None, *, sessions: bool = False) -> Advanced:
        """Jump until everything has happened that is due at `deadline`, in ms since the epoch:
        `clock.advance_to(eosin.transactions("t").deadline)`. Raises LabError."""
        at_ms = checked_deadline(deadline)
        results = [each._broker.call(Operations.advance_to, at_ms, sessions) for each in self._shared]
        return results[self._shared.index(self)]

    def next_deadlines(self, count: int = MOST_SHOWN) -> list[Due]:
        """The next things that time brings, by their time."""
        return self._broker.call(Operations.next_deadlines, count)

    def freeze(self) -> None:
        """Stand still from now on: no transaction times out and no member is found dead, while somebody debugs."""
        for each in self._shared:
            each._broker.call(Operations.freeze_clock)

    def flow(self, rate: float = 1.0) -> None:
        """Flow with real time, or 0.1 to 100 times as fast. Raises LabError."""
        for each in self._shared:
            each._broker.call(Operations.flow_clock, rate)

    def jump_wall(self, ms: int) -> None:
        """Set the time of day forward, and move no timer, as NTP does. Raises LabError."""
        for each in self._shared:
            each._broker.call(Operations.jump_wall, ms)

    def share(self, other: "BrokerClock") -> None:
        """Make this and another broker's clock one: the earlier one advances to the later one, and whatever is done to
        one of them from now on is done to the other, first to this one. Raises LabError."""
        joined = _joined(self, other)
        rate = self._broker.call(Operations.clock_state).rate
        for each in joined:
            each._shared = joined
        self.freeze()
        states = [each._broker.call(Operations.clock_state) for each in joined]
        for each, behind_ms in zip(joined, _behind_ms(states), strict=True):
            each._broker.call(Operations.advance, behind_ms, False)
        if rate:
            self.flow(rate)


class AsyncBrokerClock:
    """The same, to be awaited."""

    def __init__(self, broker: "AsyncBrokerApi") -> None:
        self._broker: Final = broker
        self._shared: list[AsyncBrokerClock] = [self]

    async def now_ms(self) -> int:
        """The broker's time of day, in ms since the epoch."""
        return (await self._broker.call(Operations.clock_state)).now_ms

    async def advance(
        self,
        *,
        ms: float = 0,
        seconds: float = 0,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
        sessions: bool = False,
    ) -> Advanced:
        """Jump ahead, and return what has happened: each timer at its own time, periodic work once at the end. Members
        of groups are not found dead by it, unless `sessions`. Raises LabError."""
        by_ms = total_ms(ms=ms, seconds=seconds, minutes=minutes, hours=hours, days=days)
        results = [await each._broker.call(Operations.advance, by_ms, sessions) for each in self._shared]
        return results[self._shared.index(self)]

    async def advance_to(self, deadline: int | None, *, sessions: bool = False) -> Advanced:
        """Jump until everything has happened that is due at `deadline`, in ms since the epoch. Raises LabError."""
        at_ms = checked_deadline(deadline)
        results = [await each._broker.call(Operations.advance_to, at_ms, sessions) for each in self._shared]
        return results[self._shared.index(self)]

    async def next_deadlines(self, count: int = MOST_SHOWN) -> list[Due]:
        """The next things that time brings, by their time."""
        return await self._broker.call(Operations.next_deadlines, count)

    async def freeze(self) -> None:
        """Stand still from now on: no transaction times out and no member is found dead, while somebody debugs."""
        for each in self._shared:
            await each._broker.call(Operations.freeze_clock)

    async def flow(self, rate: float = 1.0) -> None:
        """Flow with real time, or 0.1 to 100 times as fast. Raises LabError."""
        for each in self._shared:
            await each._broker.call(Operations.flow_clock, rate)

    async def jump_wall(self, ms: int) -> None:
        """Set the time of day forward, and move no timer, as NTP does. Raises LabError."""
        for each in self._shared:
            await each._broker.call(Operations.jump_wall, ms)

    async def share(self, other: "AsyncBrokerClock") -> None:
        """Make this and another broker's clock one: the earlier one advances to the later one, and whatever is done to
        one of them from now on is done to the other, first to this one. Raises LabError."""
        joined = _joined(self, other)
        rate = (await self._broker.call(Operations.clock_state)).rate
        for each in joined:
            each._shared = joined
        await self.freeze()
        states = [await each._broker.call(Operations.clock_state) for each in joined]
        for each, behind_ms in zip(joined, _behind_ms(states), strict=True):
            await each._broker.call(Operations.advance, behind_ms, False)
        if rate:
            await self.flow(rate)


def total_ms(*, ms: float, seconds: float, minutes: float, hours: float, days: float) -> float:
    """The time of a jump in ms."""
    return ms + 1000 * (seconds + 60 * (minutes + 60 * (hours + 24 * days)))


def checked_deadline(deadline: int | None) -> int:
    """The deadline. Raises LabError where nothing is due."""
    if deadline is None:
        raise LabError("nothing is due: there is no open transaction, or it has no deadline")
    return deadline


def _joined(one: _Clock, other: _Clock) -> list[_Clock]:
    """The clocks that move together when these do. Raises LabError unless both are clocks of the same kind."""
    if type(one) is not type(other):
        raise LabError(
            f"{type(one).__name__}.share needs another {type(one).__name__}, not {type(other).__name__}:"
            " clock.share(other.clock)"
        )
    return one._shared + [each for each in other._shared if each not in one._shared]


def _behind_ms(states: Sequence[ClockState]) -> list[float]:
    """The time by which each clock is behind the one that is furthest."""
    latest_ms = math.ceil(max(each.precise_ms for each in states))
    return [latest_ms - each.precise_ms for each in states]
