"""`ArmedRules`: the rules of one broker, in its event loop, and `FaultHooks`, by which they see its requests.

Always true: rules are tried in the order in which they were armed, and the first that fires decides, while the others
count their matches; nothing of the lab's own that goes wrong harms a request: it goes on without its rule, and the test
fails at its end.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine
from functools import partial
from typing import Any, Final, NoReturn

import msgspec

from eosin.lab.common.errors import LabError, unknown
from eosin.lab.faults.armed import ArmedRule, Firing, Function, is_waited_for
from eosin.lab.faults.matching import Arrival, RequestFacts, fits, fits_arrival
from eosin.lab.faults.rules import (
    ANSWER,
    APPENDED,
    DURABLE,
    HANDLED,
    POINTS,
    REQUEST,
    Match,
    RuleText,
    converted,
    rule_in,
)
from eosin.lab.history.requests import first_error
from eosin.model.close_connection import CloseConnection
from eosin.network.link import ClientLink
from eosin.network.request_hooks import ObservedRequest, RequestHooks, RequestVerdict
from eosin.protocol.wire.codec import decode_response, encode_response
from eosin.protocol.wire.headers import SIZE_BYTES
from eosin.runtime.clock import Clock

log = logging.getLogger(__name__)

MOST_RULES: Final = 1000
_FAILED: Final = "a rule of the lab failed"
_OUTER: Final = frozenset({REQUEST, HANDLED, ANSWER})
_OF_WRITES: Final = frozenset({APPENDED, DURABLE})


class ArmedRules:
    """The rules of a broker. One object for all of its lives."""

    def __init__(self, *, seed: int, wire: Clock, virtual: Clock | None = None) -> None:
        """`wire` is the real time of clients, `virtual` the broker's own clock where that is another."""
        self.seed: Final = seed
        self._wire: Final = wire
        self._virtual: Final = wire if virtual is None else virtual
        self._rules: dict[str, ArmedRule] = {}
        self._armed = 0
        self.points: set[str] = set(_OUTER)
        """Points that this broker has; those inside it are added by who stops there."""
        self.on_event: Callable[[str, ObservedRequest | None, str], None] | None = None
        """Called with what a rule has done (`fired`), the request, and the rule's id."""
        self.on_failure: Callable[[str], None] | None = None
        """Called with a sentence when a rule itself went wrong."""
        self.crash: Callable[[bool, float], NoReturn] = _cannot_crash
        """Ends the broker in the middle of a call: by a loss of power or not, and for so many ms."""
        self._pauses: set[asyncio.Future[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._executed: list[tuple[Match, asyncio.Future[None]]] = []
        self._kept: list[tuple[Match, Callable[[], Coroutine[Any, Any, Any]]]] = []
        self._answers: dict[ObservedRequest, Callable[[Any], Any]] = {}
        self._complaints: list[str] = []
        self._is_closed = False

    # What is held

    def held(self) -> str | None:
        """Words on the rules that hold something; None for none."""
        return self._holding(POINTS)

    def held_writes(self) -> str | None:
        """The same of those that keep records from being durable."""
        return self._holding(_OF_WRITES)

    def _holding(self, points: Collection[str]) -> str | None:
        holding = [each for each in self._rules.values() if each.held and each.point in points]
        words = [f"rule {each} holds {'1 request' if each.held == 1 else f'{each.held} requests'}" for each in holding]
        return "; ".join(words) or None

    # Arming

    def arm(self, text: dict[str, Any], function: Function | None = None) -> ArmedRule:
        """Arm a rule. Raises LabError for one that could not fire as it is written."""
        rule = rule_in(text)
        action = _action_of(rule.do)
        if action.needs_function is not callable(function):
            raise LabError(f"the action {rule.do['action']} runs a function of the test's, in its own process")
        self._check_point(rule, action)
        if len(self._rules) >= MOST_RULES:
            raise LabError(f"a broker has at most {MOST_RULES} rules: remove some")
        self._armed += 1
        rule_id = rule.id or rule.name or f"f{self._armed}"
        if rule_id in self._rules:
            raise LabError(f"there is a rule {rule_id} already: remove it, or use another name")
        armed = ArmedRule(rule_id, _timed(rule, action), action, seed=self.seed, function=function)
        self._rules[rule_id] = armed
        return armed

    def amend(self, rule_id: str, text: dict[str, Any]) -> None:
        """Change the conditions of a rule that is armed. Raises LabError."""
        armed, rule = self.rule(rule_id), rule_in(text)
        self._check_point(rule, armed.action)
        armed.text = _timed(rule, armed.action)

    def _check_point(self, rule: RuleText, action: Any) -> None:
        point = rule.at or action.default_point
        if point not in action.POINTS:
            raise LabError(f"the action {rule.do['action']} stands at {' or '.join(action.POINTS)}, not at {point}")
        if point not in self.points:
            raise LabError(f'this broker never reaches the point {point}: it needs durability="fsync"')
        if point not in _OUTER and (rule.match.apis or rule.match.fields):
            raise LabError(f"at the point {point} there is no request: leave out api and fields")

    def rule(self, name: str) -> ArmedRule:
        """The rule of an id, or the one that holds under a name. Raises LabError."""
        armed = self._rules.get(name)
        if armed is None:
            armed = next((each for each in self._rules.values() if getattr(each.action, "name", "") == name), None)
        if armed is None:
            raise unknown("rule", name, self._rules)
        return armed

    def rules(self) -> list[ArmedRule]:
        """All of them, in the order in which they were armed."""
        return list(self._rules.values())

    def remove(self, rule_id: str) -> str | None:
        """Take a rule away, and let go on what it holds. Returns its complaint."""
        armed = self.rule(rule_id)
        del self._rules[armed.id]
        armed.release()
        return armed.complaint

    def complain(self, sentence: str) -> None:
        """Fail the test at its end."""
        if sentence not in self._complaints:
            self._complaints.append(sentence)

    @property
    def complaints(self) -> list[str]:
        """The reasons for which a test fails whose rules these are."""
        unfired = [sentence for each in self._rules.values() if (sentence := each.complaint)]
        return [*self._complaints, *unfired]

    def dismiss(self) -> None:
        """The complaints have been heard: forget them, and the rules with them."""
        self._complaints.clear()
        for rule_id in list(self._rules):
            self.remove(rule_id)

    def end(self) -> None:
        """The broker ends, or crashes: what is held is lost. The rules stay."""
        error = CloseConnection()
        for future in [*self._pauses, *(each for _, each in self._executed)]:
            if is_waited_for(future):
                future.set_exception(error)
        self._pauses.clear()
        self._executed.clear()
        for each in self._rules.values():
            each.end(error)
        for task in self._tasks:
            if is_waited_for(task):
                task.cancel()
        self._tasks.clear()
        self._kept.clear()
        self._answers.clear()

    # For actions

    async def pause(self, ms: float, *, virtual: bool = False) -> None:
        """Wait so long, on real time, or on the broker's own. Raises CloseConnection when the broker ends."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        clock = self._virtual if virtual else self._wire
        timer = clock.call_later(ms, partial(_set, future))
        self._pauses.add(future)
        try:
            await future
        finally:
            self._pauses.discard(future)
            timer.cancel()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[None]:
        """Run something beside the request."""
        task = asyncio.get_running_loop().create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guarded(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            await work
        except CloseConnection:
            return
        except Exception as error:
            log.exception(_FAILED)
            self.failed(error)

    def executed(self, behind: Match, but: ObservedRequest) -> asyncio.Future[None]:
        """Is done when a request that fits was executed, other than `but`, which is about to wait."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._executed.append((behind, future))
        return future

    async def wait_for(self, future: asyncio.Future[None], timeout_ms: float) -> None:
        """Wait for it, at most so long of real time."""
        timer = self._wire.call_later(timeout_ms, partial(_set, future))
        try:
            await future
        finally:
            timer.cancel()

    async def held_while_connected(self, rule: ArmedRule, link: ClientLink) -> None:
        """Wait until the rule is released, or the client has gone."""
        held = asyncio.ensure_future(rule.hold())
        link.on_lost(partial(_cancel, held))
        await asyncio.wait([held])
        if not held.cancelled():
            held.result()

    def execute_behind(self, behind: Match, execute: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Execute something when a request that fits was executed, before that one is answered."""
        self._kept.append((behind, execute))

    def change_response(self, firing: Firing, change: Callable[[Any], Any]) -> None:
        """Change the answer to what is left of a request."""
        self._answers[firing.observed] = change

    def check_room(self, firing: Firing, refusal: Any) -> None:
        """Complain of an error code for which the version of a request has no room."""
        if refusal is None:
            return
        key, version = firing.observed.api.key, firing.observed.context.api_version
        frame = b"".join(encode_response(key, version, 0, refusal))[SIZE_BYTES:]
        if first_error(decode_response(key, version, frame)[1]) == "NONE":
            self.complain(f"rule {firing.rule} changed nothing: version {version} has no room for it")

    # At the points

    def first(self, point: str, observed: ObservedRequest) -> Firing | None:
        """The rule that fires at a request."""
        found: Firing | None = None
        facts = RequestFacts(observed)
        for rule in self._rules.values():
            if rule.point != point or (fit := fits(rule.text.match, facts)) is None:
                continue
            key = self._key(rule, facts)
            client_id = observed.context.client_id or ""
            wants = rule.counting.decide(rule.text.when, key, self._virtual.now_ms(), client_id)
            if wants and found is None and rule.action.wants(rule):
                found = Firing(self, rule, observed, fit)
                rule.fire(key, client_id)
                self._report("fired", observed, rule.id)
        return found

    @staticmethod
    def _key(rule: ArmedRule, facts: RequestFacts) -> object:
        per = rule.text.when.per
        if per == "connection":
            return facts.observed.link.id
        if per == "client_id":
            return facts.observed.context.client_id
        return facts.transactional_id if per == "transactional_id" else None

    def _report(self, what: str, observed: ObservedRequest | None, rule_id: str) -> None:
        if self.on_event is not None:
            self.on_event(what, observed, rule_id)

    async def was_executed(self, observed: ObservedRequest) -> None:
        """A request was executed: begin what waits behind it."""
        if not self._executed and not self._kept:
            return
        facts = RequestFacts(observed)
        for waiting in list(self._executed):
            match, future = waiting
            if future.done() or fits(match, facts):
                self._executed.remove(waiting)
                if not future.done():
                    future.set_result(None)
        for kept in list(self._kept):
            match, execute = kept
            if fits(match, facts) and kept in self._kept:
                self._kept.remove(kept)
                await asyncio.wait([self.spawn(execute())])

    def promised_change(self, observed: ObservedRequest) -> Callable[[Any], Any] | None:
        """The change of the answer that a rule has promised."""
        return self._answers.pop(observed, None)

    # For the points inside the broker (`lab/disk/points.py`)

    def watches(self, point: str) -> bool:
        """True if a rule may fire there."""
        if not self._rules:  # each call of the disk comes by
            return False
        return any(each.point == point for each in self._rules.values())

    def reached(self, arrival: Arrival) -> Awaitable[None] | None:
        """Go on at once (None), or when this is done."""
        found: ArmedRule | None = None
        for rule in self._rules.values():
            if rule.point != arrival.point or not fits_arrival(rule.text.match, arrival):
                continue
            key = arrival.transactional_id if rule.text.when.per == "transactional_id" else None
            wants = rule.counting.decide(rule.text.when, key, self._virtual.now_ms())
            if wants and found is None and rule.action.wants(rule):
                found = rule
                rule.fire(key)
                self._report("fired", None, rule.id)
        return None if found is None else found.action.inside(self, found, arrival)

    def failed(self, error: Exception) -> None:
        """A rule, or a function of the test's, went wrong."""
        sentence = f"a rule failed, and its request went on without it: {type(error).__name__}: {error}"
        self.complain(sentence)
        if self.on_failure is not None:
            self.on_failure(sentence)

    def __bool__(self) -> bool:
        return bool(self._rules or self._executed or self._kept or self._answers)


class FaultHooks(RequestHooks):
    """The rules at the points `request`, `handled` and `answer`."""

    def __init__(self, rules: ArmedRules) -> None:
        self._rules: Final = rules
        self._refused: set[ObservedRequest] = set()
        """Requests that a rule has refused: they are not executed."""

    @property
    def is_idle(self) -> bool:
        """True while there is no rule."""
        return not (self._rules or self._refused)

    async def begun(self, observed: ObservedRequest) -> RequestVerdict | None:
        """The point `request`."""
        if not self._rules:
            return None
        try:
            firing = self._rules.first(REQUEST, observed)
            verdict = None if firing is None else await firing.rule.action.at_request(firing)
            if verdict is not None and verdict.error:
                self._refused.add(observed)
            return verdict
        except CloseConnection:
            raise
        except Exception as error:
            log.exception(_FAILED)
            self._rules.failed(error)
            return None

    async def handled(self, observed: ObservedRequest, response: Any) -> Any:
        """The point `handled`."""
        if observed in self._refused:
            self._refused.discard(observed)
            return response
        if not self._rules:
            return response
        try:
            change = self._rules.promised_change(observed)
            if change is not None:
                response = change(response)
            await self._rules.was_executed(observed)
            firing = self._rules.first(HANDLED, observed)
            return response if firing is None else await firing.rule.action.at_handled(firing, response)
        except CloseConnection:
            raise
        except Exception as error:
            log.exception(_FAILED)
            self._rules.failed(error)
            return response

    def responded(self, observed: ObservedRequest) -> None:
        """The point `answer`."""
        if not self._rules or not observed.response_bytes:
            return
        try:
            firing = self._rules.first(ANSWER, observed)
            if firing is not None:
                firing.rule.action.at_response(firing)
        except Exception as error:
            log.exception(_FAILED)
            self._rules.failed(error)


def _cannot_crash(power: bool, restart_after_ms: float) -> NoReturn:
    raise LabError("this broker cannot crash")


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _cancel(future: "asyncio.Future[None]") -> None:
    future.cancel()


def _action_of(do: dict[str, Any]) -> Any:
    """The action that a rule names. Raises LabError."""
    from eosin.lab.faults.actions import ACTIONS

    kind = ACTIONS.get(do["action"]) if isinstance(do["action"], str) else None
    if kind is None:
        raise unknown("action", str(do["action"]), ACTIONS)
    given = {name: value for name, value in do.items() if name != "action"}
    known = [each.encode_name for each in msgspec.structs.fields(kind)]
    for name in given:
        if name not in known:
            raise unknown(f"argument of {do['action']}", name, known)
    action = converted(f"the action {do['action']}", given, kind)
    action.check()
    return action


def _timed(rule: RuleText, action: Any) -> RuleText:
    """The rule with the times that its action implies, where it says nothing of them."""
    when = rule.when
    if when.times is not None or when.most != 1:
        return rule
    return msgspec.structs.replace(rule, when=msgspec.structs.replace(when, times=action.default_times))
