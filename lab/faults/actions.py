"""The actions by name; `ACTIONS` is where other parts of the lab add theirs.

Always true: the answers of a connection leave in the order of its requests, so that an answer can be lost with its
connection or be withheld with all that follows, and never be skipped; and while a request waits, those behind it on its
connection wait as well, as they would in the network.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NoReturn

import msgspec

from eosin.lab.common.errors import LabError
from eosin.lab.faults.action import Action
from eosin.lab.faults.partial_errors import merged_in_part, refusal_of, replaced_in_part, without
from eosin.lab.faults.rules import ANSWER, HANDLED, POINTS, REQUEST, Match, error_named, match_in
from eosin.model.close_connection import CloseConnection
from eosin.network.link import FIN, RST, ClientLink
from eosin.network.request_hooks import RequestVerdict
from eosin.protocol.types import Message

if TYPE_CHECKING:
    from eosin.lab.faults.armed import ArmedRule, Firing
    from eosin.lab.faults.armed_rules import ArmedRules
    from eosin.lab.faults.matching import Arrival

_WAITS: Final = tuple(each for each in POINTS if each != "disk")
"""Points at which something may wait: a disk's call never does."""


class ErrorAction(Action, frozen=True, forbid_unknown_fields=True):
    """Not executed, or with `after` executed all the same, and answered with `code`: in the partitions that match, or
    with the scope `all` in the whole request."""

    POINTS: ClassVar[tuple[str, ...]] = (REQUEST, HANDLED)
    code: str
    after: bool = False
    scope: Literal["matched", "all"] = "matched"

    def __str__(self) -> str:
        return f"executed, then {self.code}" if self.after else self.code

    @property
    def default_point(self) -> str:
        return HANDLED if self.after else REQUEST

    def check(self) -> None:
        error_named(self.code)

    async def at_request(self, firing: Firing) -> RequestVerdict | None:
        error = error_named(self.code)
        fit = firing.fit
        if self.scope == "all" or fit.partitions is None:
            firing.rules.check_room(firing, refusal_of(firing.observed, error))
            return RequestVerdict(error=error)
        reduced = without(firing.observed, fit)
        if reduced is None:
            return RequestVerdict(error=error)
        firing.rules.change_response(firing, partial(merged_in_part, firing.observed, fit, error))
        return RequestVerdict(request=reduced)

    async def at_handled(self, firing: Firing, response: Any) -> Any:
        if response is None:
            return None
        error = error_named(self.code)
        if self.scope == "matched" and firing.fit.partitions is not None:
            return replaced_in_part(firing.observed, firing.fit, error, response)
        refusal = refusal_of(firing.observed, error)
        firing.rules.check_room(firing, refusal)
        return refusal


class _WaitingAction(Action, frozen=True, forbid_unknown_fields=True):
    """An action that waits, at any point."""

    POINTS: ClassVar[tuple[str, ...]] = _WAITS

    def wait(self, rules: ArmedRules, rule: ArmedRule) -> Coroutine[Any, Any, None]:
        """Wait for what it waits for."""
        raise NotImplementedError

    async def at_request(self, firing: Firing) -> RequestVerdict | None:
        await _behind_it_waits(firing, self.wait(firing.rules, firing.rule))
        return None

    async def at_handled(self, firing: Firing, response: Any) -> Any:
        await self.wait(firing.rules, firing.rule)
        return response

    def at_response(self, firing: Firing) -> None:
        link = firing.observed.link
        link.stall()
        firing.rules.spawn(_then_released(link, self.wait(firing.rules, firing.rule)))

    def inside(self, rules: ArmedRules, rule: ArmedRule, arrival: Arrival) -> Awaitable[None] | None:
        return self.wait(rules, rule)


class DelayAction(_WaitingAction, frozen=True, forbid_unknown_fields=True):
    """Waits so long, on real time; with `virtual` on the broker's clock."""

    ms: float
    virtual: bool = False

    def __str__(self) -> str:
        return f"{self.ms:g} ms later"

    def check(self) -> None:
        if self.ms < 0:
            raise LabError(f"a delay is 0 ms or more, not {self.ms:g}")

    async def wait(self, rules: ArmedRules, rule: ArmedRule) -> None:
        await rules.pause(self.ms, virtual=self.virtual)


