"""The stages of the proof, in their order: what fails soonest and says most comes first."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
CORES: Final = os.cpu_count() or 2
ROOMS: Final = (
    *("runtime", "protocol", "storage", "coordinator", "client", "broker", "pipeline"),
    *("model", "simulation", "conformance"),
)
"""Folders of `tests/` in which tests that only compute stand beside real ones."""
REAL: Final = ("wire", "kafka_tools", "crash", "applications", "cluster")
RULES: Final = tuple(sorted(f"tests/{path.name}" for path in (ROOT / "tests").glob("test_*.py")))
"""Modules about the checkout itself."""
FOLDERS: Final = tuple(f"tests/{name}" for name in (*ROOMS, *REAL))
PYTEST: Final = (sys.executable, "-m", "pytest", "-q", "-rfE", "--continue-on-collection-errors")


def on(workers: int) -> tuple[str, ...]:
    """Options that share the tests between so many processes."""
    return ("-n", str(workers), "--dist", "worksteal")


@dataclass(frozen=True, slots=True)
class Stage:
    """A command, and the tiers of the proof that it belongs to."""

    name: str
    tier: str
    """test: a newcomer's and each commit's; full: the longer proofs of a push"""
    command: tuple[str, ...]
    beside: bool = False
    """It runs at the same time as the stage before it: both wait a good part of their time."""

    @property
    def of_tests(self) -> bool:
        """Whether it is a run of pytest, which tells of each test."""
        return self.command[: len(PYTEST)] == PYTEST


STAGES: Final = (
    Stage("check", "test", ("make", "--no-print-directory", "--keep-going", "check")),
    Stage("tidy and docs", "test", (*PYTEST, "-m", "not full", *RULES)),
    Stage("pure", "test", (*PYTEST, *on(CORES), "-m", "not process and not spark and not full", *FOLDERS)),
    Stage(
        "pure, longer",
        "full",
        (*PYTEST, *on(CORES), "-m", "full and not process and not spark and not cluster_long", *FOLDERS),
    ),
    # Which builds the wheel as `make wheels` does.
    Stage("compiled", "full", (*PYTEST, "-m", "full", *RULES)),
    # Real tests wait for disks, timers and other processes a third of their time: one more of them than cores.
    Stage("real", "test", (*PYTEST, *on(CORES + 1), "-m", "process and not spark and not full", *FOLDERS)),
    Stage("clients", "test", (*PYTEST, *on(3), "-m", "not full", "tests/clients")),
    # Spark gives a Python worker ten seconds to start, so it runs beside nothing busier than clients.
    Stage("spark", "test", (*PYTEST, "-m", "spark and not full and not spark_full", "tests/pipeline"), beside=True),
    Stage(
        "real, longer",
        "full",
        (
            *PYTEST,
            *on(CORES + 1),
            "-m",
            "full and process and not spark and not cluster_long",
            *FOLDERS,
            "tests/clients",
        ),
    ),
    Stage("spark, longer", "full", (*PYTEST, "-m", "spark and full and not spark_full", "tests/pipeline")),
)
TIERS: Final = tuple(dict.fromkeys(stage.tier for stage in STAGES))
