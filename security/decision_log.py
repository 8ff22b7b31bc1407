"""The log of decisions, logger `eosin.authorizer`: who was refused what, and why (security.md 4.9).

Denials are told at INFO, those that a rule calls quiet and all grants at DEBUG. Always true: equal denials have one
line in 10 seconds, and the next one counts what was left out; a principal and address has a bounded number of
lines in a second, and a user who has logged in, from wherever, in ten, and then one with the count (`LogBudget`), for
one request may name 200,000 groups; what is left out costs neither a line nor an explanation; what is kept is bounded
in bytes. What peers sent is escaped, so that none of them can forge a line.
"""

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Final

from eosin.model.address_group import address_group
from eosin.model.principals import ANONYMOUS
from eosin.model.resources import Operation, ResourceType
from eosin.runtime.log_budget import LogBudget
from eosin.runtime.logging_format import fields, shown

if TYPE_CHECKING:
    from eosin.runtime.clock import Clock
    from eosin.security.authorizer import AccessDecision
    from eosin.security.session import Session

log: Final = logging.getLogger("eosin.authorizer")

SAME_DENIAL_MS: Final = 10_000
"""For so long an equal denial is only counted."""
LINES_OF_USER: Final = 40
"""Of a user who has logged in, from all its addresses, in `SAME_DENIAL_MS`."""
MAX_KINDS: Final = 1000
"""Denials that are told apart."""
KEPT_CHARS: Final = 256
"""Of the name of a resource: longer ones that begin alike count as equal. No line holds more of it."""

Explain = Callable[[Operation, ResourceType, str, str, str], "AccessDecision"]
"""The decision about an operation, a resource type, a name, a principal and a host, with its reason."""


class LoggedDecisions:
    """Writes what an authorizer has decided: each denial, and what is allowed where `grants()`."""

    def __init__(self, clock: "Clock", explain: Explain) -> None:
        self._clock = clock
        self._explain = explain
        self.grants: Final = partial(log.isEnabledFor, logging.DEBUG)
        """Tells whether grants are told; each decision asks, and this is the fewest calls."""
        self._last: dict[tuple[object, ...], list[int]] = {}
        """The time at which each kind of denial was logged last, and the number left out since."""
        self._budget = LogBudget(clock, _log_left_out)
        self._of_user = LogBudget(clock, _log_left_out, lines=LINES_OF_USER, window_ms=SAME_DENIAL_MS)

    @property
    def kinds(self) -> Collection[tuple[object, ...]]:
        """The denials that are told apart."""
        return self._last.keys()

    @property
    def floods(self) -> int:
        """Number of principals and addresses that are counted."""
        return len(self._budget)

    def allowed(self, session: "Session", operation: Operation, kind: ResourceType, name: str) -> None:
        """Tell of a grant."""
        self._log(logging.DEBUG, "allowed", session, operation, kind, name)

    def denied(self, session: "Session", operation: Operation, kind: ResourceType, name: str, *, quiet: bool) -> None:
        """Tell of a denial, unless an equal one was told just now."""
        level = logging.DEBUG if quiet else logging.INFO
        if not log.isEnabledFor(level):
            return
        now_ms = self._clock.elapsed_ms()
        same = session.principal, session.host, session.api, operation, kind, name[:KEPT_CHARS], quiet
        last = self._last.get(same)
        if last is not None and now_ms - last[0] < SAME_DENIAL_MS:
            last[1] += 1
            return
        if not self._has_a_line(session):
            return
        left_out = 0 if last is None else last[1]
        if last is None and len(self._last) >= MAX_KINDS:
            self._forget(now_ms)
        self._last[same] = [now_ms, 0]
        self._log(level, "denied", session, operation, kind, name, left_out=left_out)

    def _has_a_line(self, session: "Session") -> bool:
        """Count a line of an address, and of a user with all its addresses. An address of a user who has no lines left
        is not counted: it would have a line with its count."""
        user = session.principal
        is_known = user != ANONYMOUS
        if is_known and self._of_user.is_spent(user):
            return self._of_user.allows(user, session)
        if not self._budget.allows((user, address_group(session.host)), session):
            return False
        return not is_known or self._of_user.allows(user, session)

    def _forget(self, now_ms: int) -> None:
        """Make room: what is over goes, or else the oldest."""
        self._last = {same: last for same, last in self._last.items() if now_ms - last[0] < SAME_DENIAL_MS}
        while len(self._last) >= MAX_KINDS:
            del self._last[next(iter(self._last))]

    def _log(
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


def _log_left_out(session: "Session", left_out: int) -> None:
    facts: dict[str, object] = {
        "principal": shown(session.principal),
        "host": session.host,
        "listener": session.listener,
        "api": session.api,
        "client_id": shown(session.client_id),
        "left_out": left_out,
    }
    log.info("denied more", extra=fields(**facts))
