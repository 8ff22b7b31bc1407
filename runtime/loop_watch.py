"""`LoopWatch`: knows when the event loop has stood still, for how long and for whom (security.md 6.2), since everybody
waits for it, and in a cluster heartbeats and fetches of replicas too (cluster.md 2.10).

Always true: nobody is blamed for a time in which the loop's thread did not work, since then the process or the machine
was paused; whoever is named ran for longer than `STALL_MS` without a break, as seen by whoever began it; there are two
lines in `TELL_INTERVAL_MS` at most.

An idle loop is looked at less often, so that the watch alone does not wake it: nobody waits for it then, and what
arrives wakes the watch before it is worked on.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from eosin.runtime.background import Background
from eosin.runtime.clock import NS_PER_MS, Clock, SystemClock, Timer, thread_cpu_ns
from eosin.runtime.logging_format import fields, shown

_LOG: Final = logging.getLogger(__name__)

CHECK_MS: Final = 100
"""Interval between two checks of the loop; the length of a pause is known up to so much."""
REST_MS: Final = 1000
"""The same while the loop is idle."""
STALL_MS: Final = 100
"""Work that lasts longer without a break is told, with its requester."""
PAUSE_MS: Final = 500
"""A longer pause of the process or the machine is told."""
TELL_INTERVAL_MS: Final = 10_000
"""The longest stall, and the longest pause, of so much time is told in one line, when it begins with one."""
KEPT: Final = 16
"""Stalls that are remembered."""
_LEAST_WORK: Final = 0.25
"""Of a stall, that the loop's thread worked; else it was a pause."""

REQUEST: Final = "request"
BACKGROUND: Final = "background"
OTHER: Final = "other"
PAUSE: Final = "pause"


class Step:
    """Something that ran, and on whose behalf."""

    __slots__ = ("api", "client_id", "ms", "peer", "principal", "size_bytes", "work")

    def __init__(
        self,
        ms: int,
        *,
        work: str = "",
        api: str = "",
        principal: object = "",
        client_id: str | None = None,
        peer: str = "",
        size_bytes: int = -1,
    ) -> None:
        """`work`: the name of background work, which has no client."""
        self.ms = ms
        self.work = work
        self.api = api
        self.principal = shown(principal)
        self.client_id = shown(client_id or "")
        self.peer = peer
        self.size_bytes = size_bytes
        """Of the request; -1 where that is not known."""


class Stall:
    """One time in which the loop stood still."""

    __slots__ = ("at_ms", "cause", "ms", "step", "worked_ms")

    def __init__(self, at_ms: int, ms: int, worked_ms: int, cause: str, step: Step | None) -> None:
        self.at_ms = at_ms
        """Time of its begin, by the wall clock."""
        self.ms = ms
        self.worked_ms = worked_ms
        """Of the loop's thread."""
        self.cause = cause
        self.step = step
        """The step that ran; of cause OTHER the request that ended last, if any; None of a pause."""


