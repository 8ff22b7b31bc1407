"""The log of decisions, logger `eosin.authorizer`: who was refused what, and why (security.md 4.9).

Denials are told at INFO, those that a rule calls quiet and all grants at DEBUG. Always true: equal denials have one
line in 10 seconds, and the next one counts what was left out; a principal and address has at most `LINES_PER_WINDOW`
lines in a second, and then one with the count, for one request may name 200,000 groups; what is left out costs neither
a line nor an explanation; what is kept is bounded in bytes. What peers sent is escaped, so that none of them can forge
a line.
"""

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Final

from eosin.broker.connections.address_group import address_group
from eosin.broker.process.logging_format import fields
from eosin.broker.security.audit import shown
from eosin.broker.security.resources import Operation, ResourceType

if TYPE_CHECKING:
    from eosin.broker.security.authorizer import Decision
    from eosin.broker.security.session import Principal, Session
    from eosin.runtime.clock import Clock, Timer

log: Final = logging.getLogger("eosin.authorizer")

SAME_DENIAL_MS: Final = 10_000
"""For so long an equal denial is only counted."""
MAX_KINDS: Final = 1000
"""Denials that are told apart, and principals with addresses."""
KEPT_CHARS: Final = 256
"""Of the name of a resource: longer ones that begin alike count as equal. No line holds more of it."""
LINES_PER_WINDOW: Final = 20
"""Of one principal and address."""
WINDOW_MS: Final = 1000
"""A window that begins while denials of the one before were left out has no lines but their count."""

Explain = Callable[[Operation, ResourceType, str, str, str], "Decision"]
"""The decision about an operation, a resource type, a name, a principal and a host, with its reason."""


class _Flood:
    """The denials of one principal and address in the current window."""

    __slots__ = ("began_ms", "last", "left_out", "lines")

    def __init__(self, now_ms: int) -> None:
        self.began_ms = now_ms
        self.lines = LINES_PER_WINDOW
        """What it may still have."""
        self.left_out = 0
        self.last: "Session | None" = None
        """Who asked for what was left out last."""


class LoggedDecisions:
    """Implements `eosin.broker.security.authorizer.DecisionLog`."""

    def __init__(self, clock: "Clock", explain: Explain) -> None:
        self._clock = clock
        self._explain = explain
        self.grants: Final = partial(log.isEnabledFor, logging.DEBUG)
        """Tells whether grants are told; each decision asks, and this is the fewest calls."""
        self._last: dict[tuple[object, ...], list[int]] = {}
        """When each kind of denial was told last, and how many were left out since."""
        self._floods: "dict[tuple[Principal, str], _Flood]" = {}
        self._look: "Timer | None" = None
        """Ends windows, while there are any."""

    @property
    def kinds(self) -> Collection[tuple[object, ...]]:
        """The denials that are told apart."""
        return self._last.keys()

    @property
    def floods(self) -> int:
        """How many principals and addresses are counted."""
        return len(self._floods)

    def allowed(self, session: "Session", operation: Operation, kind: ResourceType, name: str) -> None:
        """Tell of a grant."""
        self._tell(logging.DEBUG, "allowed", session, operation, kind, name)

    def denied(self, session: "Session", operation: Operation, kind: ResourceType, name: str, *, quiet: bool) -> None:
        """Tell of a denial, unless an equal one was told just now."""
        level = logging.DEBUG if quiet else logging.INFO
        if not log.isEnabledFor(level):
            return
        now_ms = self._clock.elapsed_ms()
        flood = self._flood_of(session, now_ms)
        if not flood.lines:
            flood.left_out += 1
            flood.last = session
            return
        same = session.principal, session.host, session.api, operation, kind, name[:KEPT_CHARS], quiet
        last = self._last.get(same)
        if last is not None and now_ms - last[0] < SAME_DENIAL_MS:
            last[1] += 1
            return
        left_out = 0 if last is None else last[1]
        if last is None and len(self._last) >= MAX_KINDS:
            self._forget(now_ms)
        self._last[same] = [now_ms, 0]
        flood.lines -= 1
        self._tell(level, "denied", session, operation, kind, name, left_out=left_out)

    def _flood_of(self, session: "Session", now_ms: int) -> _Flood:
        key = session.principal, address_group(session.host)
        flood = self._floods.get(key)
        if flood is None:
            if len(self._floods) >= MAX_KINDS:
                _tell_left_out(self._floods.pop(next(iter(self._floods))))
            flood = self._floods[key] = _Flood(now_ms)
            if self._look is None:
                self._look = self._clock.call_later(WINDOW_MS, self._end_windows)
        return flood

    def _end_windows(self) -> None:
        """Tell what was left out. Whoever went too far has no lines in the next window; who did not is forgotten."""
        now_ms = self._clock.elapsed_ms()
        next_ms = WINDOW_MS
        for key, flood in list(self._floods.items()):
            left_ms = flood.began_ms + WINDOW_MS - now_ms
            if left_ms > 0:
                next_ms = min(next_ms, left_ms)
                continue
            _tell_left_out(flood)
            if flood.left_out:
                flood.began_ms, flood.left_out, flood.lines = now_ms, 0, 0
            else:
                del self._floods[key]
        self._look = self._clock.call_later(next_ms, self._end_windows) if self._floods else None

    def _forget(self, now_ms: int) -> None:
        """Make room: what is over goes, or else the oldest."""
        self._last = {same: last for same, last in self._last.items() if now_ms - last[0] < SAME_DENIAL_MS}
        while len(self._last) >= MAX_KINDS:
            del self._last[next(iter(self._last))]

    def _tell(
        self,
        level: int,
        verdict: str,
        session: "Session",
        operation: Operation,
        kind: ResourceType,
        name: str,
        *,
        left_out: int = 0,
    ) -> None:
        decision = self._explain(operation, kind, name, str(session.principal), session.host)
        facts: dict[str, object] = {
            "principal": shown(session.principal),
            "operation": operation.name,
            "resource_type": kind.name,
            "resource": shown(name),
            "host": session.host,
            "listener": session.listener,
            "api": session.api,
            "client_id": shown(session.client_id),
            "rule": shown(decision.rule),
        }
        if left_out:
            facts["left_out"] = left_out
        log.log(level, verdict, extra=fields(**facts))


def _tell_left_out(flood: _Flood) -> None:
    session = flood.last
    if not flood.left_out or session is None:
        return
    facts: dict[str, object] = {
        "principal": shown(session.principal),
        "host": session.host,
        "listener": session.listener,
        "api": session.api,
        "client_id": shown(session.client_id),
        "left_out": flood.left_out,
    }
    log.info("denied more", extra=fields(**facts))
