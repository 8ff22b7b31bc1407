"""The compiled package (setup.py) behaves as its sources: all tests at the wire, a selection of the sources' own,
simulated worlds, and a client's transactions.

A machine without a C compiler runs Eosin as well as any other, so these tests are skipped there, in CI, too. They are
not about speed.
"""

import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from compiled_broker import compiled_package, compiled_sources, missing
from confluent_kafka import Consumer, Producer
from sources import ROOMS, ROOT, at, fail_for, name_of, outline, sources, text_of
from waiting import HANG_S

pytestmark = pytest.mark.process

BUILT_WITHIN_S = 2000
"""The first test of a run waits for the compiler: two minutes of a core."""
SAME = (
    "tests/broker/fetching/test_sessions.py",
    "tests/cluster/replication/test_fetcher.py",
    "tests/cluster/replication/test_followed_partition.py",
    "tests/cluster/replication/test_replica_set.py",
    "tests/cluster/replication/test_resting_partitions.py",
    "tests/cluster/replication/test_serving_followers.py",
    "tests/cluster/replication/test_serving_readers.py",
    "tests/protocol/test_frames.py",
    "tests/protocol/test_golden.py",
    "tests/protocol/test_records.py",
    "tests/coordinator/test_decide.py",
    "tests/coordinator/test_transaction_coordinator.py",
    "tests/coordinator/test_transaction_log.py",
    "tests/coordinator/test_transcripts.py",
    "tests/storage/test_partition_log.py",
    "tests/storage/test_partition_log_idempotence.py",
    "tests/storage/test_partition_log_transactions.py",
    "tests/storage/test_record_walk.py",
    "tests/storage/test_validation.py",
    "tests/network/test_connection.py",
    "tests/runtime/test_clock.py",
    "tests/security/test_authorizer.py",
)
PATCHED = (
    "tests/broker/fetching/test_sessions.py::test_sessions_never_hold_more_than_their_bytes_and_a_user_never_more_than_its_share",
    "tests/broker/fetching/test_sessions.py::test_who_holds_most_gives_way_to_who_holds_less",
    "tests/cluster/replication/test_serving_followers.py::test_an_idle_follower_is_looked_at_by_comparisons_alone",
    "tests/storage/test_log_manager.py::test_logs_together_leave_only_so_many_batches_to_recover",
    "tests/storage/test_validation.py::test_a_count_beyond_the_limit_is_refused_without_a_walk",
    "tests/storage/test_validation.py::test_a_decompression_bomb_is_too_large",
    "tests/storage/test_validation.py::test_of_a_batch_of_many_small_blocks_few_are_read_before_a_thread_gets_it",
    "tests/coordinator/test_transaction_coordinator.py::test_a_listing_of_many_ids_goes_on_in_turns_with_everybody_else",
)
"""Tests that put something in the place of a constant or a function: a compiled module has both in its code."""
ONCE = pytest.mark.xdist_group("sources")
"""In one process, with the other rules about sources, so that each file is parsed once."""


@pytest.fixture(scope="module")
def package() -> Path:
    lacks = missing()
    if lacks is not None:
        pytest.skip(f"the package cannot be compiled here: {lacks}")
    return compiled_package() / "package"


def environment(package: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(package)}


@ONCE
def test_a_compiled_module_gives_no_name_to_two_kinds_of_error() -> None:
    """mypyc takes the type of the first for both, and then raises a TypeError in the place of the second."""
    offences = []
    for path in compiled_sources():
        for function in outline(path).functions:
            kinds: dict[str, set[str]] = {}
            for handler in outline(path).handlers:
                if function.line <= handler.line <= function.end and handler.name and handler.kind:
                    kinds.setdefault(handler.name, set()).add(handler.kind)
            offences += [
                f"{at(path, function.line)} {function.name} names {' and '.join(sorted(caught))} {name}"
                for name, caught in kinds.items()
                if len(caught) > 1
            ]
    fail_for(offences, "a function of a compiled module gives each kind of error a name of its own")


@ONCE
def test_no_class_has_a_base_that_the_compiler_does_not_allow() -> None:
    """A compiled class refuses a plain one derived from it when the module is imported, so the wheel would not start.
    The compiler takes no `__slots__` of a compiled class with a plain base of ours."""
    compiled = {installed_name(path): path for path in compiled_sources()}
    classes = {(module, each.name) for module, path in compiled.items() for each in outline(path).classes}
    offences = []
    for path in sources(*ROOMS):
        imported = {known: (each.module, name) for each in outline(path).imports for known, name in each.names}
        for each in outline(path).classes:
            bases = {imported[base] for base in each.bases if base in imported}
            if installed_name(path) not in compiled:
                offences += [
                    f"{at(path, each.line)} {each.name} is plain, {base} compiled" for _, base in bases & classes
                ]
            elif any("__slots__" in line for line in text_of(path).splitlines()[each.line - 1 : each.end]):
                offences += [
                    f"{at(path, each.line)} {each.name} is compiled and has slots, {base} is plain"
                    for module, base in bases
                    if module.startswith("eosin.") and module not in compiled
                ]
    assert classes
    fail_for(offences, "plain and compiled classes derive from their own kind")


