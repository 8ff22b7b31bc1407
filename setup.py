"""Finds the packages, and compiles the modules on the path of a transaction if EOSIN_COMPILE=1 asks for it, as
`make wheels` and the image do; else the wheel is plain Python.

The sources stay what they are and are in the wheel as well: a compiled module is found before its source. Editable
installs are never compiled. Why, and what it gains: docs/adr/0025-compiled-if-asked-for.md and
docs/adr/0036-wheels-and-the-image-are-compiled.md. A wheel also gets the jar of `pipeline/realtime`, where there is a
JDK: docs/adr/0055-one-class-of-java.md.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from setuptools import setup
from setuptools.command.build_py import build_py

if TYPE_CHECKING:
    from setuptools import Extension

ROOT: Final = Path(__file__).resolve().parent
ASKED: Final = os.environ.get("EOSIN_COMPILE") == "1"
LEVEL: Final = os.environ.get("EOSIN_COMPILE_LEVEL", "1")
"""Of the C compiler's optimisation: 3 takes more than three times as long as 1, and 0 a third."""
COMPILER: Final = "mypy[mypyc]>=2.4,<3"
TYPES: Final = ("construct-typing", "types-aiofiles")
"""Of dependencies that have none of their own; the compiler takes no class whose base it does not know."""

COMPILED: Final = (
    "runtime/clock.py",
    "runtime/running_time.py",
    "runtime/start_now.py",
    "protocol/codegen/varints.py",
    "protocol/records/*.py",
    "protocol/wire/codec.py",
    "protocol/wire/frames.py",
    "protocol/wire/headers.py",
    "storage/compaction/batch_filter.py",
    "storage/compaction/job.py",
    "storage/compaction/key_map.py",
    "storage/compaction/key_pass.py",
    "storage/compaction/pace.py",
    "storage/compaction/record_spans.py",
    "storage/compaction/segment_input.py",
    "storage/compaction/segment_output.py",
    "storage/disk/system.py",
    "storage/indexes/*.py",
    "storage/log/checkpoint_state.py",
    "storage/log/committed_log.py",
    "storage/log/config.py",
    "storage/log/context.py",
    "storage/log/leader_batches.py",
    "storage/log/leader_epochs.py",
    "storage/log/partition_log.py",
    "storage/log/readable_log.py",
    "storage/log/record_walk.py",
    "storage/log/segment.py",
    "storage/log/segmented_log.py",
    "storage/log/segments.py",
    "storage/log/validation.py",
    "storage/producers/*.py",
    "storage/results/log_results.py",
    "coordinator/hashing.py",
    "coordinator/replay.py",
    "coordinator/transactions/*.py",
    "coordinator/transactions/log/encoder.py",
    "coordinator/transactions/log/records.py",
    "coordinator/transactions/rules/*.py",
    "network/connection.py",
    "network/fetch_in_flight.py",
    "network/host.py",
    "network/response_queue.py",
    "network/transaction_order.py",
    "network/exchange.py",
    "broker/fetching/long_poll.py",
    "broker/fetching/resting.py",
    "broker/fetching/sessions.py",
    "broker/handlers/add_partitions_to_txn.py",
    "broker/handlers/end_txn.py",
    "broker/handlers/fetch.py",
    "broker/handlers/produce.py",
    "broker/handlers/write_txn_markers.py",
    "network/large_exchange.py",
    "broker/partitions.py",
    "broker/producing/produced.py",
    "broker/producing/refused_batches.py",
    "broker/requests/fetch_pass.py",
    "broker/requests/produce_request.py",
    "security/acl_index.py",
    "network/sasl/raw_exchange.py",
    "broker/markers.py",
    "broker/transactions/verification.py",
    "cluster/replication/coordinator_log.py",
    "cluster/replication/fetch_session.py",
    "cluster/replication/fetcher.py",
    "cluster/replication/followed_replica.py",
    "cluster/replication/known_follower.py",
    "cluster/replication/led_partitions.py",
    "cluster/replication/rules/*.py",
)
"""Where a transaction spends its time, on its way to the replicas, too, and a question of rights: whole folders where
nearly all of a folder does. Compiled modules call each other without the interpreter in between."""

PLAIN: Final = (
    "coordinator/transactions/ports.py",
    "coordinator/transactions/rules/config.py",
    "coordinator/transactions/rules/listing.py",
    "coordinator/transactions/rules/many_partitions.py",
    "storage/producers/snapshot.py",
)
"""What stands in those folders and stays plain: it runs rarely, mypyc 2.4 stumbles over a loop of the snapshot, and it
compiles no class that is a set."""

PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())
_FOLDERS: Final[dict[str, str]] = PROJECT["tool"]["setuptools"]["package-dir"]
ROOMS: Final = {name: folder for name, folder in _FOLDERS.items() if name}
"""By the names that they are installed with."""
OUTSIDE: Final = ("pyspark_eosin",)
"""Modules that others find by their name alone."""


def packages() -> list[str]:
    """Every folder of a room that is a package, so that none is forgotten in a wheel."""
    folders = {
        name: [path.parent.relative_to(ROOT / room) for path in (ROOT / room).rglob("__init__.py")]
        for name, room in ROOMS.items()
    }
    return sorted(".".join((name, *folder.parts)) for name, found in folders.items() for folder in found)


def modules() -> list[str]:
    """The paths of the modules that are compiled."""
    found = {path.relative_to(ROOT).as_posix() for pattern in COMPILED for path in ROOT.glob(pattern)}
    return sorted(path for path in found if path not in PLAIN and not path.endswith("__init__.py"))


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
    for room in ROOMS.values():
        shutil.copytree(ROOT / room, work / "eosin" / room, ignore=shutil.ignore_patterns("__pycache__"))
    paths = [f"eosin/{module}" for module in modules()]
    options = ["--config-file=", "--namespace-packages", "--explicit-package-bases", "--ignore-missing-imports"]
    with contextlib.chdir(work):
        found = mypycify([*options, *paths], opt_level=LEVEL, debug_level="0", target_dir=str(work), group_name="eosin")
    for each in found:
        # mypyc makes every warning an error; what another release of the C compiler warns of shall not stop a build.
        # Nobody reads warnings about generated code, and to look for them takes gcc three times as long as the code.
        # The extensions share one list, so each gets its own.
        each.extra_compile_args = [*each.extra_compile_args, "-Wno-error", "-Wno-all"]
    return found


class BuildWithJar(build_py):
    """Adds the jar of the one class of Java; without a JDK, the first use compiles it, or says what is missing."""

    def run(self) -> None:
        super().run()
        compiler = shutil.which("javac")
        if self.editable_mode:
            return
        if compiler is None:
            print("no javac: this wheel has no jar for Real-time Mode (docs/adr/0055-one-class-of-java.md)")
            return
        jar = Path(self.build_lib) / "eosin" / "pipeline" / "realtime" / "eosin-realtime.jar"
        jar.parent.mkdir(parents=True, exist_ok=True)
        java_jar(compiler, jar)


def java_jar(compiler: str, jar: Path) -> None:
    """Compile the class with nothing but the signatures of what it uses."""
    room = ROOT / "pipeline" / "realtime"
    with tempfile.TemporaryDirectory() as folder:
        sources, classes = Path(folder) / "sources", Path(folder) / "classes"
        for part in (room / "signatures.txt").read_text().split("\n--- ")[1:]:
            name, _, text = part.partition("\n")
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            (sources / name).write_text(text)
        words = ["--release", "17", "-proc:none", "-nowarn", "-implicit:none", "-sourcepath", str(sources)]
        subprocess.run([compiler, *words, "-d", str(classes), str(room / "TxnWriter.java")], check=True)
        with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
            for each in sorted(classes.rglob("*.class")):
                archive.writestr(
                    zipfile.ZipInfo(each.relative_to(classes).as_posix()), each.read_bytes(), zipfile.ZIP_DEFLATED
                )


def needed() -> list[str]:
    """What has to be installed while a wheel is compiled: the compiler, and what the types of the sources refer to."""
    project = PROJECT["project"]
    types = [each for each in project["optional-dependencies"]["test"] if each.startswith(TYPES)]
    return [COMPILER, *types, *project["dependencies"]]


FOUND: Final[dict[str, Any]] = {
    "packages": packages(),
    "py_modules": OUTSIDE,
    "cmdclass": {"build_py": BuildWithJar},
    # Beside this file, and not in the folder of those modules, from where it would get into the wheel.
    "options": {"egg_info": {"egg_base": "."}},
}

if ASKED and "bdist_wheel" in sys.argv:
    FOUND["options"]["build_ext"] = {"parallel": os.cpu_count()}
    setup(**FOUND, ext_modules=compiled())
elif ASKED:
    # this is how a front end of pip's kind asks what it has to install first
    setup(**FOUND, setup_requires=needed())
else:
    setup(**FOUND)
