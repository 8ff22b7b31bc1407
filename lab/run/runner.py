"""`run_one`: one scenario with one application, from a fresh broker to the verdict."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from eosin.lab.broker import Broker
from eosin.lab.broker_api import BrokerApi
from eosin.lab.common.errors import LabError
from eosin.lab.ready_made import aged
from eosin.lab.run.judge import output_of
from eosin.lab.run.late_commits import FORGIVEN, WHY, LateCommit, Pair, late_commits
from eosin.lab.run.process import VARIABLES
from eosin.lab.run.reader import judge_reader
from eosin.lab.run.recording import VERSION, Judged, RecordedApp, RecordedBroker, RecordedRun, RunHeader
from eosin.lab.run.results import DIED, FAIL, NOT_EXERCISED, PASS, REFERENCE, SKIPPED, Result
from eosin.lab.run.run_file import FILE
from eosin.lab.run.staged_app import NEEDS_ITS_PROCESS, AttachedApp, RunPlan, StagedApp
from eosin.lab.run.wire_use import conduct_of, wire_use_of
from eosin.lab.scenarios.clients import rows_for
from eosin.lab.scenarios.scenario import OWN, Expectation, NotExercised, NotPossible, Scenario
from eosin.lab.verdict.findings import LOST, OPEN, STUCK, Verdict
from eosin.runtime.clock import SystemClock

QUIET_MS: Final = 100
SETTINGS: Final = {"log.retention.ms": "-1"}
"""Of the broker: after an idle week the output is there to be judged."""
FENCES: Final = frozenset({"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
LINES: Final = 30
"""Of the transcript in a report."""


class RunOutcome(NamedTuple):
    """The result of a run, and what the next ones need of the reference."""

    result: Result
    output: list[Pair]
    group: str | None
    transactional_ids: tuple[str, ...] = ()


def run_one(
    plan: RunPlan, scenario: Scenario | None, seed: int, folder: Path, reference: Sequence[Pair] | None = None
) -> RunOutcome:
    """Take the application through a scenario, None for the reference run without faults. Raises LabError if it cannot
    be run at all."""
    skipped = skipped_by(plan, scenario, seed)
    if skipped is not None:
        return RunOutcome(skipped, [], plan.group)
    folder.mkdir(parents=True, exist_ok=True)
    topics = {plan.input: plan.partitions, **dict.fromkeys(plan.outputs, plan.partitions)}
    snapshot = None
    if scenario is not None and scenario.is_aged:
        snapshot = asyncio.run(aged(plan.transactional_ids))
    behaviour = scenario.behaviour if scenario is not None and scenario.behaviour else plan.behaviour
    with Broker(
        topics=topics, seed=seed, snapshot=snapshot, settings=SETTINGS, behaviour=behaviour, port=plan.port
    ) as eosin:
        return run_at(eosin, plan, scenario, seed, folder, reference)


def skipped_by(plan: RunPlan, scenario: Scenario | None, seed: int) -> Result | None:
    """The result of a scenario that the application cannot go through, for which nobody has to start it anew."""
    if plan.command or scenario is None or not scenario.needs_its_process:
        return None
    return Result(scenario.name, SKIPPED, seed, 0.0, evidence=NEEDS_ITS_PROCESS)


def run_at(
    eosin: BrokerApi,
    plan: RunPlan,
    scenario: Scenario | None,
    seed: int,
    folder: Path,
    reference: Sequence[Pair] | None = None,
) -> RunOutcome:
    """The same at a broker that is fresh. Raises LabError if it cannot be run at all."""
    clock = SystemClock()
    began_ms = clock.elapsed_ms()
    app = StagedApp(eosin, plan, folder) if plan.command else AttachedApp(eosin, plan, folder)
    expectation, excuse, skipped = Expectation(), "", ""
    recorded = RecordedBroker(eosin)
    try:
        app.feed(len(plan.feed) // 2)
        app.start()
        is_well = app.catches_up(timeout=plan.timeout_s)
        if is_well and scenario is not None:
            try:
                expectation, excuse = _staged(scenario, recorded, app, seed)
            except NotPossible as why:
                skipped = str(why)
        recorded.keep_decisions()
        rules = tuple(f"{each.words}: fired {each.fired} times" for each in eosin.faults.rules())
        eosin.faults.clear()
        app.feed()
        is_well = app.catches_up(timeout=plan.timeout_s) and is_well
        with suppress(LabError):
            eosin.settle(quiet_ms=QUIET_MS, timeout=1)
        stuck = "" if is_well else _why_stuck(eosin, app, plan)
    finally:
        app.stop()
    group = plan.group or app.committing_group
    events = eosin.history.events()
    late = late_commits(events, lambda each: eosin.transactions(each).producer_id)
    verdict = _judged(eosin, plan, app, group, reference, expectation, late)
    if group is None and not is_well:  # nobody has said what it has read
        verdict = msgspec.structs.replace(verdict, findings=tuple(e for e in verdict.findings if e.kind != LOST))
    kinds = _kinds(verdict, expectation, is_well=is_well, is_dead=app.is_dead)
    title = FAIL if kinds else SKIPPED if skipped else NOT_EXERCISED if excuse else PASS
    seconds = (clock.elapsed_ms() - began_ms) / 1000
    use = wire_use_of(events)
    result = Result(
        REFERENCE if scenario is None else scenario.name,
        title,
        seed,
        round(seconds, 2),
        kinds,
        _evidence(stuck, verdict) if kinds else skipped or excuse or str(verdict),
        (*expectation.notes, *((WHY,) if late else ()), *(f"forgiven: {each}" for each in verdict.forgiven)),
        app.exits,
        rules,
        use.clients,
        "" if scenario is None or not kinds else scenario.parts.get("Cure", ""),
        () if scenario is None or not kinds else rows_for(scenario.name, use.clients),
        tuple(eosin.history.transcript()[-LINES:]) if kinds else (),
        app.last_lines if kinds else (),
        use,
        conduct_of(events, starts=app.starts, exits=len(app.exits)),
        forgiven=tuple(dict.fromkeys(each.kind for each in verdict.forgiven)),
        fences_per_minute=round(60 * sum(each.code in FENCES for each in events) / seconds, 1) if seconds else 0.0,
    )
    if scenario is not None:
        header, judged = _header(plan, scenario, seed, group, reference), Judged(title, kinds, expectation.forgiven)
        RecordedRun(header, tuple(recorded.steps), recorded.decisions, judged).write(folder / FILE)
    return RunOutcome(result, output_of(eosin, plan.outputs), group, _ids(app))


def _judged(
    eosin: BrokerApi,
    plan: RunPlan,
    app: StagedApp,
    group: str | None,
    reference: Sequence[Pair] | None,
    expectation: Expectation,
    late: Sequence[LateCommit],
) -> Verdict:
    """The verdict of the judge; what is not the application's fault is forgiven in it, and stays to be told. Raises
    LabError."""
    if plan.is_reader:
        return judge_reader(eosin, plan.input, group, app.said)
    found = plan.judge.judge(eosin, plan.input, plan.outputs, group, reference, expectation.gone, late)
    kinds = {*expectation.forgiven, *(FORGIVEN if late else ())}
    forgiven = tuple(each for each in found.findings if each.kind in kinds)
    return msgspec.structs.replace(
        found,
        findings=tuple(each for each in found.findings if each.kind not in kinds),
        forgiven=(*found.forgiven, *forgiven),
    )


def _staged(scenario: Scenario, eosin: RecordedBroker, app: StagedApp, seed: int) -> tuple[Expectation, str]:
    """The expectation of a scenario, and the reason if it was not exercised. Raises NotPossible."""
    try:
        return scenario.stage(eosin, RecordedApp(app, eosin.steps), seed) or Expectation(), ""
    except NotExercised as why:
        return Expectation(), str(why)
    except LabError as why:
        return Expectation(), f"the lab could not stage it: {why}"


def _header(
    plan: RunPlan, scenario: Scenario, seed: int, group: str | None, reference: Sequence[Pair] | None
) -> RunHeader:
    return RunHeader(
        VERSION,
        scenario.name,
        seed,
        scenario.behaviour or plan.behaviour,
        SETTINGS,
        plan.input,
        plan.partitions,
        plan.outputs,
        group,
        plan.feed,
        plan.judge.way,
        plan.id_text,
        plan.restarts,
        plan.timeout_s,
        plan.transactional_ids,
        None if reference is None else list(reference),
        scenario.is_aged,
        plan.is_reader,
        plan.command,
    )


def _kinds(verdict: Verdict, expectation: Expectation, *, is_well: bool, is_dead: bool) -> tuple[str, ...]:
    found = dict.fromkeys(STUCK if each.kind == OPEN else each.kind for each in verdict.findings)
    if is_dead:
        found[DIED] = None
        found.pop(STUCK, None)
    elif not is_well and STUCK not in expectation.forgiven:
        found[STUCK] = None
    return tuple(found)


def _ids(app: StagedApp) -> tuple[str, ...]:
    try:
        return app.transactional_ids
    except (NotExercised, NotPossible):
        return ()


def _evidence(stuck: str, verdict: Verdict) -> str:
    """The reasons of a failure; a verdict that finds nothing wrong is none of what is stuck."""
    return stuck if stuck and not verdict.findings else "\n".join(filter(None, (stuck, str(verdict))))


def _why_stuck(eosin: BrokerApi, app: StagedApp, plan: RunPlan) -> str:
    """The reasons why the input is not consumed, or a transaction is open."""
    if all(each.client_id.startswith(OWN) for each in eosin.history.connections()):
        return (
            f"the application has never connected to its broker, whose address is in {VARIABLES[0]} of its environment"
            " and takes the place of {bootstrap} in its command"
        )
    if plan.group is None and app.committing_group is None:
        return f"no group has committed offsets of {plan.input}, which the application should read (--input)"
    subjects = [each.transactional_id for each in eosin.open_transactions()]
    if app.committing_group is not None:
        subjects.append(app.committing_group)
    reasons = []
    for each in subjects:
        with suppress(LabError):
            reasons.append(eosin.explain(each))
    return "\n".join(reasons)
