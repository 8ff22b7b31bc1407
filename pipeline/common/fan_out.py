"""`FanOut` asks every task one question per round; a task that does not answer is left out, and the others go on.

Owns the questions in flight. Always true: a task has one question at a time; a round waits up to its patience for the
tasks that are not late, and beyond it only until the first answer; a later answer counts in a later round; and a
question that times out starts or checks its task's timer, which may end the run (KIP-572).
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Generic, TypeVar

from eosin.pipeline.common.task_timeouts import TaskTimeouts, is_timeout
from eosin.runtime.clock import Clock, SystemClock

PATIENCE_MS: Final = 1_000

T = TypeVar("T")
Question = Callable[[], Coroutine[Any, Any, T]]


class FanOut(Generic[T]):
    """Asks the tasks of one run. `close` cancels the questions in flight."""

    def __init__(self, timeouts: TaskTimeouts, *, patience_ms: int = PATIENCE_MS, clock: Clock | None = None) -> None:
        self._timeouts = timeouts
        self._patience_ms = patience_ms
        self._clock = clock or SystemClock()
        self._asked: dict[str, asyncio.Task[T]] = {}

    async def run(self, questions: Mapping[str, Question[T]]) -> dict[str, T]:
        """The answers of this round, by task. A round without an answer ends with a pause. Raises the error of a
        question at once, and its timeout only after the final attempt of the task."""
        for task in [each for each in self._asked if each not in questions]:
            self._asked.pop(task).cancel()
        for task, question in questions.items():
            if task not in self._asked:
                self._timeouts.is_final_attempt(task)
                self._asked[task] = asyncio.create_task(question())
        if not questions:
            return {}
        await self._wait()
        answers: dict[str, T] = {}
        for task in questions:
            if not self._asked[task].done():
                continue
            asked = self._asked.pop(task)
            error = asked.exception()
            if error is None:
                self._timeouts.on_success(task)
                answers[task] = asked.result()
            elif is_timeout(error):
                self._timeouts.on_timeout(task, error)
            else:
                raise error
        if not answers:
            await self._clock.sleep(self._timeouts.idle_backoff_ms())
        return answers

    async def _wait(self) -> None:
        prompt = [asked for task, asked in self._asked.items() if not self._timeouts.is_late(task)]
        if prompt:
            await asyncio.wait(prompt, timeout=self._patience_ms / 1000)
        if not any(asked.done() for asked in self._asked.values()):
            await asyncio.wait(self._asked.values(), return_when=asyncio.FIRST_COMPLETED)

    async def close(self) -> None:
        """Cancel the questions in flight."""
        asked = list(self._asked.values())
        self._asked.clear()
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
