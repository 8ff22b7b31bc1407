"""The paths about scenarios: the catalogue, and a run of one with an application that its user has attached."""

import asyncio
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from eosin.lab.common.errors import LabError, RefusedError, unknown
from eosin.lab.http.broker_paths import begin_anew
from eosin.lab.http.endpoint import ControlPath
from eosin.lab.http.failures import REFUSED
from eosin.lab.http.hosts import Lab
from eosin.lab.run.feed import FEED, made_feed
from eosin.lab.run.judge import Judge, id_named
from eosin.lab.run.results import PASS, REFERENCE, SKIPPED, Result
from eosin.lab.run.runner import RunOutcome, run_at, skipped_by
from eosin.lab.run.staged_app import RunPlan
from eosin.lab.scenarios.catalogue import SCENARIOS
from eosin.lab.scenarios.scenario import Scenario
from eosin.lab.verdict.exactly_once import IDS, WAYS


class ScenarioSeen(msgspec.Struct, frozen=True):
    """An incident of the catalogue."""

    name: str
    summary: str
    tags: tuple[str, ...]
    parts: dict[str, str]
    """`Origin`, `Steps`, `Healthy` and `Cure`."""


class ScenarioRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run of a scenario. The application is running, or begins within the time; the lab starts and ends none."""

    input: str = "input"
    partitions: int = 1
    output: tuple[str, ...] = ("output",)
    group: str | None = None
    feed: int = FEED
    judge: str = IDS
    id: str = "key"
    """`key`, `header:NAME` or `json:/path`."""
    seed: int = 0
    timeout_ms: int = 60_000


async def scenarios(lab: Lab) -> list[ScenarioSeen]:
    """The catalogue of incidents."""
    return [ScenarioSeen(each.name, each.summary, each.tags, each.parts) for each in SCENARIOS]


async def run(lab: Lab, scenario: str, body: ScenarioRun) -> Result:
    """Reset the broker, take an attached application through a scenario (`reference`: none), and judge it."""
    found = None if scenario == REFERENCE else _scenario(scenario)
    plan = _plan(lab, body, is_reference=found is None)
    if (skipped := skipped_by(plan, found, body.seed)) is not None:
        return skipped
    if found is not None and found.behaviour not in ("", plan.behaviour):
        why = f"it needs a broker with --behaviour {found.behaviour}"
        return Result(found.name, SKIPPED, body.seed, 0.0, evidence=why)
    if lab.is_in_scenario:
        raise RefusedError("a scenario is being run already: one follows the other")
    lab.is_in_scenario = True
    try:
        outcome = await _outcome(lab, found, plan, body.seed)
    finally:
        lab.is_in_scenario = False
    if found is None and outcome.result.verdict == PASS:
        lab.reference = outcome.output
    return outcome.result


async def _outcome(lab: Lab, scenario: Scenario | None, plan: RunPlan, seed: int) -> RunOutcome:
    await begin_anew(lab, dict.fromkeys((plan.input, *plan.outputs), plan.partitions))
    with tempfile.TemporaryDirectory(prefix="eosin-lab-") as folder:
        return await asyncio.to_thread(
            run_at, lab.blocking, plan, scenario, seed, Path(folder), None if scenario is None else lab.reference
        )


def _scenario(name: str) -> Scenario:
    """The scenario of a name. Raises UnknownError."""
    for each in SCENARIOS:
        if each.name == name:
            return each
    raise unknown("scenario", name, (REFERENCE, *(each.name for each in SCENARIOS)))


def _plan(lab: Lab, body: ScenarioRun, *, is_reference: bool) -> RunPlan:
    """The plan of a run. Raises LabError."""
    if body.partitions < 1 or body.timeout_ms < 1 or not body.output or body.input in body.output:
        raise LabError("a run has 1 partition or more, some time, and outputs that are not its input")
    if body.judge not in WAYS:
        raise LabError(f"judge is {', '.join(WAYS)}, not {body.judge!r}")
    if body.judge != IDS and lab.reference is None and not is_reference:
        raise LabError(f"judge {body.judge} compares with a run without faults: POST /scenarios/{REFERENCE}/run first")
    return RunPlan(
        (),
        body.input,
        body.partitions,
        body.output,
        tuple(made_feed(body.feed, body.partitions)),
        Judge(body.judge, id_named(body.id)),
        group=body.group,
        timeout_s=body.timeout_ms / 1000,
        behaviour=lab.held.broker.options.behaviour,
        id_text=body.id,
    )


ENDPOINTS: Final = (
    ControlPath("GET", "/scenarios", scenarios),
    ControlPath("POST", "/scenarios/{scenario}/run", run, in_batch=False, errors=(REFUSED,)),
)
