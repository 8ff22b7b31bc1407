"""The examples of the pages are run, in their order, and print what the pages say."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from shell import Shell
from waiting import HANG_S

pytestmark = pytest.mark.process

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("cli.md", "quickstart.md")

_VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\.\d{3}Z"), "(a time)"),
    (re.compile(r'"timestamp":\d+'), '"timestamp":0'),
    (re.compile(r"topic id [\w-]{22}"), "topic id (an id)"),
)


def examples(page: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a page, and the lines that follow it."""
    command, printed = "", list[str]()
    for line in [*(DOCS / page).read_text().splitlines(), "end"]:
        if command and (line.startswith("    $ ") or not line.startswith("    ")):
            yield command, printed
            command = ""
        if line.startswith("    $ "):
            command, printed = line.removeprefix("    $ "), []
        elif command:
            printed.append(line.removeprefix("    "))


def settled(line: str) -> str:
    """A line without what differs from run to run."""
    for varying, instead in _VARYING:
        line = varying.sub(instead, line)
    return line


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_print_what_it_says(page: str, own: Shell) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    found = list(examples(page))
    assert len(found) > 5
    for command, printed in found:
        done = subprocess.run(
            ["bash", "-c", command],
            env={**own.environment, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=HANG_S,
        )
        assert [settled(line) for line in done.stdout.splitlines()] == [settled(line) for line in printed], command