class LoopWatch:
    """Checks the loop each `CHECK_MS`, or `REST_MS`, and finds out that it was called late."""

    def __init__(self, clock: Clock, *, worked_ns: Callable[[], int] | None = None) -> None:
        """`worked_ns` reads how long the loop's thread has worked. In time that does not pass by itself it never
        does, so that a run goes the same way each time."""
        if worked_ns is None:
            worked_ns = thread_cpu_ns if isinstance(clock, SystemClock) else _never
        self._clock = clock
        self._read_worked_ns = worked_ns
        self._looked_ms = clock.elapsed_ms()
        self._worked_ns = worked_ns()
        self._interval_ms = CHECK_MS
        """From the last look to the next."""
        self._next: Timer | None = None
        self._may_rest = False
        self.is_resting = False
        """True while looks are `REST_MS` apart: whoever receives something calls `wake`."""
        self.since_ms = clock.now_ms()
        """Start of the counts."""
        self.is_looking = False
        """True if anybody calls `check`: only then is anything noted."""
        self.ended: Any = None
        """The context of the request that ended last since the last look: it is set and nothing else, since every
        request does it."""
        self.ended_api: Any = None
        """The API of it."""
        self._longest: Step | None = None
        """Since the last look."""
        self.counts = dict.fromkeys((REQUEST, BACKGROUND, OTHER, PAUSE), 0)
        """Stalls by cause."""
        self.longest: Stall | None = None
        """Of all that were no pause."""
        self.recent: deque[Stall] = deque(maxlen=KEPT)
        """The last ones, newest last."""
        self._pauses = _Untold(self._looked_ms)
        self._stalls = _Untold(self._looked_ms)

    def begin(self, background: Background, *, may_rest: bool = True) -> None:
        """Look from now on, until `end`. `may_rest`: less often while the loop is idle."""
        self.since_ms = self._clock.now_ms()
        self.is_looking = True
        self._may_rest = may_rest
        self._looked_ms, self._worked_ns = self._clock.elapsed_ms(), self._read_worked_ns()
        background.watch = self
        self._schedule(CHECK_MS)

    def end(self) -> None:
        """Look no more."""
        self.is_looking = self.is_resting = False
        if self._next is not None:
            self._next.cancel()

    def wake(self) -> None:
        """The loop, which was idle, has something to do: look each `CHECK_MS` again."""
        self.check()  # a loop that was paused may hear of its sockets before its timers
        self._schedule(CHECK_MS)

    def _schedule(self, interval_ms: int) -> None:
        if self._next is not None:
            self._next.cancel()
        self._interval_ms, self.is_resting = interval_ms, interval_ms == REST_MS
        self._next = self._clock.call_later(interval_ms, self._due, periodic=True)

    def _due(self) -> None:
        has_heard = self.ended is not None or self._longest is not None
        worked_ns = self._worked_ns
        try:
            self.check()
        finally:
            # Whatever stands still for `STALL_MS` and is no pause works for longer than an idle loop.
            is_idle = not has_heard and self._worked_ns - worked_ns < STALL_MS * NS_PER_MS * _LEAST_WORK
            self._schedule(REST_MS if self._may_rest and is_idle else CHECK_MS)

    def record(self, step: Step) -> None:
        """Something has run for more than `STALL_MS` without a break."""
        if self._longest is None or step.ms > self._longest.ms:
            self._longest = step

    def worked(self, name: str, ms: int) -> None:
        """A step of background work has run for so long."""
        if ms > STALL_MS:
            self.record(Step(ms, work=name))

    def check(self) -> None:
        """Note a stall since the last call, and tell of what was kept back."""
        now_ms, worked_ns = self._clock.elapsed_ms(), self._read_worked_ns()
        late_ms = now_ms - self._looked_ms - self._interval_ms
        worked_ms = (worked_ns - self._worked_ns) // NS_PER_MS
        self._looked_ms, self._worked_ns = now_ms, worked_ns
        step, self._longest = self._longest, None
        if step is not None or late_ms > STALL_MS:
            self._note(late_ms, worked_ms, step)
        self.ended = self.ended_api = None
        if (pause := self._pauses.due(now_ms)) is not None:
            _LOG.warning(
                "the event loop has stood still %d times, for up to %d ms: the process or the machine was paused, or"
                " is overloaded",
                *pause[:2],
            )
        if (stall := self._stalls.due(now_ms)) is not None:
            _log_stalls(*stall)

    def _note(self, late_ms: int, worked_ms: int, step: Step | None) -> None:
        ms = late_ms if step is None else max(late_ms, step.ms)
        at_ms = self._clock.now_ms() - ms
        if worked_ms < ms * _LEAST_WORK:
            stall = Stall(at_ms, ms, worked_ms, PAUSE, None)
            if ms > PAUSE_MS:
                self._pauses.add(stall)
        else:
            cause = OTHER if step is None else BACKGROUND if step.work else REQUEST
            stall = Stall(at_ms, ms, worked_ms, cause, self._ended() if step is None else step)
            self._stalls.add(stall)
            if self.longest is None or ms > self.longest.ms:
                self.longest = stall
        self.counts[stall.cause] += 1
        self.recent.append(stall)

    def _ended(self) -> Step | None:
        context = self.ended
        if context is None:
            return None
        principal, api = context.session.principal, self.ended_api.name
        return Step(0, api=api, principal=principal, client_id=context.client_id, peer=context.peer)


def _never() -> int:
    return 0


class _Untold:
    """The stalls that no log line has reported yet."""

    __slots__ = ("_count", "_longest", "_told_ms")

    def __init__(self, now_ms: int) -> None:
        self._told_ms = now_ms - TELL_INTERVAL_MS
        self._count = 0
        self._longest: Stall | None = None

    def add(self, stall: Stall) -> None:
        self._count += 1
        if self._longest is None or stall.ms > self._longest.ms:
            self._longest = stall

    def due(self, now_ms: int) -> tuple[int, int, Stall] | None:
        """The number of stalls, the time of the longest and the stall itself; None while nothing is to be reported."""
        if self._longest is None or now_ms - self._told_ms < TELL_INTERVAL_MS:
            return None
        found = self._count, self._longest.ms, self._longest
        self._told_ms, self._count, self._longest = now_ms, 0, None
        return found


def _log_stalls(count: int, ms: int, stall: Stall) -> None:
    step = stall.step
    facts: dict[str, Any] = {"ms": ms, "worked_ms": stall.worked_ms, "stalls": count}
    if step is not None and not step.work:
        facts |= {"api": step.api, "principal": step.principal, "client_id": step.client_id, "peer": step.peer}
        if step.size_bytes >= 0:
            facts["size_bytes"] = step.size_bytes
    if stall.cause == REQUEST:
        why = "one request ran for so long"
    elif stall.cause == BACKGROUND:
        why = "background work ran for so long: " + ("" if step is None else step.work)
    elif step is None:
        why = "no request of a client ran for so long"
    else:
        why = "no request ran for so long when it began, and this one ended last"
    _LOG.warning("a stall of the event loop, %s", why, extra=fields(**facts))
