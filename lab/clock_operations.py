"""`ClockOperations`: the operations about time of one broker of the lab, in its event loop."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from eosin.lab.clock.lab_clock import ClockError, LabClock
from eosin.lab.clock.values import Advanced, ClockState, DeletedRecords, Due
from eosin.lab.common.errors import LabError, NotIdleError
from eosin.lab.history.occurrences import ADVANCE
from eosin.protocol.names import INTERNAL_TOPICS

if TYPE_CHECKING:
    from eosin.lab.clock.quiet import Quiet
    from eosin.lab.inside import Inside

PAST_MS: Final = 2
"""So long after a deadline everything that is due then has happened: a deadline is over when it has passed."""


class ClockOperations:
    """The part of `Operations` that has to do with time."""

    _jumping: asyncio.Lock | None = None

    def _inside_for(self, what: str) -> "Inside":
        """The broker itself. Raises NotToldError where it is not one of the lab."""
        raise NotImplementedError

    @property
    def _clock(self) -> LabClock:
        return self._inside_for("and moves its clock").clock

    @property
    def _quiet(self) -> "Quiet":
        return self._inside_for("when it is quiet").quiet

    async def clock_state(self) -> ClockState:
        """The time, and how it flows."""
        clock = self._clock
        return ClockState(clock.now_ms(), clock.precise_ms, clock.line.rate)

    async def advance(self, by_ms: float, sessions: bool) -> Advanced:
        """Jump ahead by so much."""
        from eosin.lab.clock.advancing import advance
        from eosin.lab.clock.upcoming import words_of

        if by_ms < 0:
            raise LabError(f"the clock never goes back: advance by 0 ms or more, not by {by_ms:g}")
        inside = self._inside_for("and moves its clock")
        if self._jumping is None:
            self._jumping = asyncio.Lock()
        async with self._jumping:
            if inside.recording is not None:
                inside.recording.record(ADVANCE, detail=f"{by_ms:g} ms")
            before, ended = inside.log_starts(), list[tuple[str, str]]()
            inside.on_outcome = lambda transactional_id, outcome: ended.append((transactional_id, outcome))
            try:
                with _lab_errors(), inside.marker_delay.skipped():
                    called = await advance(inside.clock, by_ms, sessions=sessions, idle=inside.quiet.idle)
            finally:
                inside.on_outcome = None
        return Advanced(
            fired=[Due(words_of(each.name), "", each.at_ms) for each in called if not each.is_round],
            rounds=[words_of(each.name) for each in called if each.is_round],
            aborted=[transactional_id for transactional_id, outcome in ended if outcome == "timeout"],
            expired=[transactional_id for transactional_id, outcome in ended if outcome == "expired"],
            deleted=[
                DeletedRecords(partition.topic, partition.partition, start)
                for partition, start in sorted(inside.log_starts().items())
                if start > before.get(partition, 0) and partition.topic not in INTERNAL_TOPICS
            ],
        )

    async def advance_to(self, at_ms: int, sessions: bool) -> Advanced:
        """Jump until everything has happened that is due at `at_ms`, in ms since the epoch."""
        by_ms = at_ms + PAST_MS - self._clock.now_ms()
        if by_ms < 0:
            raise LabError(f"the clock never goes back: {at_ms} was {PAST_MS - by_ms} ms ago")
        return await self.advance(by_ms, sessions)

    async def next_deadlines(self, count: int) -> list[Due]:
        """The next things that time brings, by their time."""
        from eosin.lab.clock.upcoming import upcoming

        inside = self._inside_for("what is due")
        return upcoming(inside.clock, inside.txns(), count)

    async def freeze_clock(self) -> None:
        """Let time stand still."""
        self._clock.freeze()

    async def flow_clock(self, rate: float) -> None:
        """Let time flow."""
        with _lab_errors():
            self._clock.flow(rate)

    async def jump_wall(self, by_ms: int) -> None:
        """Set the time of day forward, and move no timer."""
        clock = self._clock
        real_ms = clock.real_ms()
        with _lab_errors():
            clock.jump_wall(by_ms)
        await clock.passed(real_ms)

    async def settle(self, quiet_ms: float, timeout_ms: float) -> None:
        """Wait until the broker has nothing to do."""
        with _lab_errors():
            await self._quiet.settled(quiet_ms=quiet_ms, timeout_ms=timeout_ms)


@contextmanager
def _lab_errors() -> Iterator[None]:
    from eosin.lab.clock.quiet import BusyError

    try:
        yield
    except BusyError as error:
        raise NotIdleError(str(error)) from None
    except ClockError as error:
        raise LabError(str(error)) from None