class HoldAction(_WaitingAction, frozen=True, forbid_unknown_fields=True):
    """Waits until it is released; with `until` that happens by itself when so many wait."""

    name: str = ""
    until: int | None = None

    def __str__(self) -> str:
        return "held" if self.until is None else f"held until {self.until} wait"

    @property
    def default_times(self) -> int:
        return self.until or 1

    def check(self) -> None:
        if self.until is not None and self.until < 1:
            raise LabError(f"until is the number of requests that wait for each other, 1 or more, not {self.until}")

    def wants(self, rule: ArmedRule) -> bool:
        return not rule.is_released

    async def wait(self, rules: ArmedRules, rule: ArmedRule) -> None:
        await rule.hold(self.until)


class LoseAction(Action, frozen=True, forbid_unknown_fields=True):
    """Loses the `request`, which is not executed, or the `answer` to one that is. `how`: the connection is reset or
    ended, or stalls: what would leave it is withheld until the rule is released."""

    POINTS: ClassVar[tuple[str, ...]] = (REQUEST, HANDLED, ANSWER)
    what: Literal["request", "answer"]
    how: Literal["reset", "fin", "stall"] = "reset"

    def __str__(self) -> str:
        ends = {"reset": "connection reset", "fin": "connection ended", "stall": "connection stalled"}[self.how]
        return f"{self.what} lost, {ends}"

    @property
    def default_point(self) -> str:
        return REQUEST if self.what == "request" else ANSWER

    async def at_request(self, firing: Firing) -> RequestVerdict | None:
        link = firing.observed.link
        if self.how == "stall":
            await _behind_it_waits(firing, firing.rules.held_while_connected(firing.rule, link))
        _end(link, FIN if self.how == "fin" else RST)
        raise CloseConnection

    async def at_handled(self, firing: Firing, response: Any) -> Any:
        link = firing.observed.link
        if self.how == "stall":
            firing.rule.stall(link)
            return response
        _end(link, FIN if self.how == "fin" else RST)
        raise CloseConnection

    def at_response(self, firing: Firing) -> None:
        link = firing.observed.link
        if self.how == "stall":
            firing.rule.stall(link)
        else:
            _end(link, FIN if self.how == "fin" else RST)


class DuplicateAction(Action, frozen=True, forbid_unknown_fields=True):
    """Executed `n` times more, as the network would deliver it again; the first answer alone is sent. `elsewhere`: as
    from another connection, so that what follows on this one may overtake it."""

    POINTS: ClassVar[tuple[str, ...]] = (HANDLED,)
    n: int = 1
    gap_ms: float = 0
    elsewhere: bool = False

    def __str__(self) -> str:
        return f"executed {self.n + 1} times"

    def check(self) -> None:
        if self.n < 1 or self.gap_ms < 0:
            raise LabError("a duplicate is executed 1 time more or more often, after a gap of 0 ms or more")

    async def at_handled(self, firing: Firing, response: Any) -> Any:
        observed = firing.observed
        request = owned(observed.request)
        if not self.elsewhere:
            observed.link.hold()
        firing.rules.spawn(self._again(firing, request))
        return response

    async def _again(self, firing: Firing, request: Any) -> None:
        try:
            for _ in range(self.n):
                if self.gap_ms:
                    await firing.rules.pause(self.gap_ms)
                await firing.observed.execute(request, elsewhere=self.elsewhere)
        finally:
            if not self.elsewhere:
                firing.observed.link.go_on()


class ReorderAction(Action, frozen=True, forbid_unknown_fields=True):
    """Waits until a request that fits `behind` was executed, from whatever connection, at most so long."""

    behind: Match
    timeout_ms: float = 2000

    def __str__(self) -> str:
        return f"behind {self.behind}"

    def check(self) -> None:
        match_in(self.behind)

    async def at_request(self, firing: Firing) -> RequestVerdict | None:
        executed = firing.rules.executed(self.behind, firing.observed)
        await _behind_it_waits(firing, firing.rules.wait_for(executed, self.timeout_ms))
        return None


