"""The catalogue of incidents, how they are chosen, and those of a file."""

import importlib.util
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import msgspec

from eosin.lab.behaviours import BEHAVIOURS
from eosin.lab.common.errors import LabError, unknown
from eosin.lab.scenarios import chance, commits, crashes, fencing, reading, times
from eosin.lab.scenarios.scenario import Scenario, check_stage, scenario_of

FILE_TAG: Final = "file"
"""Of the scenarios of a file."""
_RAISED: Final = (
    ArithmeticError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""Errors of a file that cannot be imported."""

SCENARIOS: Final = (
    scenario_of(commits.lost_commit_response, "commit", "network", name="lost-commit-answer", planted="redoes"),
    scenario_of(commits.lost_commit_request, "commit", "network", planted="taken-for-done"),
    scenario_of(commits.stalled_commit, "commit", "network", planted="redoes"),
    scenario_of(commits.delayed_endtxn, "commit", "network", planted="redoes"),
    scenario_of(commits.transaction_timeout, "timeout", "fencing", planted="taken-for-done"),
    scenario_of(commits.timeout_at_commit, "commit", "timeout", "fencing", planted="offsets-outside"),
    scenario_of(fencing.zombie_after_pause, "fencing", "group", planted="unstable-offsets", needs_its_process=True),
    scenario_of(fencing.zombie_member, "fencing", "group", planted="fresh-id", needs_its_process=True),
    scenario_of(fencing.two_of_one_id, "fencing", planted="swallows", needs_its_process=True),
    scenario_of(
        commits.lost_init_response, "network", name="lost-init-answer", planted="two-producers", needs_its_process=True
    ),
    scenario_of(crashes.power_cut, "crash", planted="redoes"),
    scenario_of(crashes.kill_between_markers, "crash", "commit", planted="redoes"),
    scenario_of(crashes.kill_after_prepare, "crash", "commit", planted="redoes"),
    scenario_of(crashes.restart_loop, "crash", planted="taken-for-done"),
    scenario_of(times.metadata_timeouts, "timeout", planted="taken-for-done"),
    scenario_of(commits.coordinator_moves, "coordinator", planted="taken-for-done"),
    scenario_of(commits.concurrent_transactions, "coordinator", planted="taken-for-done"),
    scenario_of(times.idle_week, "time", planted="swallows"),
    scenario_of(times.idle_producer_state, "time", planted="plain"),
    scenario_of(times.last_epoch, "time", is_aged=True, planted="offsets-outside", needs_its_process=True),
    scenario_of(reading.hanging_transaction, "reading", planted="uncommitted", behaviour="kafka-2.5"),
    scenario_of(reading.lso_stuck, "reading", planted="uncommitted"),
    scenario_of(fencing.unstable_offsets, "group", planted="unstable-offsets", needs_its_process=True),
    scenario_of(fencing.rebalance_mid_transaction, "group", planted="offsets-outside", needs_its_process=True),
    scenario_of(reading.aborted_data, "reading", planted="uncommitted"),
    scenario_of(reading.control_tail, "reading", planted="counts-to-end", needs_its_process=True),
    scenario_of(reading.sequence_gap, "errors", planted="taken-for-done"),
    scenario_of(crashes.half_response, "network", name="half-answer", planted="plain"),
    scenario_of(times.slow_broker, "time", planted="taken-for-done"),
    scenario_of(times.throttled, "time", planted="taken-for-done"),
    scenario_of(crashes.full_disk, "disk", planted="taken-for-done"),
    scenario_of(crashes.failed_sync, "disk", "crash", planted="taken-for-done"),
    scenario_of(fencing.network_partition, "network", "timeout", planted="same-producer"),
    scenario_of(reading.topic_recreated, "operator", planted="taken-for-done"),
    scenario_of(times.clock_jump, "time", planted="compares-times"),
    scenario_of(chance.random_, "chance", planted="taken-for-done"),
)
"""The incidents, in the order in which they are run."""


def chosen(selection: str, scenarios: Iterable[Scenario] = SCENARIOS) -> list[Scenario]:
    """The scenarios of a selection: `all`, names or patterns of them with commas between, `tag:fencing`. Raises
    LabError."""
    known = list(scenarios)
    found: dict[str, Scenario] = {}
    for word in filter(None, (each.strip() for each in selection.split(","))):
        head, colon, tag = word.partition(":")
        if colon and head == "tag":
            fitting = [each for each in known if tag in each.tags]
            if not fitting:
                raise unknown("tag", tag, {tag for each in known for tag in each.tags})
        elif word == "all":
            fitting = known
        else:
            fitting = [each for each in known if fnmatchcase(each.name, word)]
            if not fitting:
                raise unknown("scenario", word, (each.name for each in known))
        found.update({each.name: each for each in fitting})
    if not found:
        raise LabError("--scenario is all, names with commas between, or tag:TAG")
    return list(found.values())


def scenarios_in(path: Path) -> list[Scenario]:
    """The scenarios of a file of Python: its public functions of (eosin, app, seed), and each `Scenario` in it. Raises
    LabError."""
    spec = importlib.util.spec_from_file_location("eosin_lab_scenarios_of_a_file", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise LabError(f"--scenario-file is a file of Python with functions of (eosin, app, seed), not {path}")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except _RAISED as error:
        raise LabError(f"{path} cannot be read: {type(error).__name__}: {error}") from None
    own = {name: each for name, each in vars(module).items() if not name.startswith("_")}
    written = [each for each in own.values() if isinstance(each, Scenario)]
    for each in written:
        check_stage(each.stage, f"{path}: the stage of {each.name}")
    functions = [
        each
        for each in own.values()
        if getattr(each, "__module__", "") == module.__name__
        and not isinstance(each, type)
        and all(each is not one.stage for one in written)
    ]
    for each in functions:
        check_stage(each, f"{path}: {getattr(each, '__name__', each)}")
    found = [*written, *(scenario_of(each, FILE_TAG) for each in functions)]
    if not found:
        raise LabError(f"{path} has no scenario: a function of (eosin, app, seed), or a Scenario of one")
    _check_new(path, found)
    return [msgspec.structs.replace(each, tags=tuple(dict.fromkeys((*each.tags, FILE_TAG)))) for each in found]


def _check_new(path: Path, found: Iterable[Scenario]) -> None:
    """Raise LabError for a name that is taken, and for what a broker cannot be."""
    names = {each.name for each in SCENARIOS}
    for each in found:
        if each.name in names:
            raise LabError(f"{path}: there is a scenario {each.name} already; give this one another name")
        if each.behaviour and each.behaviour not in BEHAVIOURS:
            raise unknown("behaviour", each.behaviour, BEHAVIOURS)
        names.add(each.name)
