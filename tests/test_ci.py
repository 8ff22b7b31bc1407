"""What .ci/tools would install on a machine, shown with a PATH that holds only some of the tools."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

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


def test_ci_runs_the_proof_of_a_push() -> None:
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-2:] == [".ci/tools", "exec make gate"]
    gate = (ROOT / "Makefile").read_text().partition("\ngate:")[2].splitlines()[1]
    assert gate.split() == ["$(PROOF)", "gate"]
