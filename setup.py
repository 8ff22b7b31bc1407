"""Compiles the modules on the path of a transaction, if EOSIN_COMPILE=1 asks for it; else the wheel is plain Python.

The sources stay what they are and are in the wheel as well: a compiled module is found before its source. Editable
installs are never compiled. Why, and what it gains: docs/adr/0025-compiled-if-asked-for.md.
"""

import contextlib
import os
import shutil
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from setuptools import setup

if TYPE_CHECKING:
    from setuptools import Extension

ROOT: Final = Path(__file__).resolve().parent
ASKED: Final = os.environ.get("EOSIN_COMPILE") == "1"
LEVEL: Final = os.environ.get("EOSIN_COMPILE_LEVEL", "3")
"""Of the C compiler's optimisation; 0 builds in a fifth of the time, for a test."""
COMPILER: Final = "mypy[mypyc]>=2.4,<3"
TYPES: Final = ("construct-typing", "types-aiofiles")
"""Of dependencies that have none of their own; the compiler takes no class whose base it does not know."""

MODULES: Final = {
    "protocol": """
        batch_header codec compression control_records frames headers key_values plain_batch record_codec record_fields
        records varints
    """,
    "storage": """
        aborted_index appends clock compaction/batch_filter compaction/job compaction/key_map
        compaction/key_pass compaction/pace compaction/record_spans compaction/segment_input
        compaction/segment_output files index_rows leader_epochs log_config offset_index open_transactions
        partition_log producer_entry producer_state record_walk running_time segment segmented_log segments
        sparse_index time_index validation verification waiters
    """,
    "coordinator": """
        admission effects eager ending entries errors expiry hashing in_turns interpreter introduction keeping machine
        markers owed producer_ids requests service state_value timeout_answers transaction_log transitions txn
    """,
    "broker": """
        connection exchange fetching/long_poll fetching/waits handlers/add_partitions_to_txn handlers/end_txn
        handlers/produce partitions produced transactions/markers transactions/order transactions/verification
    """,
}
"""Those that are busy while a transaction is written; they call each other without the interpreter in between."""

ROOMS: Final = (*MODULES, "client")
"""The rooms that those refer to."""


def compiled() -> "list[Extension]":
    """An extension for each of the modules, and the library that they share."""
    from mypyc.build import mypycify

    work = ROOT / "build" / "mypyc"
    work.mkdir(parents=True, exist_ok=True)
    # A module that is no longer in the list would come from an earlier build, and not fit.
    for earlier in work.parent.glob("lib.*"):
        shutil.rmtree(earlier)
    # Modules are named by their paths, so the rooms are shown under the name that they are installed with; as copies,
    # since the compiler writes beside its sources.
    shutil.rmtree(work / "eosin", ignore_errors=True)
    for room in ROOMS:
        shutil.copytree(ROOT / room, work / "eosin" / room, ignore=shutil.ignore_patterns("__pycache__"))
    paths = [f"eosin/{room}/{module}.py" for room, names in MODULES.items() for module in names.split()]
    options = ["--config-file=", "--namespace-packages", "--explicit-package-bases", "--ignore-missing-imports"]
    with contextlib.chdir(work):
        return mypycify([*options, *paths], opt_level=LEVEL, debug_level="0", target_dir=str(work), group_name="eosin")


def needed() -> list[str]:
    """What has to be installed while a wheel is compiled: the compiler, and what the types of the sources refer to."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    types = [each for each in project["optional-dependencies"]["test"] if each.startswith(TYPES)]
    return [COMPILER, *types, *project["dependencies"]]


if ASKED and "bdist_wheel" in sys.argv:
    setup(ext_modules=compiled(), options={"build_ext": {"parallel": os.cpu_count()}})
elif ASKED:
    setup(setup_requires=needed())  # this is how a front end of pip's kind asks what it has to install first
else:
    setup()
