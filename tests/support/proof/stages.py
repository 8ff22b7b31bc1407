"""The stages of the proof, in their order: what fails soonest and says most comes first."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
CORES: Final = os.cpu_count() or 2
ROOMS: Final = (
    *(
        "runtime",
        "protocol",
        "storage",
        "coordinator",
        "client",
        "model",
        "settings",
        "security",
        "network",
        "cluster",
        "broker",
        "observe",
        "node",
        "cli",
        "lab",
        "pipeline",
    ),
    *("model_checker", "simulation", "conformance"),
)
"""Folders of `tests/` in which tests that only compute stand beside real ones."""
REAL: Final = ("clusters", "applications", "crash", "kafka_tools", "wire")
_DEAREST: Final = ("tests/test_proof.py", "tests/test_leftovers.py", "tests/test_packaging.py")
RULES: Final = tuple(
    sorted(
        (f"tests/{path.name}" for path in (ROOT / "tests").glob("test_*.py")),
        key=lambda name: (name not in _DEAREST, name),
    )
)
"""Modules about the checkout itself. The dearest come first: one that began last would leave a core idle."""
FOLDERS: Final = tuple(f"tests/{name}" for name in (*REAL, *ROOMS))
"""The folders of tests, in the order in which they are handed out: the slowest modules first."""
WORLDS: Final = ("tests/model_checker", "tests/simulation")
"""Folders of whole worlds, which take a quarter of what a newcomer's tests compute."""
CLIENTS: Final = "tests/clients"
PIPELINE: Final = "tests/pipeline"
PYTEST: Final = (sys.executable, "-m", "pytest", "-q", "-rfE", "--continue-on-collection-errors")


def on(workers: int, by: str = "worksteal") -> tuple[str, ...]:
    """Options that share the tests between so many processes.

    With `loadfile` a module stays in one of them, so that what it starts is started once; modules are handed out in the
    order of the command line.
    """
    return ("-n", str(workers), "--dist", by, *(("--no-loadscope-reorder",) if by == "loadfile" else ()))


def chosen(marks: str) -> tuple[str, ...]:
    """Tests by their marks: `full`, `smoke` and `long` say to which tier a test belongs (pyproject.toml)."""
    return (*PYTEST, "-m", marks)


@dataclass(frozen=True, slots=True)
class Stage:
    """A command, and the tiers of the proof that run it."""

    name: str
    tiers: tuple[str, ...]
    """test: a newcomer's and each commit's; gate: a push's"""
    command: tuple[str, ...]
    beside: bool = False
    """It runs at the same time as the stage before it: both wait a good part of their time."""
    idle: bool = False
    """It begins with the stage before it, and the run alone waits for its end: until then it has what the others leave
    of the machine. Nothing in it may depend on how long it is kept waiting."""

    @property
    def of_tests(self) -> bool:
        """True if it is a run of pytest, which reports each test."""
        return self.command[: len(PYTEST)] == PYTEST


TIERS: Final = ("test", "gate")
_SHORT: Final = "not full and not long"
_PURE: Final = f"not process and not spark and {_SHORT}"
_REAL_WORKERS: Final = on(CORES + 1, "loadfile")
"""Real tests wait for disks, timers and other processes a third of their time: one more of them than cores."""
STAGES: Final = (
    Stage("check", TIERS, ("make", "--no-print-directory", "--keep-going", f"-j{CORES}", "check")),
    # mypy keeps one core busy, and needs the longest of all checks.
    Stage("tidy and docs", TIERS, (*chosen(_SHORT), *on(CORES, "loadfile"), *RULES), beside=True),
    Stage("pure", ("test",), (*chosen(_PURE), *on(CORES), *(each for each in FOLDERS if each not in WORLDS))),
    Stage(
        "one real of everything",
        ("test",),
        (*chosen(f"smoke and not spark and {_SHORT}"), *_REAL_WORKERS, *FOLDERS, CLIENTS),
    ),
    # Spark gives a Python worker ten seconds to start, so it runs beside nothing busier than clients.
    Stage("spark", ("test",), (*chosen(f"smoke and spark and {_SHORT}"), PIPELINE), beside=True),
    Stage("worlds", ("test",), (*chosen(_PURE), *on(CORES), *WORLDS), idle=True),
    Stage("real", ("gate",), (*chosen("process and not spark and not long"), *_REAL_WORKERS, *FOLDERS)),
    # A push waits for all of it anyway, so what computes and compiles has the time in which real tests wait.
    Stage("pure", ("gate",), (*chosen("not process and not spark and not long"), *on(CORES), *FOLDERS), idle=True),
    # Which builds the wheel as `make wheels` does: for minutes a compiler has one core, and nothing else to do.
    Stage("compiled", ("gate",), (*chosen("full"), *RULES), idle=True),
    Stage("clients", ("gate",), (*chosen("not long"), *on(3, "loadfile"), CLIENTS)),
    Stage("spark", ("gate",), (*chosen("spark and not long"), PIPELINE), beside=True),
)
