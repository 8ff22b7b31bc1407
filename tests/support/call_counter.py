"""Counts calls: a measure of work that says the same on every machine, whatever else it does."""

import sys
import types
from collections.abc import Coroutine, Generator
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar

_T = TypeVar("_T")


class CallCounter:
    """Within its context, counts what the thread calls: functions in Python and in C, and coroutines that go on."""

    def __init__(self) -> None:
        self.calls = 0

    def __enter__(self) -> Self:
        sys.setprofile(self._saw)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.setprofile(None)

    def _saw(self, frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            self.calls += 1


async def counted(work: Coroutine[Any, Any, _T]) -> tuple[_T, list[int]]:
    """The result of `work`, and how many calls it made in each of its turns of the event loop. Other tasks do not
    count, nor do those that it starts."""
    turns: list[int] = []
    return await _counted(work, turns), turns


@types.coroutine
def _counted(work: Coroutine[Any, Any, _T], turns: list[int]) -> Generator[Any, None, _T]:
    while True:
        with CallCounter() as counter:
            try:
                waits_for = work.send(None)
            except StopIteration as end:
                result: _T = end.value
                return result
            finally:
                turns.append(counter.calls)
        yield waits_for
