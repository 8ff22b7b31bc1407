"""The programs of docs/lab.md run as they stand against `eosin lab`."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import toolchains
from waiting import HANG_S

PAGE = Path(__file__).parents[3] / "docs/lab.md"

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.full]


@pytest.fixture(scope="module")
def lab_url() -> Iterator[str]:
    command = [sys.executable, "-m", "eosin.lab.serve.command", "--control", "0", "--topics", "orders"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"control (\S+)", process.stdout.readline())
        assert found is not None
        yield found[1]
        process.terminate()


def snippet(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(found)


def run(url: str, *command: object, cwd: Path) -> None:
    environment = {**os.environ, "EOSIN_LAB": url}
    subprocess.run([str(part) for part in command], cwd=cwd, env=environment, timeout=HANG_S, check=True)


def test_the_program_in_java_passes(lab_url: str, tmp_path: Path) -> None:
    with toolchains.skipped_without():
        javac = toolchains.tool("javac", "the program in Java")
    (tmp_path / "LabTest.java").write_text(snippet("java"))
    run(lab_url, Path(javac).parent / "java", "LabTest.java", cwd=tmp_path)


def test_the_program_in_go_passes(lab_url: str, tmp_path: Path) -> None:
    with toolchains.skipped_without():
        go = toolchains.tool("go", "the program in Go")
    (tmp_path / "lab.go").write_text(snippet("go"))
    run(lab_url, go, "run", "lab.go", cwd=tmp_path)


def test_the_program_in_javascript_passes(lab_url: str, tmp_path: Path) -> None:
    with toolchains.skipped_without():
        node = toolchains.tool("node", "the program in JavaScript")
    (tmp_path / "lab.mjs").write_text(snippet("js"))
    run(lab_url, node, "lab.mjs", cwd=tmp_path)
