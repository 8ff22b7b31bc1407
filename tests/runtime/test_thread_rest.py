"""Threads that compute side by side."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from eosin.runtime.thread_rest import GivenUp, ThreadRest, ThreadShares
from eosin.runtime.thread_turns import ThreadTurns

HANGS_S = 120


class Working:
    """A thread that takes one rest."""

    def __init__(self, rest: ThreadRest) -> None:
        self.outcome: list[str] = []
        self._thread = threading.Thread(target=self._take, args=(rest.rest,), daemon=True)
        self._thread.start()

    def _take(self, take: Callable[[], None]) -> None:
        try:
            take()
            self.outcome.append("went on")
        except GivenUp:
            self.outcome.append("given up")

    def ended(self) -> str:
        """Its outcome; waits for it."""
        self._thread.join(HANGS_S)
        return self.outcome[0]


def long_and_short() -> tuple[ThreadRest, ThreadRest]:
    """A piece that has rested ten times, and one that has rested once."""
    shares = ThreadShares()
    long, short = ThreadRest(shares), ThreadRest(shares)
    for _ in range(10):
        long.rest()
    short.rest()
    return long, short


def test_a_piece_that_has_worked_more_waits_until_the_other_one_has_worked_as_much() -> None:
    long, short = long_and_short()
    working = Working(long)
    for _ in range(9):
        short.rest()
    assert working.outcome == []
    short.rest()
    assert working.ended() == "went on"


def test_a_piece_that_has_ended_holds_up_nobody() -> None:
    long, short = long_and_short()
    working = Working(long)
    short.give_up()
    assert working.ended() == "went on"


def test_a_piece_that_waits_can_be_given_up() -> None:
    long, _ = long_and_short()
    working = Working(long)
    long.give_up()
    assert working.ended() == "given up"


def test_a_piece_that_was_given_up_before_its_first_rest_holds_up_nobody() -> None:
    shares = ThreadShares()
    gone, other = ThreadRest(shares), ThreadRest(shares)
    gone.give_up()
    with pytest.raises(GivenUp):
        gone.rest()
    for _ in range(3):
        other.rest()


async def test_a_short_piece_of_one_owner_ends_before_a_long_one_that_another_has_begun() -> None:
    turns = ThreadTurns()
    ended: list[str] = []
    begun = asyncio.Event()

    async def piece(owner: str, rests: int) -> None:
        loop = asyncio.get_running_loop()

        def work(take: Callable[[], None]) -> None:
            for number in range(rests):
                take()
                if number == 20:
                    loop.call_soon_threadsafe(begun.set)
            ended.append(owner)

        async with turns.turn(owner) as rest:
            await asyncio.to_thread(work, rest.rest)

    long = asyncio.create_task(piece("long", 1000))
    await begun.wait()
    await piece("short", 10)
    await long
    assert ended == ["short", "long"]
