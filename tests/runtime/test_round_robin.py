"""Turns between those who ask for the same thing."""

import asyncio

from waiting import HANG_S, settled

from eosin.runtime.round_robin import RoundRobin


class Askers:
    """Some who ask, each of whom has its turn until the test ends it."""

    def __init__(self) -> None:
        self.turns = RoundRobin()
        self.order: list[str] = []
        self._end: asyncio.Event | None = None

    async def _have(self, owner: str, name: str) -> None:
        async with self.turns.turn(owner):
            assert self._end is None
            self._end = asyncio.Event()
            self.order.append(name)
            await self._end.wait()
            self._end = None

    def ask(self, owner: str, name: str) -> "asyncio.Task[None]":
        return asyncio.create_task(self._have(owner, name))

    async def end_one(self) -> None:
        await settled()
        assert self._end is not None
        self._end.set()
        await settled()


async def test_who_asks_once_waits_for_one_turn_of_who_asks_often() -> None:
    askers = Askers()
    tasks = [
        askers.ask(owner, f"{owner}{index}")
        for owner, count in (("a", 4), ("b", 2), ("c", 1))
        for index in range(count)
    ]
    for _ in range(7):
        await askers.end_one()
    await asyncio.gather(*tasks)
    assert askers.order == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]


async def test_who_gives_up_has_no_turn_and_keeps_nobody_from_one() -> None:
    askers = Askers()
    tasks = [askers.ask(owner, owner) for owner in "abcd"]
    await settled()
    tasks[1].cancel()
    await settled()
    await askers.end_one()
    tasks[2].cancel()  # in its turn
    await settled()
    askers._end = None
    assert askers.order == ["a", "c"]
    await asyncio.gather(tasks[0], *tasks[1:3], return_exceptions=True)


async def test_a_turn_that_comes_in_the_moment_of_giving_up_goes_to_the_next() -> None:
    turns = RoundRobin()
    order: list[str] = []

    async def have(owner: str) -> None:
        async with turns.turn(owner):
            order.append(owner)
            await asyncio.sleep(0)
        if owner == "a":
            second.cancel()  # it has been given the turn, and does not know yet

    first, second, third = (asyncio.create_task(have(owner)) for owner in "abc")
    await asyncio.gather(first, second, third, return_exceptions=True)
    assert order == ["a", "c"]
    async with turns.turn("a"):
        assert second.cancelled()


async def test_turns_go_on_whenever_some_who_wait_are_cancelled_with_the_one_who_has_it() -> None:
    """All of one iteration of the loop: those who wait are cancelled first, then the turn ends before they run."""
    turns = RoundRobin()
    entered: list[str] = []
    stop = asyncio.Event()

    async def have(owner: str) -> None:
        async with turns.turn(owner):
            entered.append(owner)
            await stop.wait()

    first = asyncio.create_task(have("a"))
    await settled()
    waiting = [asyncio.create_task(have(owner)) for owner in "bcb"]
    await settled()
    stop.set()  # the first one runs before what is cancelled behind it
    for task in waiting[:2]:
        task.cancel()
    await asyncio.gather(first, *waiting, return_exceptions=True)
    assert entered == ["a", "b"]
    async with asyncio.timeout(HANG_S), turns.turn("d"):
        pass


async def test_some_have_turns_at_once_and_nobody_has_two() -> None:
    turns = RoundRobin(2)
    now: list[str] = []
    order: list[str] = []
    ends = {name: asyncio.Event() for name in ("a0", "a1", "b0", "c0", "c1")}

    async def have(name: str) -> None:
        async with turns.turn(name[0]):
            now.append(name)
            order.append(name)
            await ends[name].wait()
            now.remove(name)

    tasks = [asyncio.create_task(have(name)) for name in ends]
    await settled()
    assert now == ["a0", "b0"], "the second place is not for the one who has the first"
    ends["a0"].set()
    await settled()
    assert now == ["b0", "c0"]
    ends["b0"].set()
    await settled()
    assert now == ["c0", "a1"]
    ends["a1"].set()
    await settled()
    assert now == ["c0"], "the place that is free is not for the one who has the other"
    for each in ends.values():
        each.set()
    await asyncio.gather(*tasks)
    assert order == ["a0", "b0", "c0", "a1", "c1"]
    async with asyncio.timeout(HANG_S), turns.turn("d"), turns.turn("e"):
        pass