def installed_name(path: Path) -> str:
    return "eosin." + name_of(path.with_suffix("")).replace("/", ".")


def test_every_pattern_of_the_list_finds_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that finds nothing, after a module was renamed, would leave it plain in silence."""
    monkeypatch.setattr("setuptools.setup", dict)
    listed = runpy.run_path(str(ROOT / "setup.py"), run_name="listed")
    idle = [pattern for pattern in (*listed["COMPILED"], *listed["PLAIN"]) if not list(ROOT.glob(pattern))]
    fail_for(idle, "every pattern of setup.py finds a module")
    assert [ROOT / path for path in listed["modules"]()] == compiled_sources()


def test_a_front_end_is_told_of_all_that_the_compiler_has_to_see(monkeypatch: pytest.MonkeyPatch) -> None:
    """It installs that into an empty environment; here, where everything is installed, nothing would be missed."""
    asked: dict[str, list[str]] = {}
    monkeypatch.setattr("setuptools.setup", asked.update)
    monkeypatch.setenv("EOSIN_COMPILE", "1")
    monkeypatch.setattr(sys, "argv", ["setup.py", "egg_info"])
    runpy.run_path(str(ROOT / "setup.py"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    types = {each for each in project["optional-dependencies"]["test"] if re.match("types-|.*-typing", each)}
    assert any(each.startswith("construct-typing") for each in types)
    assert {*asked["setup_requires"]} >= {*project["dependencies"], *types}


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.timeout(BUILT_WITHIN_S)
def test_every_module_of_the_list_is_compiled_and_has_its_source_beside_it(package: Path) -> None:
    asked = {f"eosin/{path.relative_to(ROOT).with_suffix('').as_posix()}" for path in compiled_sources()}
    built = {f"{path.relative_to(package).parent}/{path.name.split('.')[0]}" for path in package.rglob("eosin/**/*.so")}
    assert built == asked
    assert all((package / f"{module}.py").exists() for module in asked)


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.timeout(BUILT_WITHIN_S)
def test_the_version_says_that_it_is_compiled(package: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "eosin.cli", "--version"]
    told = subprocess.run(
        command, cwd=tmp_path, env=environment(package), capture_output=True, text=True, check=True
    ).stdout
    assert told.endswith(", compiled\n")


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.timeout(BUILT_WITHIN_S)
def test_the_compiled_package_passes_the_tests_of_its_sources(package: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow and not full", *SAME]
    for name in PATCHED:
        command += ["--deselect", name]
    ran = subprocess.run(command, cwd=ROOT, env=environment(package), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-20000:]


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.timeout(2 * BUILT_WITHIN_S)
def test_a_compiled_broker_passes_every_test_at_the_wire(package: Path) -> None:
    """In the process of the test where that has virtual time; `make proof-wire` asks a process in all of them."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "auto", "--dist", "worksteal"]
    ran = subprocess.run([*command, "tests/wire"], cwd=ROOT, env=environment(package), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-20000:]
    assert " passed" in ran.stdout


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.timeout(BUILT_WITHIN_S)
def test_the_compiled_package_holds_in_simulated_worlds(package: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "simulation", "--runs", "20", "--seed", "1", "--workers", "1"]
    where = os.pathsep.join(str(each) for each in (package, ROOT / "tests" / "support", ROOT / "tests"))
    ran = subprocess.run(
        [*command, "--state", str(tmp_path / "state.json")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": where},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-5000:]


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.timeout(BUILT_WITHIN_S)
@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_a_client_commits_and_aborts_at_a_compiled_broker(
    package: Path, durability: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(package))
    with BrokerProcess(tmp_path / "data", durability=durability) as broker:
        assert broker.ready_line.endswith(", compiled)\n")
        producer = Producer({"bootstrap.servers": broker.address, "transactional.id": "compiled"})
        producer.init_transactions(HANG_S)
        for number in range(10):
            producer.begin_transaction()
            producer.produce("orders", value=f"{number}")
            if number % 2:
                producer.abort_transaction(HANG_S)
            else:
                producer.commit_transaction(HANG_S)
        assert committed(broker.address, 5) == [b"0", b"2", b"4", b"6", b"8"]
        assert "Traceback" not in broker.log


def committed(address: str, count: int) -> list[bytes | None]:
    """The values of so many records, as a `read_committed` consumer gets them."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "compiled", "auto.offset.reset": "earliest"}
        | {"isolation.level": "read_committed"}
    )
    consumer.subscribe(["orders"])
    try:
        return [message.value() for message in consumer.consume(count, timeout=HANG_S)]
    finally:
        consumer.close()
