"""The wheel alone is a broker: built, installed into an empty environment, started, asked, stopped."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from waiting import HANG_S

ROOT = Path(__file__).parent.parent
ROOMS = (
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
    "testing",
    "pipeline",
)

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the sources, so that the checkout stays as it is."""
    source = tmp_path_factory.mktemp("source")
    for room in ROOMS:
        shutil.copytree(ROOT / room, source / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "setup.py"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", "dist", "."]
    subprocess.run(command, cwd=source, check=True)
    (built,) = (source / "dist").glob("eosin-*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment that holds the wheel and nothing else; its folder of commands."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", str(wheel)]
    subprocess.run(command, check=True)
    return home / "bin"


def run(*command: object, cwd: Path) -> subprocess.Popen[str]:
    # Dependencies come from this environment by path, which does not activate the editable install beside them.
    variables = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
    return subprocess.Popen(
        [str(part) for part in command],
        cwd=cwd,
        env=variables,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_the_wheel_holds_every_module_the_pages_of_the_console_the_class_of_java_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    sources = {f"eosin/{path.relative_to(ROOT).as_posix()}" for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    pages = (path for path in (ROOT / "observe" / "console" / "static").rglob("*") if path.is_file())
    sources |= {f"eosin/{path.relative_to(ROOT).as_posix()}" for path in pages}
    java = {"TxnWriter.java", "signatures.txt"} | ({"eosin-realtime.jar"} if shutil.which("javac") else set())
    sources |= {f"eosin/pipeline/realtime/{name}" for name in java}
    typed = {f"eosin/{room}/py.typed" for room in ("lab", "testing")}
    assert packed == sources | typed | {"pyspark_eosin.py"}


def test_a_broker_starts_answers_and_stops_from_the_wheel_alone(environment: Path, tmp_path: Path) -> None:
    broker = run(
        environment / "eosin", "serve", "--listen", "127.0.0.1:0", "--data-dir", tmp_path / "data", cwd=tmp_path
    )
    assert broker.stdout is not None
    ready = broker.stdout.readline()
    try:
        assert " ready on " in ready, broker.communicate(timeout=HANG_S)
        address = ready.split(" ready on ")[1].split()[0]
        health = run(environment / "eosin", "health", address, cwd=tmp_path)
        assert health.communicate(timeout=HANG_S)[0] == f"{address} answers\n"
        assert health.returncode == 0
    finally:
        broker.terminate()
        out, err = broker.communicate(timeout=HANG_S)
    assert (broker.returncode, out) == (0, "")
    assert "Traceback" not in err


def test_a_broker_for_tests_runs_from_the_wheel_alone(environment: Path, tmp_path: Path) -> None:
    broker = run(environment / "eosin", "testing", "--topics", "orders", "--ready-line", cwd=tmp_path)
    assert broker.stdout is not None
    address = broker.stdout.readline().strip()
    topics = run(environment / "eosin", "topics", "list", "--bootstrap-server", address, "--json", cwd=tmp_path)
    assert '"orders"' in topics.communicate(timeout=HANG_S)[0]
    broker.terminate()
    assert broker.communicate(timeout=HANG_S) == ("", "")
    assert broker.returncode == 0


def test_a_broker_run_from_the_wheel_is_that_of_the_wheel(environment: Path, tmp_path: Path) -> None:
    code = "import eosin.node.node as s; print(s.__file__)"
    where, _ = run(environment / "python", "-c", code, cwd=tmp_path).communicate(timeout=HANG_S)
    assert Path(where.strip()).is_relative_to(environment.parent)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_the_bill_of_materials_names_what_an_installed_eosin_depends_on(tmp_path: Path) -> None:
    for room in ROOMS:
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "setup.py", "Makefile"):
        shutil.copy(ROOT / name, tmp_path)
    subprocess.run(["make", "sbom", f"PYTHON={sys.executable}"], cwd=tmp_path, check=True, capture_output=True)
    bill = json.loads((tmp_path / "dist" / "eosin.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "eosin"
    named = {canonicalize_name(each["name"]) for each in bill["components"]}
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {re.split("[<>=;]", each)[0] for each in settings["dependencies"]}
    assert wanted <= named
    assert not named & {"pip", "pytest", "cyclonedx-bom", "pyspark"}
