"""What .ci/tools would install on a machine, shown with a PATH that holds only some of the tools."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SHELL = ("sh", "dirname", "tr", "sort", "sed", "id", "env", "uname")
TOOLS = {
    "java": "default-jdk-headless",
    "javac": "default-jdk-headless",
    "mvn": "maven",
    "node": "nodejs",
    "npm": "npm",
    "cc": "gcc",
    "chromium": "chromium",
    "make": "make",
    "zsh": "zsh",
    "fish": "fish",
}


def missing(folder: Path, tools: set[str], *, python: bool) -> set[str]:
    """The packages that .ci/tools would install on a machine that has these tools."""
    folder.mkdir()
    for name in SHELL:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    for name in tools:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    command = sys.executable if python else "no-such-python"
    told = subprocess.run(
        [str(ROOT / ".ci" / "tools"), "--list"],
        env={**os.environ, "PATH": str(folder), "PYTHON": command},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(told.stdout.split())


def test_a_machine_with_everything_gets_nothing(tmp_path: Path) -> None:
    assert missing(tmp_path / "bin", set(TOOLS), python=True) <= {"python3-dev"}, "headers may be missing here"


@pytest.mark.parametrize("tool", sorted(TOOLS))
def test_a_missing_tool_is_installed_by_the_package_that_has_it(tmp_path: Path, tool: str) -> None:
    assert TOOLS[tool] in missing(tmp_path / "bin", set(TOOLS) - {tool}, python=True)


def test_an_empty_machine_gets_everything(tmp_path: Path) -> None:
    python = {"python3", "python3-venv", "python3-dev"}
    assert missing(tmp_path / "bin", set(), python=False) == {*TOOLS.values(), *python}


def test_every_step_of_the_proof_is_a_target_of_make() -> None:
    targets = {line.split(":")[0] for line in (ROOT / "Makefile").read_text().splitlines() if ":" in line}
    steps = [line.split()[-1] for line in (ROOT / ".ci" / "run").read_text().splitlines() if "make " in line]
    assert steps == ["test", "test-full", "wheels"]
    assert set(steps) <= targets


ASKED_AGAIN = """
import asyncio, time
from pathlib import Path
import pytest

def first(name):
    marker = Path(name)
    if marker.exists():
        return False
    marker.touch()
    return True

async def ran_out():
    if first("a"):
        async with asyncio.timeout(0.01):
            await asyncio.sleep(1)

def test_a_timeout():
    asyncio.run(ran_out())

def test_a_deadline():
    if first("b"):
        assert time.monotonic() < 0.5, "still waiting"

def test_a_sentence():
    assert not first("c"), "the broker did not stop within 10 s"

def test_a_wrong_answer():
    assert not first("d")

def test_a_number_too_many():
    assert (3 if first("e") else 2) == 2
"""


def test_a_test_that_timed_out_runs_again_and_one_that_failed_does_not(tmp_path: Path) -> None:
    (given,) = re.findall(r"^PYTEST_ADDOPTS='(.+)'$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    (tmp_path / "test_again.py").write_text(ASKED_AGAIN)
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", "."],
        env={**os.environ, "PYTEST_ADDOPTS": given.replace("--reruns-delay 5", "--reruns-delay 0")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    assert re.search(r"2 failed, 3 passed,.* 3 rerun", told), told
    assert len(re.findall(r"^RERUN ", told, re.MULTILINE)) == 3, told
    assert set(re.findall(r"^FAILED .*::(\w+)", told, re.MULTILINE)) <= {
        "test_a_wrong_answer",
        "test_a_number_too_many",
    }