class DetourAction(Action, frozen=True, forbid_unknown_fields=True):
    """The network keeps the request: its connection is reset at once, and it is executed after one that fits `behind`,
    as from another connection; nobody gets its answer."""

    behind: Match

    def __str__(self) -> str:
        return f"a detour behind {self.behind}"

    def check(self) -> None:
        match_in(self.behind)

    async def at_request(self, firing: Firing) -> RequestVerdict | None:
        observed = firing.observed
        firing.rules.execute_behind(self.behind, partial(observed.execute, owned(observed.request), elsewhere=True))
        observed.link.close(RST)
        raise CloseConnection


class CloseAction(Action, frozen=True, forbid_unknown_fields=True):
    """Ends the connection, with `bytes` after so many of the answer."""

    POINTS: ClassVar[tuple[str, ...]] = (REQUEST, HANDLED, ANSWER)
    how: Literal["fin", "rst"] = "rst"
    bytes: int | None = None

    def __str__(self) -> str:
        after = "" if self.bytes is None else f" after {self.bytes} bytes of the answer"
        return f"connection closed ({self.how}){after}"

    @property
    def default_point(self) -> str:
        return REQUEST if self.bytes is None else ANSWER

    def check(self) -> None:
        if self.bytes is not None and self.bytes < 0:
            raise LabError(f"bytes are those of the answer that leave, 0 or more, not {self.bytes}")

    async def at_request(self, firing: Firing) -> RequestVerdict | None:
        _end(firing.observed.link, self.how)
        raise CloseConnection

    async def at_handled(self, firing: Firing, response: Any) -> Any:
        _end(firing.observed.link, self.how)
        raise CloseConnection

    def at_response(self, firing: Firing) -> None:
        link = firing.observed.link
        if self.bytes:
            link.stall()
            firing.rules.spawn(self._in_part(link, self.bytes))
        else:
            _end(link, self.how)

    async def _in_part(self, link: ClientLink, size_bytes: int) -> None:
        await link.let_out(size_bytes)
        _end(link, self.how)


class TrickleAction(Action, frozen=True, forbid_unknown_fields=True):
    """The answer leaves in pieces of so many `bytes`."""

    POINTS: ClassVar[tuple[str, ...]] = (ANSWER,)
    bytes: int
    every_ms: float

    def __str__(self) -> str:
        return f"{self.bytes} bytes of the answer each {self.every_ms:g} ms"

    def check(self) -> None:
        if self.bytes < 1 or self.every_ms < 0:
            raise LabError("an answer trickles by 1 byte or more, each 0 ms or more")

    def at_response(self, firing: Firing) -> None:
        firing.observed.link.stall()
        firing.rules.spawn(self._in_pieces(firing))

    async def _in_pieces(self, firing: Firing) -> None:
        link, left = firing.observed.link, firing.observed.response_bytes
        try:
            while left > 0 and (sent := await link.let_out(min(self.bytes, left))):
                left -= sent
                if left > 0:
                    await firing.rules.pause(self.every_ms)
        finally:
            link.release()


class ThrottleAction(Action, frozen=True, forbid_unknown_fields=True):
    """The answer has this `throttle_time_ms`, and the connection is not read for so long (KIP-219)."""

    ms: int

    def __str__(self) -> str:
        return f"throttled for {self.ms} ms"

    def check(self) -> None:
        if self.ms < 1:
            raise LabError(f"a client is throttled for 1 ms or more, not {self.ms}")

    async def at_request(self, firing: Firing) -> RequestVerdict | None:
        return RequestVerdict(throttle_time_ms=self.ms, pause_ms=self.ms)


