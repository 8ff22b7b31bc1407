"""A wait that gives up says what it waited for (`support/waiting.py`)."""

import asyncio

import pytest
import waiting
from waiting import until, wait_until


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "HANG_S", 0.01)


def test_a_wait_answers_with_what_came() -> None:
    answers = iter((None, 0, "", "it"))
    assert wait_until(lambda: next(answers), every_s=0) == "it"


@pytest.mark.usefixtures("impatient")
def test_a_wait_that_gives_up_shows_its_line_and_what_was_wrong() -> None:
    with pytest.raises(AssertionError, match=r"still not so: wait_until\(lambda: 6 \* 9 == 42, lambda: 6 \* 9\)\n54$"):
        wait_until(lambda: 6 * 9 == 42, lambda: 6 * 9)


@pytest.mark.usefixtures("impatient")
async def test_an_async_wait_gives_up_on_a_question_that_is_never_answered() -> None:
    async def never() -> bool:
        return await asyncio.Future[bool]()

    with pytest.raises(AssertionError, match=r"still not so: async def never\(\) -> bool:\nnobody answers$"):
        await until(never, "nobody answers")


async def test_a_timeout_of_the_question_is_its_own() -> None:
    async def fails() -> bool:
        raise TimeoutError("of a client")

    with pytest.raises(TimeoutError, match="of a client"):
        await until(fails)


async def test_an_async_wait_lets_others_work() -> None:
    done: list[int] = []
    asyncio.get_running_loop().call_later(0.001, done.append, 1)
    await until(lambda: done)
