"""The compiled package (setup.py) behaves as its sources: all tests at the wire, a selection of the sources' own,
simulated worlds, and a client's transactions.

A machine without a C compiler runs Eosin as well as any other, so these tests are skipped there, in CI, too. They are
not about speed.
"""

import ast
import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from compiled_broker import ROOMS, ROOT, compiled_package, compiled_sources, missing
from confluent_kafka import Consumer, Producer

BUILT_WITHIN_S = 2000
"""The first test of a run waits for the compiler: two minutes of a core."""
SAME = (
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
    "tests/broker/connections/test_connection.py",
    "tests/broker/security/test_authorizer.py",
)
PATCHED = (
    "tests/storage/test_validation.py::test_a_count_beyond_the_limit_is_refused_without_a_walk",
    "tests/storage/test_validation.py::test_a_decompression_bomb_is_too_large",
    "tests/coordinator/test_transaction_coordinator.py::test_a_listing_of_many_ids_goes_on_in_turns_with_everybody_else",
)
"""Tests that put a smaller limit in the place of a constant: a compiled module has the constant in its code."""


@pytest.fixture(scope="module")
def package() -> Path:
    lacks = missing()
    if lacks is not None:
        pytest.skip(f"the package cannot be compiled here: {lacks}")
    return compiled_package() / "package"


def environment(package: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(package)}


@pytest.mark.parametrize("path", compiled_sources(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_compiled_module_gives_no_name_to_two_kinds_of_error(path: Path) -> None:
    """mypyc takes the type of the first for both, and then raises a TypeError in the place of the second."""
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            kinds: dict[str, set[str]] = {}
            for node in ast.walk(function):
                if isinstance(node, ast.ExceptHandler) and node.name is not None and node.type is not None:
                    kinds.setdefault(node.name, set()).add(ast.unparse(node.type))
            assert all(len(each) == 1 for each in kinds.values()), f"{function.name}: {kinds}"


def test_no_plain_class_derives_from_a_compiled_one() -> None:
    """A compiled class refuses that when the module is imported, so the wheel would not start."""
    compiled = set(compiled_sources())
    classes = {(installed_name(path), node.name) for path in compiled for node in definitions(path)}
    derived = []
    for path in sorted(set().union(*((ROOT / room).rglob("*.py") for room in ROOMS)) - compiled):
        imported = {
            each.asname or each.name: (node.module, each.name)
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom)
            for each in node.names
        }
        for node in definitions(path):
            bases = {imported.get(ast.unparse(base).partition("[")[0]) for base in node.bases}
            derived += [f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"] if bases & classes else []
    assert classes
    assert not derived


def test_no_compiled_class_with_slots_derives_from_a_plain_one_of_ours() -> None:
    """The compiler takes no `__slots__` of such a class."""
    compiled = set(compiled_sources())
    modules = {installed_name(path) for path in compiled}
    derived = []
    for path in compiled:
        imported = {
            each.asname or each.name: node.module
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("eosin.")
            for each in node.names
        }
        for node in definitions(path):
            bases = {imported.get(ast.unparse(base).partition("[")[0]) for base in node.bases} - {None}
            if bases - modules and "__slots__" in ast.unparse(node):
                derived.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
    assert not derived


def definitions(path: Path) -> list[ast.ClassDef]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]


def installed_name(path: Path) -> str:
    return "eosin." + path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")


def test_every_pattern_of_the_list_finds_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that finds nothing, after a module was renamed, would leave it plain in silence."""
    monkeypatch.setattr("setuptools.setup", dict)
    listed = runpy.run_path(str(ROOT / "setup.py"), run_name="listed")
    for pattern in (*listed["COMPILED"], *listed["PLAIN"]):
        assert list(ROOT.glob(pattern)), pattern
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
    command = [sys.executable, "-m", "eosin.broker", "--version"]
    told = subprocess.run(
        command, cwd=tmp_path, env=environment(package), capture_output=True, text=True, check=True
    ).stdout
    assert told.endswith(", compiled\n")


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.timeout(BUILT_WITHIN_S)
def test_the_compiled_package_passes_the_tests_of_its_sources(package: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", *SAME]
    for name in PATCHED:
        command += ["--deselect", name]
    ran = subprocess.run(command, cwd=ROOT, env=environment(package), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-20000:]


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.timeout(2 * BUILT_WITHIN_S)
def test_a_compiled_broker_passes_every_test_at_the_wire(package: Path) -> None:
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
        producer.init_transactions(20)
        for number in range(10):
            producer.begin_transaction()
            producer.produce("orders", value=f"{number}")
            if number % 2:
                producer.abort_transaction(20)
            else:
                producer.commit_transaction(20)
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
        return [message.value() for message in consumer.consume(count, timeout=30)]
    finally:
        consumer.close()
