"""Background work under supervision: retention, checkpoints, expiry scans.

Always true: a failure in background work is logged and ends that round of it, never the broker; a lasting error of the
system (a full disk) is logged when it begins, once a minute and when it ends; and nothing outlives `stop`. This is one
of the two places that may catch Exception; the other is the connection's edge.

Work that often has nothing to do comes with a `Rest`, so that a broker at rest is not woken for it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from eosin.runtime.clock import Clock

if TYPE_CHECKING:
    from eosin.runtime.loop_watch import LoopWatch

log = logging.getLogger(__name__)

Work = Callable[[], Awaitable[object] | object]
"""One round of work; what it returns is awaited when it can be, and otherwise ignored."""


TELL_INTERVAL_MS: Final = 60_000
"""Interval between log lines about work that goes on failing."""
LONGEST_REST_MS: Final = 10_000
"""A rest ends by itself after this: work whose maker forgot to end it waits so long, and not for ever."""


class Rest:
    """The time in which rounds of work are left out, since there is nothing to do."""

    __slots__ = ("_ended", "_idle_ms")

    def __init__(self, idle_ms: Callable[[], float]) -> None:
        """`idle_ms` returns how long, in ms, there will be nothing to do unless `end` is called; 0 if there is
        something to do now."""
        self._idle_ms = idle_ms
        self._ended: asyncio.Future[bool] | None = None
        """Set while rounds are left out; its result is True when somebody has ended the rest."""

    def end(self) -> None:
        """There is something to do: the next round comes after the usual interval. May be called in any thread."""
        ended, self._ended = self._ended, None
        if ended is not None:
            with contextlib.suppress(RuntimeError):  # the event loop has ended
                ended.get_loop().call_soon_threadsafe(_set, ended, True)

    async def next_round(self, interval_ms: float, clock: Clock) -> None:
        """Wait until the next round is due: `interval_ms` from now, if there is something to do, or from the call of
        `end`; else when there may be something to do."""
        ended = self._ended = asyncio.get_running_loop().create_future()
        # Asked only now: what another thread makes from here on ends this rest.
        left_ms = min(self._idle_ms(), LONGEST_REST_MS)
        if left_ms > interval_ms:
            timer = clock.call_later(left_ms, partial(_set, ended, False), periodic=True)
            try:
                was_ended = await ended
            finally:
                timer.cancel()
                self._ended = None
            if not was_ended:
                return
        self._ended = None
        await clock.sleep(interval_ms, periodic=True)


def _set(ended: "asyncio.Future[bool]", value: bool) -> None:
    if not ended.done():
        ended.set_result(value)


@dataclass(slots=True)
class _Failing:
    told_ms: int
    rounds: int = 0
    """Number of rounds that have failed since then."""


class Background:
    """The tasks of one broker that no caller waits for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._failing: dict[str, _Failing] = {}
        self.begun = 0
        """Number of rounds that have begun."""
        self.ended = 0
        """Number of those that have ended."""
        self.watch: LoopWatch | None = None
        """Is told how long each step took, where somebody wants to know."""

    def every(
        self,
        interval_ms: int,
        name: str,
        work: Work,
        *,
        clock: Clock | None = None,
        rest: Rest | None = None,
        latest_ms: int | None = None,
    ) -> None:
        """Do `work` again and again, `interval_ms` after the end of the last round, until `stop`. One round after a
        long time must do what many would have done. `clock`: instead of that of this object. During `rest` there is
        no round, nor one where the process stood still, more than `latest_ms` after the one before."""
        self._start(name, self._repeat(interval_ms, name, work, clock or self._clock, rest, latest_ms))

    def once(self, name: str, work: Work) -> None:
        """Do `work` once, while the caller goes on."""
        self._start(name, self._round(name, work))

    async def stop(self) -> None:
        """Cancel everything and wait until it is gone."""
        if self.watch is not None:
            self.watch.end()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, name: str, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks[task] = name
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]

    async def _repeat(
        self, interval_ms: int, name: str, work: Work, clock: Clock, rest: Rest | None, latest_ms: int | None
    ) -> None:
        while True:
            since_ms = clock.elapsed_ms()
            if rest is None:
                await clock.sleep(interval_ms, periodic=True)
            else:
                await rest.next_round(interval_ms, clock)
            if latest_ms is None or clock.elapsed_ms() - since_ms <= latest_ms:
                await self._round(name, work)

    async def _round(self, name: str, work: Work) -> None:
        self.begun += 1
        try:
            began_ms = self._clock.elapsed_ms()
            result = work()
            if self.watch is not None:
                self.watch.worked(name, self._clock.elapsed_ms() - began_ms)
            if isinstance(result, Awaitable):
                await (result if self.watch is None else _Watched(name, result, self.watch, self._clock))
        except OSError as error:
            self._failed(name, error)
        except Exception:
            log.exception("%s failed; the broker goes on", name)
        else:
            if self._failing.pop(name, None) is not None:
                log.info("%s: it works again", name)
        finally:
            self.ended += 1

    def _failed(self, name: str, error: OSError) -> None:
        now_ms = self._clock.elapsed_ms()
        failing = self._failing.get(name)
        if failing is None:
            self._failing[name] = _Failing(now_ms)
            log.error("%s failed; the broker goes on: %s", name, error)
            return
        failing.rounds += 1
        if now_ms - failing.told_ms >= TELL_INTERVAL_MS:
            log.error("%s failed %d more times; the broker goes on: %s", name, failing.rounds, error)
            self._failing[name] = _Failing(now_ms)


class _Watched(Generator[Any, Any, Any]):
    """Awaits `work`, and tells how long each of its steps took."""

    def __init__(self, name: str, work: Awaitable[object], watch: "LoopWatch", clock: Clock) -> None:
        self._name = name
        self._steps = work.__await__()
        self._watch = watch
        self._clock = clock

    def __await__(self) -> Generator[Any, Any, Any]:
        return self

    def send(self, value: Any) -> Any:
        began_ms = self._clock.elapsed_ms()
        try:
            return next(self._steps)
        finally:
            self._watch.worked(self._name, self._clock.elapsed_ms() - began_ms)

    def throw(self, *error: Any) -> Any:
        began_ms = self._clock.elapsed_ms()
        try:
            return self._steps.throw(*error)
        finally:
            self._watch.worked(self._name, self._clock.elapsed_ms() - began_ms)
