"""The tutorial of security: its commands are run in one shell, in their order, with the files that it shows, and print
what it says. Only the port differs."""

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from free_ports import free_port
from waiting import HANG_S

pytestmark = pytest.mark.process

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "security" / "tutorial.md"
PORT: Final = "9093"
"""On the page."""
SERVE: Final = "eosin serve"


class Step(NamedTuple):
    """A command and what it prints, or a file and what is in it."""

    command: str
    file: str
    lines: list[str]


def steps(text: str) -> Iterator[Step]:
    """Every block of the page: each of its commands, or the file that the line before it names."""
    for before, block in re.findall(r"^(\S.*)\n\n((?:    .*\n|\n(?=    ))+)", text, re.MULTILINE):
        lines = textwrap.dedent(block).splitlines()
        if not lines[0].startswith("$ "):
            (file,) = re.findall(r"`(\w+\.\w+)`:$", before)
            yield Step("", file, lines)
            continue
        for command_and_lines in re.split(r"^\$ ", "\n".join(lines), flags=re.MULTILINE)[1:]:
            command, *printed = command_and_lines.rstrip("\n").split("\n")
            yield Step(command, "", printed)


class OneShell:
    """A shell that goes on from command to command, as a reader's does. A context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith("EOSIN_")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**kept, "PATH": path}
        self._shell = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: str) -> list[str]:
        """What a command prints."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{command}\necho; echo that was all\n")
        self._shell.stdin.flush()
        printed = list(iter(self._shell.stdout.readline, "that was all\n"))
        return "".join(printed).removesuffix("\n").splitlines()

    def end(self) -> None:
        self._shell.communicate(timeout=HANG_S)


@pytest.mark.smoke
@pytest.mark.slow
def test_the_tutorial_of_security_does_what_it_says(tmp_path: Path) -> None:
    port = str(free_port())
    shell, broker = OneShell(tmp_path), None
    found = list(steps(PAGE.read_text().replace(PORT, port)))
    assert sum(1 for each in found if each.command) > 20
    assert {each.file for each in found if each.file} == {"server.properties", "admin.properties", "orders.py"}
    try:
        for command, file, lines in found:
            if file:
                (tmp_path / file).write_text("\n".join(lines) + "\n")
            elif command.startswith(SERVE):
                broker = subprocess.Popen(
                    command.split(), cwd=tmp_path, env=shell.environment, stdout=subprocess.PIPE, text=True
                )
                assert broker.stdout is not None
                assert f" ready on 127.0.0.1:{port} " in broker.stdout.readline()
            else:
                assert shell.run(command) == lines, command
    finally:
        shell.end()
        if broker is not None:
            broker.terminate()
            broker.communicate(timeout=HANG_S)
    assert broker is not None
    assert broker.returncode == 0
