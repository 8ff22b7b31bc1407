"""A queue of jobs takes a few steps of them in each turn of the event loop."""

import asyncio
import gc
import itertools
import weakref
from collections.abc import Iterator

from manual_clock import ManualClock

from eosin.runtime.turns import TURN_MS, SharedTurns, TurnQueue, next_turn


class Jobs:
    """A queue, and what was done."""

    def __init__(self, steps_per_turn: int, *, step_ms: float = 0, beside: "Jobs | None" = None) -> None:
        """`beside`: another queue with which this one shares its turns."""
        self.clock = ManualClock() if beside is None else beside.clock
        self.turns = SharedTurns(self.clock) if beside is None else beside.turns
        self.queue = TurnQueue(self.clock, steps_per_turn=steps_per_turn, turns=self.turns)
        self.done: list[str] = [] if beside is None else beside.done
        self._step_ms = step_ms

    def add(self, name: str, steps: int) -> None:
        self.queue.add(self._job(name, steps))

    def _job(self, name: str, steps: int) -> Iterator[None]:
        for _ in range(steps):
            self.done.append(name)
            self.clock.advance(self._step_ms)
            yield


async def test_steps_that_fit_into_a_turn_are_done_at_once() -> None:
    jobs = Jobs(4)
    jobs.add("a", 3)
    assert jobs.done == ["a"] * 3
    await jobs.queue.finished()


async def test_jobs_that_come_in_one_turn_share_its_steps() -> None:
    jobs = Jobs(4)
    for name in "abc":
        jobs.add(name, 3)
    counts = []
    while not counts or counts[-1] < 9:
        counts.append(len(jobs.done))
        await asyncio.sleep(0)
    assert max(later - earlier for earlier, later in zip([0, *counts], counts, strict=False)) <= 4
    assert jobs.done == ["a"] * 3 + ["b"] * 3 + ["c"] * 3


async def test_a_step_is_taken_at_once_only_while_the_turn_has_room_and_no_job_waits() -> None:
    jobs = Jobs(2)
    assert [jobs.queue.try_step() for _ in range(3)] == [True, True, False]
    jobs.add("a", 3)
    assert jobs.done == []
    await asyncio.sleep(0)
    assert jobs.done == ["a"] * 2
    assert not jobs.queue.try_step()
    await jobs.queue.finished()
    await asyncio.sleep(0)
    assert jobs.queue.try_step()


async def test_steps_that_take_long_end_a_turn_early() -> None:
    jobs = Jobs(100, step_ms=TURN_MS)
    jobs.add("a", 3)
    assert jobs.done == ["a"]
    await jobs.queue.finished()
    assert jobs.done == ["a"] * 3


async def of_turns(jobs: Jobs, steps: int) -> list[str]:
    """What is done in each turn of the loop, until it is so many steps."""
    turns, before = [], 0
    while before < steps:
        turns.append("".join(jobs.done[before:]))
        before = len(jobs.done)
        await asyncio.sleep(0)
    return turns


async def test_queues_that_share_turns_do_together_what_one_does_and_go_on_one_after_the_other() -> None:
    jobs = Jobs(4)
    for name in "abc":
        Jobs(4, beside=jobs).add(name, 8)
    turns = await of_turns(jobs, 24)
    assert max(map(len, turns)) == 4
    assert [each for each in turns if each][:4] == ["aaaa", "aaaa", "bbbb", "cccc"]


async def test_of_queues_with_steps_of_different_size_each_takes_its_part_of_a_turn() -> None:
    jobs = Jobs(10)
    jobs.add("a", 5)
    Jobs(2, beside=jobs).add("b", 4)
    assert [each for each in await of_turns(jobs, 9) if each] == ["aaaaab", "bb", "b"]


async def test_steps_that_take_long_end_the_turn_of_all_queues() -> None:
    jobs = Jobs(100, step_ms=TURN_MS)
    for name in "abc":
        Jobs(100, step_ms=TURN_MS, beside=jobs).add(name, 1)
    assert [each for each in await of_turns(jobs, 3) if each] == ["a", "b", "c"]


async def test_a_queue_whose_jobs_were_finished_meanwhile_takes_nobodys_turn() -> None:
    jobs = Jobs(1)
    other = Jobs(1, beside=jobs)
    jobs.add("a", 3)
    other.add("b", 3)
    jobs.queue.finish()
    await other.queue.finished()
    assert sorted(jobs.done) == ["a"] * 3 + ["b"] * 3


async def test_waiting_callers_are_woken_when_all_jobs_are_done() -> None:
    jobs = Jobs(1)
    jobs.add("a", 3)
    waiting = [asyncio.ensure_future(jobs.queue.finished()) for _ in range(2)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    jobs.add("b", 2)
    await waiting[1]
    assert jobs.done == ["a"] * 3 + ["b"] * 2
    await jobs.queue.finished()


async def test_the_remaining_jobs_can_be_finished_at_once() -> None:
    jobs = Jobs(1)
    jobs.add("a", 3)
    jobs.add("b", 1)
    jobs.queue.finish()
    assert jobs.done == ["a"] * 3 + ["b"]
    await asyncio.sleep(0)
    jobs.add("c", 1)
    assert jobs.done[-1] == "c"


async def test_of_all_work_in_turns_one_goes_on_in_each_turn_of_the_loop() -> None:
    ran: list[int] = []
    turns_with: list[int] = []
    loop = asyncio.get_running_loop()

    async def work(number: int) -> None:
        for _ in range(5):
            await next_turn()
            ran.append(number)

    def count() -> None:
        turns_with.append(len(ran))
        if len(ran) < 50:
            loop.call_soon(count)

    many = [asyncio.create_task(work(number)) for number in range(10)]
    loop.call_soon(count)
    await asyncio.gather(*many)
    assert max(later - earlier for earlier, later in itertools.pairwise(turns_with)) == 1
    assert ran == list(range(10)) * 5


async def test_work_that_is_cancelled_while_it_waits_for_its_turn_keeps_nobody_from_theirs() -> None:
    first, second = asyncio.create_task(next_turn()), asyncio.create_task(next_turn())
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert first.cancelled()


def test_a_loop_that_is_closed_is_not_kept() -> None:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(next_turn())
    loop.close()
    gone = weakref.ref(loop)
    del loop
    gc.collect()
    assert gone() is None


async def test_a_hundred_thousand_that_give_up_their_turns_keep_nobody_waiting() -> None:
    crowd = [asyncio.ensure_future(next_turn()) for _ in range(100_000)]
    mine = asyncio.ensure_future(next_turn())
    await asyncio.sleep(0)
    for each in crowd:
        each.cancel()
    turns = 0
    while not mine.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns <= 3
