"""`advance`: moves a `LabClock` as if its time had passed, without waiting for it.

Always true: timers are called in the order of their due times, each at its own moment and with the broker idle before
and after it; a round of periodic work is done once, at the end of the jump, however often it came due; whatever is
scheduled for later keeps its distance to the new time.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol

from eosin.lab.clock.lab_clock import ClockError, LabClock
from eosin.lab.clock.timeline import LabTimer, Timeline

MOST_ROUNDS: Final = 10
"""Number of times that rounds of periodic work may come due within one jump."""
MOST_CALLS: Final = 100_000
"""Of the timers of one name, within one jump."""


class Called(NamedTuple):
    """One timer that was called."""

    name: str
    at_ms: int
    """The time of day at which it was called."""
    is_round: bool


class UntilIdle(Protocol):
    """Waits until the broker has nothing to do."""

    def __call__(self, first: Callable[[], None] | None = None) -> Awaitable[None]:
        """Call `first`, as the event loop would in a turn of it, and wait."""


async def advance(clock: LabClock, by_ms: float, *, sessions: bool, idle: UntilIdle) -> list[Called]:
    """Jump ahead; the timers that were called, in order. `sessions`: the members of groups live through it too. Raises
    ClockError."""
    lines = (clock.line, clock.session_line) if sessions else (clock.line,)
    real_ms = clock.real_ms()
    for line in lines:
        line.hold()
    jump = _Jump(clock, lines, by_ms, idle)
    try:
        await jump.run()
    finally:
        for line in lines:
            line.release()
        clock.note_move(real_ms)
    await clock.passed(real_ms)
    return jump.called


class _Jump:
    """One jump of timelines that are held."""

    def __init__(self, clock: LabClock, lines: tuple[Timeline, ...], by_ms: float, idle: UntilIdle) -> None:
        self.called: list[Called] = []
        self._clock = clock
        self._starts = {line: line.now_ms for line in lines}
        self._by_ms = by_ms
        self._idle = idle
        self._calls: Counter[str] = Counter()

    async def run(self) -> None:
        await self._idle()
        for _ in range(MOST_ROUNDS + 1):
            await self._step_through()
            self._move(self._by_ms)
            rounds = sorted(
                ((each.due_ms - start, each) for line, start in self._starts.items() for each in self._due(line)),
                key=lambda pair: pair[0],
            )
            if not rounds:
                return
            for _, timer in rounds:
                await self._call(timer, is_round=True)
        raise ClockError(f"{timer.name} comes due again and again at the same time: its interval is 0")

    async def _step_through(self) -> None:
        """Call each timer that is not periodic at its moment."""
        while (found := self._next()) is not None:
            after_ms, line, timer = found
            self._move(after_ms)
            line.remove(timer)
            await self._call(timer, is_round=False)

    def _next(self) -> tuple[float, Timeline, LabTimer] | None:
        """The next timer that is due, and how long after the beginning."""
        found = None
        for line, start in self._starts.items():
            timer = line.next_call()
            if timer is None or (after_ms := timer.due_ms - start) > self._by_ms:
                continue
            if found is None or after_ms < found[0]:
                found = after_ms, line, timer
        return found

    def _due(self, line: Timeline) -> list[LabTimer]:
        return line.remove_rounds(self._starts[line] + self._by_ms)

    def _move(self, after_ms: float) -> None:
        for line, start in self._starts.items():
            line.move_to(start + after_ms)

    async def _call(self, timer: LabTimer, *, is_round: bool) -> None:
        name = timer.name
        if timer.callback is None:  # cancelled by what came before it
            return
        self._calls[name] += 1
        if self._calls[name] > MOST_CALLS:
            raise ClockError(
                f"{name} came due {MOST_CALLS} times in one jump: it starts itself again; advance by less, or make its"
                " interval longer"
            )
        self.called.append(Called(name, self._clock.now_ms(), is_round))
        await self._idle(timer.call)
