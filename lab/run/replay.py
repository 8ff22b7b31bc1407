"""`replayed`: a recorded run as a scenario, and `shrunk`: the fewest of its rules with which it still fails.

Always true: a replay takes the steps of the record in their order, and its rules fire at the same matches of each
client id; the threads of an application are its own, so that it repeats what the broker does, and not all that happens.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, get_type_hints

import msgspec

from eosin.lab.broker_api import BrokerApi
from eosin.lab.common.errors import LabError
from eosin.lab.common.limits import WaitLimit
from eosin.lab.common.values import ReadRecord
from eosin.lab.faults.operations import FaultOperations
from eosin.lab.operations import Operations
from eosin.lab.run.recording import APP, RecordedRun, RecordedStep
from eosin.lab.scenarios.scenario import App, Expectation, Scenario
from eosin.lab.scenarios.steps import FIRES_S

_SLICE_MS: Final = 50
_ABOUT_RULES: Final = frozenset({"arm_fault", "amend_fault", "wait_fired", "release_fault", "remove_fault"})
_TIMES: Final = frozenset({"nth", "after", "every", "probability", "from", "until", "per", "times"})


def replayed(run: RecordedRun, without: Iterable[str] = ()) -> Scenario:
    """The scenario that repeats a run, but for the rules of these ids."""
    stage = partial(_stage, run, frozenset(without))
    return Scenario(run.header.scenario, stage, is_aged=run.header.is_aged)


def rules_of(run: RecordedRun) -> tuple[str, ...]:
    """The ids of its rules, in the order in which they were armed."""
    return tuple(each.args[0]["id"] for each in run.steps if each.does == "arm_fault" and "id" in each.args[0])


def shrunk(run: RecordedRun, fails: Callable[[Scenario, str], bool]) -> tuple[str, ...]:
    """The ids of rules that are left when one after the other is left out as long as it still fails. `fails` takes the
    application through a scenario, which has words about what is left out."""
    out: list[str] = []
    for each in rules_of(run):
        if fails(replayed(run, [*out, each]), f"without {', '.join([*out, each])}"):
            out.append(each)
    return tuple(each for each in rules_of(run) if each not in out)


def _stage(run: RecordedRun, without: frozenset[str], eosin: BrokerApi, app: App, seed: int) -> Expectation:
    departures: list[str] = []
    gone: list[ReadRecord] = []
    for each in run.steps:
        if each.to == APP:
            _done_by(app, each)
            continue
        if each.does in _ABOUT_RULES and _rule_of(each) in without:
            continue
        try:
            if each.does == "delete_topic" and each.args[0] in run.header.outputs:
                gone += eosin.topic(each.args[0]).records()
            _repeat(run, eosin, each, departures)
        except LabError as refused:
            departures.append(f"{each.does}: {refused}")
    notes = tuple(f"it departs from the record: {each}" for each in dict.fromkeys(departures))
    return Expectation(run.judged.forgiven, notes, tuple(gone))


def _done_by(app: App, step: RecordedStep) -> None:
    """Have the application do a step."""
    if step.does == "catches_up":
        app.catches_up(timeout=step.args[0])
    elif step.does == "commits":
        app.commits(step.args[0], timeout=step.args[1])
    else:
        getattr(app, step.does)(*step.args)


def _repeat(run: RecordedRun, eosin: BrokerApi, step: RecordedStep, departures: list[str]) -> None:
    """Have the broker do a step. Raises LabError."""
    operation = getattr(Operations, step.does, None)
    if operation is None:
        raise LabError("this eosin has no such operation")
    if step.does == "arm_function":
        raise LabError("the action of a rule is a function of Python, which no file has")
    args = _converted(operation, step.args)
    if step.does == "wait_fired":
        return _wait_fired(eosin, args[0], args[1], departures)
    if step.does == "remove_fault" and args[0] in run.decisions:
        _wait_fired(eosin, args[0], sum(map(len, run.decisions[args[0]].occurrences.values())), departures)
    if step.does == "arm_fault":
        args[0] = _as_decided(run, args[0], args[0].get("id", ""))
    elif step.does == "amend_fault":
        args[1] = _as_decided(run, args[1], args[0])
    eosin.call(operation, *args)
    return None


def _wait_fired(eosin: BrokerApi, rule_id: str, count: int, departures: list[str]) -> None:
    """Wait until a rule has fired as often as it had in the record at this step."""
    limit, fired = WaitLimit(FIRES_S), 0
    while fired < count and limit.left_ms():
        fired = eosin.call(FaultOperations.wait_fired, rule_id, count, limit.left_ms(_SLICE_MS))
    if fired < count:
        departures.append(f"rule {rule_id} fired {fired} times, and {count} times then")


def _as_decided(run: RecordedRun, rule: Mapping[str, Any], rule_id: str) -> dict[str, Any]:
    """A rule that fires where it did then. One without any condition does so by itself."""
    when = rule.get("when", {})
    if not _TIMES.intersection(when) or when == {"times": "always"}:
        # Its first match, or each of them; whoever is quicker this time is at it.
        return {**rule, "optional": True}
    decisions = run.decisions.get(rule_id)
    return {**rule, "optional": True, "when": {"occurrences": decisions.occurrences if decisions else {}}}


def _rule_of(step: RecordedStep) -> str:
    first = step.args[0]
    return str(first.get("id", "")) if isinstance(first, dict) else str(first)


def _converted(operation: Callable[..., Any], args: list[Any]) -> list[Any]:
    """Arguments as the operation has them: bytes are base64 in a file. Raises LabError."""
    hints = list(get_type_hints(operation).values())
    try:
        return [msgspec.convert(each, kind) for each, kind in zip(args, hints, strict=False)]
    except msgspec.ValidationError as wrong:
        raise LabError(str(wrong)) from None