class CrashAction(Action, frozen=True, forbid_unknown_fields=True):
    """The broker ends in the middle of it, `how` a process is killed or a machine loses its power, and starts again
    after so many ms of real time."""

    POINTS: ClassVar[tuple[str, ...]] = POINTS
    how: Literal["kill", "power"] = "kill"
    restart_after_ms: float = 0

    def __str__(self) -> str:
        later = f", back after {self.restart_after_ms:g} ms" if self.restart_after_ms else ""
        return f"crash ({self.how}){later}"

    def check(self) -> None:
        if self.restart_after_ms < 0:
            raise LabError(f"a broker comes back after 0 ms or more, not {self.restart_after_ms:g}")

    async def at_request(self, firing: Firing) -> RequestVerdict | None:
        self._crash(firing.rules)

    async def at_handled(self, firing: Firing, response: Any) -> Any:
        self._crash(firing.rules)

    def at_response(self, firing: Firing) -> None:
        self._crash(firing.rules)

    def inside(self, rules: ArmedRules, rule: ArmedRule, arrival: Arrival) -> Awaitable[None] | None:
        self._crash(rules)

    def _crash(self, rules: ArmedRules) -> NoReturn:
        rules.crash(self.how == "power", self.restart_after_ms)


class RewriteAction(Action, frozen=True, forbid_unknown_fields=True):
    """The answer is what a function of the test's returns."""

    POINTS: ClassVar[tuple[str, ...]] = (HANDLED,)

    def __str__(self) -> str:
        return "rewritten"

    @property
    def needs_function(self) -> bool:
        return True

    async def at_handled(self, firing: Firing, response: Any) -> Any:
        assert firing.rule.function is not None
        firing.observed.response = response
        changed = firing.rule.function(firing.observed)
        return response if changed is None else changed


class CallAction(Action, frozen=True, forbid_unknown_fields=True):
    """A function of the test's runs."""

    POINTS: ClassVar[tuple[str, ...]] = (REQUEST, HANDLED, ANSWER)

    def __str__(self) -> str:
        return "a function is called"

    @property
    def needs_function(self) -> bool:
        return True

    async def at_request(self, firing: Firing) -> RequestVerdict | None:
        await self._called(firing)
        return None

    async def at_handled(self, firing: Firing, response: Any) -> Any:
        firing.observed.response = response
        await self._called(firing)
        return response

    def at_response(self, firing: Firing) -> None:
        assert firing.rule.function is not None
        found = firing.rule.function(firing.observed)
        if inspect.isawaitable(found):
            firing.rules.spawn(_awaited(found))

    async def _called(self, firing: Firing) -> None:
        assert firing.rule.function is not None
        found = firing.rule.function(firing.observed)
        if inspect.isawaitable(found):
            await found


ACTIONS: Final[dict[str, type[Action]]] = {
    "error": ErrorAction,
    "delay": DelayAction,
    "hold": HoldAction,
    "lose": LoseAction,
    "duplicate": DuplicateAction,
    "reorder": ReorderAction,
    "detour": DetourAction,
    "close": CloseAction,
    "trickle": TrickleAction,
    "throttle": ThrottleAction,
    "crash": CrashAction,
    "rewrite": RewriteAction,
    "call": CallAction,
}
"""By the name that a rule has in `do`."""


def owned(part: Any) -> Any:
    """A request without views of a frame, whose memory is used again."""
    if isinstance(part, memoryview):
        return bytes(part)
    if isinstance(part, tuple):
        return tuple(map(owned, part))
    if isinstance(part, Message):
        names = part.__struct_fields__
        return msgspec.structs.replace(part, **{name: owned(getattr(part, name)) for name in names})
    return part


def _end(link: ClientLink, how: str) -> None:
    if how == RST:
        link.close("rst")
        return
    link.stall()  # what is not sent by now never is
    link.close("fin")


async def _behind_it_waits(firing: Firing, wait: Awaitable[None]) -> None:
    """Wait, while no later request of the connection begins."""
    firing.observed.link.hold()
    try:
        await wait
    finally:
        firing.observed.link.go_on()


async def _then_released(link: ClientLink, wait: Awaitable[None]) -> None:
    try:
        await wait
    finally:
        link.release()


async def _awaited(found: Awaitable[Any]) -> None:
    await found
