"""`ArmedRule`: a rule that is armed: what it holds, how often it matched and fired, who waits for that. And `Firing`.

Always true: what a rule holds goes on when it is released, removed, or when the broker ends.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from eosin.lab.faults.counting import Counting
from eosin.lab.faults.matching import Fit
from eosin.lab.faults.rules import RuleText
from eosin.network.link import ClientLink
from eosin.network.request_hooks import ObservedRequest

if TYPE_CHECKING:
    from eosin.lab.faults.action import Action
    from eosin.lab.faults.armed_rules import ArmedRules

Function = Callable[[ObservedRequest], Any]
"""A function of the test's, called in the event loop of the broker."""


class ArmedRule:
    """One rule of a broker."""

    def __init__(
        self, rule_id: str, text: RuleText, action: "Action", *, seed: int, function: Function | None = None
    ) -> None:
        self.id: Final = rule_id
        self.text = text
        self.action = action
        self.function: Final = function
        self.counting: Final = Counting(rule_id, seed)
        self.is_released = False
        self._held: set[asyncio.Future[None]] = set()
        self._stalled: list[ClientLink] = []
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def point(self) -> str:
        """The point at which it fires."""
        return self.text.at or self.action.default_point

    @property
    def held(self) -> int:
        """Requests and answers that it holds now."""
        return len(self._held) + sum(not each.is_gone for each in self._stalled)

    @property
    def complaint(self) -> str | None:
        """A sentence if it should have fired, and has not."""
        if self.text.optional or self.counting.fired:
            return None
        matched = self.counting.matched
        seen = "nothing matched it" if not matched else f"{matched} matched it, which its conditions let pass"
        return f"rule {self} never fired: {seen}"

    def __str__(self) -> str:
        return f"{self.id} ({self.text.match}: {self.action}, at {self.point})"

    def fire(self, key: object, client_id: str = "") -> None:
        """Count a firing, and wake who waits for it."""
        self.counting.fire(key, client_id)
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if is_waited_for(each):
                each.set_result(None)

    async def wait_fired(self, count: int, wait_ms: float) -> int:
        """Wait until it has fired so often, at most so long; returns how often it has."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(wait_ms / 1000):
                while self.counting.fired < count:
                    future: asyncio.Future[None] = loop.create_future()
                    self._waiting.append(future)
                    await future
        except TimeoutError:
            pass
        return self.counting.fired

    # What it holds

    async def hold(self, until: int | None = None) -> None:
        """Wait for `release`, which happens by itself when so many wait. Raises what ends the broker."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held.add(future)
        try:
            if until is not None and len(self._held) >= until:
                self.release()
            await future
        finally:
            self._held.discard(future)

    def stall(self, link: ClientLink) -> None:
        """Withhold the answers of a connection until `release`."""
        link.stall()
        self._stalled.append(link)

    def release(self) -> None:
        """Let go on what it holds, now and in future."""
        self.is_released = True
        for future in self._held:
            if is_waited_for(future):
                future.set_result(None)
        stalled, self._stalled = self._stalled, []
        for link in stalled:
            link.release()

    def end(self, error: BaseException) -> None:
        """The broker ends: what is held fails with this."""
        for future in self._held:
            if is_waited_for(future):
                future.set_exception(error)
        self._held.clear()


def is_waited_for(future: "asyncio.Future[None]") -> bool:
    """False for a wait that is over, and for one of an event loop that a crash has left."""
    return not future.done() and not future.get_loop().is_closed()


class Firing(NamedTuple):
    """A rule that fires at a request."""

    rules: "ArmedRules"
    rule: ArmedRule
    observed: ObservedRequest
    fit: Fit
