"""Long walks over a broker are cut into slices, in the same places on every machine (console.md 4.1)."""

from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

from call_counter import counted

from eosin.observe.survey.slices import LOG, SLICE, Slices, in_slices
from eosin.observe.survey.survey import Survey


async def turns_of(work: Coroutine[Any, Any, None]) -> int:
    """The turns of the event loop that `work` takes."""
    return len((await counted(work))[1])


async def test_what_fits_into_a_slice_takes_no_turn_of_its_own() -> None:
    async def walk() -> None:
        assert [list(some) async for some in in_slices(range(SLICE - 1))] == [list(range(SLICE - 1))]

    assert await turns_of(walk()) == 1


async def test_everything_comes_once_and_in_order() -> None:
    async def walk() -> None:
        found = [each async for some in in_slices(range(10 * SLICE + 1), 2) for each in some]
        assert found == list(range(10 * SLICE + 1))

    assert await turns_of(walk()) == 21


async def test_rows_that_are_built_end_a_slice_sooner() -> None:
    async def walk() -> None:
        slices = Slices()
        for _ in range(100):
            await slices.worked(SLICE // 10)

    assert await turns_of(walk()) == 11


async def test_a_walk_over_a_hundred_thousand_logs_holds_nobody_up() -> None:
    """Each turn calls no more than a slice does, the first one with the list of all of them."""
    logs = list(range(100_000))
    survey = Survey(SimpleNamespace(partitions=SimpleNamespace(hosted_logs=lambda: list(logs))))  # type: ignore[arg-type]

    async def walk() -> None:
        async for some in survey.logs():
            for each in some:
                abs(each)  # type: ignore[arg-type]

    _, turns = await counted(walk())
    assert len(turns) == 100_000 // (SLICE // LOG) + 1
    assert max(turns) < 2 * SLICE
