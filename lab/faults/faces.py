"""`Faults` and `AsyncFaults`: the faults of a broker as a test has them (`broker.faults`), and the rules that they
arm."""

from collections.abc import Generator
from types import TracebackType
from typing import Any, Final, Self

from eosin.lab.common.callers import AsyncCaller, Caller
from eosin.lab.common.errors import LabError, noted_on
from eosin.lab.common.limits import WAIT_S, WaitLimit
from eosin.lab.faults.armed import Function
from eosin.lab.faults.operations import FaultOperations
from eosin.lab.faults.values import RuleSeen
from eosin.lab.faults.words import About, ActionWords, Conditions, Text, changed, done, rule_on

_SLICE_MS: Final = 50
"""Of a wait, after which others may ask the broker something."""


class Rule(Conditions):
    """A rule that is armed. As a context manager it is taken away at the end, and must have fired by then."""

    def __init__(self, broker: Caller, rule_id: str, text: Text) -> None:
        self.id: Final = rule_id
        self._broker: Final = broker
        self._text = text

    def _with(self, change: Text) -> Self:
        text = changed(self._text, change)
        self._broker.call(FaultOperations.amend_fault, self.id, text)
        self._text = text
        return self

    @property
    def state(self) -> RuleSeen:
        """The rule as the broker has it now."""
        return self._broker.call(FaultOperations.fault, self.id)

    @property
    def matched(self) -> int:
        """Number of requests that it was about."""
        return self.state.matched

    @property
    def fired(self) -> int:
        """Number of those at which it fired."""
        return self.state.fired

    def wait_fired(self, n: int = 1, *, timeout: float = WAIT_S) -> None:
        """Wait until it has fired so often. Raises LabError after `timeout` seconds."""
        limit = WaitLimit(timeout)
        while self._broker.call(FaultOperations.wait_fired, self.id, n, limit.left_ms(_SLICE_MS)) < n:
            if not limit.left_ms():
                raise _not_fired(self.state, n, limit)

    wait = wait_fired

    def release(self) -> None:
        """Let go on what it holds, or withholds."""
        self._broker.call(FaultOperations.release_fault, self.id)

    def remove(self) -> None:
        """Take it away. Raises LabError if it has not fired, unless it is optional."""
        self._broker.call(FaultOperations.remove_fault, self.id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with noted_on(error):
            self.remove()

    def __repr__(self) -> str:
        return f"<Rule {self.id}>"


class FaultDraft(Conditions, ActionWords[Rule]):
    """A rule without an action yet; its action arms it."""

    def __init__(self, broker: Caller, text: Text) -> None:
        self._broker: Final = broker
        self._text: Final = text

    def _with(self, change: Text) -> Self:
        return type(self)(self._broker, changed(self._text, change))

    def _do(self, action: str, fields: Text, function: Function | None = None) -> Rule:
        text = done(self._text, action, fields)
        if function is None:
            rule_id = self._broker.call(FaultOperations.arm_fault, text)
        else:
            rule_id = self._broker.call(FaultOperations.arm_function, text, function)
        return Rule(self._broker, rule_id, text)


class Faults:
    """The faults of one broker."""

    def __init__(self, broker: Caller) -> None:
        self._broker: Final = broker

    def on(self, about: About = None, /, **match: Any) -> FaultDraft:
        """Begin a rule about the requests of an API, or of several, with these facts: `topic="orders"`,
        `transactional_id="inv-*"`; or about those that a `Match` names. The action that follows arms it. Raises
        LabError then for what does not exist."""
        return FaultDraft(self._broker, rule_on(about, match))

    def arm(self, rule: Text) -> Rule:
        """Arm a rule that is written as in JSON. Raises LabError."""
        return Rule(self._broker, self._broker.call(FaultOperations.arm_fault, rule), rule)

    def hold(self, about: About = None, /, **match: Any) -> Rule:
        """Hold the requests of an API, or of several, until the release; in a `with` until its end at the latest."""
        return self.on(about, **match).always().hold()

    def release(self, name: str) -> None:
        """Let go on what is held under this name, or by the rule of this id."""
        self._broker.call(FaultOperations.release_fault, name)

    def clear(self) -> None:
        """Take all rules away. Raises LabError if one has not fired, unless it is optional."""
        self._broker.call(FaultOperations.clear_faults)

    def rules(self) -> list[RuleSeen]:
        """The rules that are armed, in that order."""
        return self._broker.call(FaultOperations.faults)

    @property
    def seed(self) -> int:
        """The seed of rules that fire by chance."""
        return self._broker.call(FaultOperations.fault_seed)


class AsyncRule:
    """A rule that is armed, for tests of asyncio."""

    def __init__(self, broker: AsyncCaller, rule_id: str) -> None:
        self.id: Final = rule_id
        self._broker: Final = broker

    @property
    async def state(self) -> RuleSeen:
        """The rule as the broker has it now."""
        return await self._broker.call(FaultOperations.fault, self.id)

    @property
    async def matched(self) -> int:
        """Number of requests that it was about."""
        return (await self.state).matched

    @property
    async def fired(self) -> int:
        """Number of those at which it fired."""
        return (await self.state).fired

    async def wait_fired(self, n: int = 1, *, timeout: float = WAIT_S) -> None:
        """Wait until it has fired so often. Raises LabError after `timeout` seconds."""
        limit = WaitLimit(timeout)
        while await self._broker.call(FaultOperations.wait_fired, self.id, n, limit.left_ms(_SLICE_MS)) < n:
            if not limit.left_ms():
                raise _not_fired(await self.state, n, limit)

    wait = wait_fired

    async def release(self) -> None:
        """Let go on what it holds, or withholds."""
        await self._broker.call(FaultOperations.release_fault, self.id)

    async def remove(self) -> None:
        """Take it away. Raises LabError if it has not fired, unless it is optional."""
        await self._broker.call(FaultOperations.remove_fault, self.id)

    def __repr__(self) -> str:
        return f"<AsyncRule {self.id}>"


class AsyncArming(Conditions):
    """A rule with its action: awaited, or entered by `async with`, it is armed."""

    def __init__(self, broker: AsyncCaller, text: Text, function: Function | None = None) -> None:
        self._broker: Final = broker
        self._text: Final = text
        self._function: Final = function
        self._rule: AsyncRule | None = None

    def _with(self, change: Text) -> Self:
        return type(self)(self._broker, changed(self._text, change), self._function)

    def __await__(self) -> Generator[Any, None, AsyncRule]:
        return self._arm().__await__()

    async def _arm(self) -> AsyncRule:
        if self._function is None:
            rule_id = await self._broker.call(FaultOperations.arm_fault, self._text)
        else:
            rule_id = await self._broker.call(FaultOperations.arm_function, self._text, self._function)
        return AsyncRule(self._broker, rule_id)

    async def __aenter__(self) -> AsyncRule:
        self._rule = await self._arm()
        return self._rule

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._rule is not None
        with noted_on(error):
            await self._rule.remove()


class AsyncFaultDraft(Conditions, ActionWords[AsyncArming]):
    """A rule without an action yet."""

    def __init__(self, broker: AsyncCaller, text: Text) -> None:
        self._broker: Final = broker
        self._text: Final = text

    def _with(self, change: Text) -> Self:
        return type(self)(self._broker, changed(self._text, change))

    def _do(self, action: str, fields: Text, function: Function | None = None) -> AsyncArming:
        return AsyncArming(self._broker, done(self._text, action, fields), function)


class AsyncFaults:
    """The faults of one broker, for tests of asyncio: `await faults.on("EndTxn").lose("answer")`."""

    def __init__(self, broker: AsyncCaller) -> None:
        self._broker: Final = broker

    def on(self, about: About = None, /, **match: Any) -> AsyncFaultDraft:
        """Begin a rule, as `Faults.on` does; it is armed when it is awaited."""
        return AsyncFaultDraft(self._broker, rule_on(about, match))

    async def arm(self, rule: Text) -> AsyncRule:
        """Arm a rule that is written as in JSON. Raises LabError."""
        return AsyncRule(self._broker, await self._broker.call(FaultOperations.arm_fault, rule))

    def hold(self, about: About = None, /, **match: Any) -> AsyncArming:
        """Hold the requests of an API, or of several, until the release; in an `async with` until its end at the
        latest."""
        return self.on(about, **match).always().hold()

    async def release(self, name: str) -> None:
        """Let go on what is held under this name, or by the rule of this id."""
        await self._broker.call(FaultOperations.release_fault, name)

    async def clear(self) -> None:
        """Take all rules away. Raises LabError if one has not fired, unless it is optional."""
        await self._broker.call(FaultOperations.clear_faults)

    async def rules(self) -> list[RuleSeen]:
        """The rules that are armed, in that order."""
        return await self._broker.call(FaultOperations.faults)

    @property
    async def seed(self) -> int:
        """The seed of rules that fire by chance."""
        return await self._broker.call(FaultOperations.fault_seed)


def _not_fired(seen: RuleSeen, count: int, limit: WaitLimit) -> LabError:
    times = "once" if count == 1 else f"{count} times"
    return LabError(
        f"rule {seen.words} has not fired {times} within {limit.seconds:g} s: it matched {seen.matched} requests, and"
        f" fired at {seen.fired}"
    )
