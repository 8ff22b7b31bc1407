"""The seeds whose runs catch planted bugs: `bug_seeds.toml` names some for each bug, docs/testing/planted-bugs.md
shows them, and a hunt renews both.

A seed means another run after every change of the simulation. So a bug has several seeds, and where none of them
catches it any more, those that follow are tried before it counts as missed.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from simulation.campaign import Failure, first_caught
from simulation.cluster.planted import CLUSTER_BUGS, CLUSTER_ONLY
from simulation.planted import BUGS, ONLY, Bug
from simulation.planted.places import CALLS, unreached

FILE: Final = Path(__file__).with_suffix(".toml")
PAGE: Final = Path(__file__).parents[2] / "docs" / "testing" / "planted-bugs.md"
STALE: Final = "run make hunt; a new bug needs a row of its own on the page first"

FURTHER: Final = 40
"""Seeds behind the last named one that a test tries when no named one catches the bug."""
LONGEST_S: Final = 600
"""For a test, on a machine with much else to do: trying all of them takes half a minute of a processor. What a run may
take is limited by itself."""
WANTED: Final = 3
"""Seeds that a hunt looks for."""
HUNTED: Final = range(2000)
"""Where it looks."""
MISFIT: Final = re.compile(r"\b(TypeError|AttributeError|NameError)\(")
"""What a broker says in which a bug was planted that was written for other code."""
IN_VAIN: Final = 300
"""A hunt that has a seed is content with it when so many others have caught nothing."""


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug in a simulator."""

    bug: str
    plant: Bug
    of_cluster: bool = False
    only: str | None = None
    """The profile of its runs, or the one kind of fault that strikes."""

    def first_caught(self, seeds: Iterable[int]) -> Failure | None:
        """The first of these seeds that shows something wrong."""
        with self.plant():
            return first_caught(seeds, of_cluster=self.of_cluster, only=self.only)

    def check(self, failure: Failure) -> None:
        """Raises AssertionError if it proves nothing, because the bug does not fit the code any more or the run fails
        without it, too."""
        misfits = [each for each in failure.violations if MISFIT.search(each)]
        assert not misfits, f"it fits the code no more, which just breaks: {misfits[0]}"
        sound = first_caught([failure.seed], of_cluster=self.of_cluster, only=self.only)
        assert sound is None, f"the judge objects without the bug, too: {sound}"

    def __str__(self) -> str:
        return f"{self.bug} in a cluster" if self.of_cluster else self.bug


IN_ONE_BROKER: Final = {bug: Planted(bug, plant, only=ONLY.get(bug)) for bug, plant in BUGS.items()}
IN_A_CLUSTER: Final = {
    bug: Planted(bug, plant, of_cluster=True, only=CLUSTER_ONLY.get(bug)) for bug, plant in CLUSTER_BUGS.items()
}
SIMULATORS: Final = {"broker": IN_ONE_BROKER, "cluster": IN_A_CLUSTER}
"""Every bug, by the name of its simulator and its own."""

# Trying -------------------------------------------------------------------------------------------------------------


def further(named: Iterable[int]) -> range:
    """The seeds to try after these."""
    first = max(named, default=-1) + 1
    return range(first, first + FURTHER)


def prove_caught(planted: Planted, named: tuple[int, ...], *, drifted: Callable[[str], None]) -> None:
    """Raises AssertionError unless the run of a seed shows the bug, and nothing without it. `drifted` is told if it is
    none of those named."""
    others = further(named)
    CALLS.clear()
    failure = planted.first_caught((*named, *others))
    hunt = f"make hunt BUG={planted.bug}"
    assert failure is not None, (
        f"{planted} is caught by none of the seeds {[*named]} that are to catch it, nor by any from {others[0]} to "
        f"{others[-1]}; {_never_reached() or f'{hunt} looks further'}"
    )
    planted.check(failure)
    if failure.seed not in named:
        drifted(f"{planted} is caught by seed {failure.seed} now, and not by {[*named]}; {hunt} renews the table")


# Hunting ------------------------------------------------------------------------------------------------------------


def hunt(planted: Planted, named: tuple[int, ...]) -> tuple[int, ...]:
    """Seeds that catch the bug: those named while all of them do, else what is left of them and others. Raises
    AssertionError if there is none, or if one proves nothing."""
    CALLS.clear()
    found = [seed for seed in named if _catches(planted, seed)]
    if named and len(found) == len(named):
        return named
    vain = 0
    for seed in HUNTED:
        if len(found) >= WANTED or (vain >= IN_VAIN and (found or _never_reached())):
            break
        if seed in named:
            continue
        if _catches(planted, seed):
            found.append(seed)
            vain = 0
        else:
            vain += 1
    assert found, _never_reached() or f"no seed from {HUNTED[0]} to {HUNTED[-1]} catches it"
    return tuple(found)


def _never_reached() -> str:
    """What to say of a bug of which some part was not run since CALLS was empty; empty if all of it was."""
    left = " and ".join(unreached())
    return left and f"nobody has called {left}, so it was never reached: plant it where that code is now"


def _catches(planted: Planted, seed: int) -> bool:
    failure = planted.first_caught([seed])
    if failure is None:
        return False
    planted.check(failure)
    return True


# The table ----------------------------------------------------------------------------------------------------------


Table = dict[str, dict[str, tuple[int, ...]]]
"""Seeds by simulator and bug."""

_HEADS: Final = {
    "| bug | what goes wrong | seeds |": "broker",
    "| bug in a cluster | what goes wrong | seeds |": "cluster",
}
"""Of the tables on the page, with their simulators."""


def read() -> Table:
    """The table as the file has it."""
    return {
        simulator: {bug: tuple(seeds) for bug, seeds in rows.items()}
        for simulator, rows in tomllib.loads(FILE.read_text()).items()
    }


def write(table: Table) -> None:
    """Into the file and onto the page."""
    FILE.write_text(file_of(table))
    PAGE.write_text(page_of(table, PAGE.read_text()))


def file_of(table: Table) -> str:
    """The text of the file."""
    lines = [
        "# Seeds whose runs catch the planted bugs, in the order in which tests try them. `make hunt` writes this."
    ]
    for simulator, bugs in SIMULATORS.items():
        lines += ["", f"[{simulator}]"]
        lines += [f"{bug} = {[*table[simulator][bug]]}" for bug in bugs if bug in table[simulator]]
    return "\n".join(lines) + "\n"


def page_of(table: Table, page: str) -> str:
    """A page with these seeds in the last column of its tables."""
    lines = page.splitlines()
    for index, simulator, bug in _rows(lines):
        if bug in table[simulator]:
            only = SIMULATORS[simulator][bug].only
            seeds = ", ".join(map(str, table[simulator][bug])) + (f", only *{only}*" if only else "")
            lines[index] = f"{lines[index].rsplit('|', 2)[0]}| {seeds} |"
    return "\n".join(lines) + "\n"


def bugs_on(page: str) -> dict[str, list[str]]:
    """The bugs that a page names, in order, by simulator."""
    bugs: dict[str, list[str]] = {simulator: [] for simulator in SIMULATORS}
    for _, simulator, bug in _rows(page.splitlines()):
        bugs[simulator].append(bug)
    return bugs


def _rows(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    """Rows of the tables: the number of the line, the simulator and the bug."""
    simulator = None
    for index, line in enumerate(lines):
        simulator = _HEADS.get(line, simulator) if line.startswith("|") else None
        row = re.match(r"\| `(\w+)` \| ", line)
        if simulator and row:
            yield index, simulator, row[1]
