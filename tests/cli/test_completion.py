"""TAB in real shells, each set up as docs/cli.md says."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from shell import Shell
from toolchains import skipped_without, tool
from typed_shell import PROMPT, TypedShell
from waiting import HANG_S
from wire import unique

pytestmark = pytest.mark.process

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
FILES = {
    "bash": (".bashrc", f"PS1='{PROMPT}'\n"),
    "zsh": (".zshrc", f"PS1='{PROMPT}'\n"),
    "fish": (".config/fish/config.fish", f"function fish_prompt; printf '{PROMPT}'; end; set fish_greeting\n"),
}
"""Where each keeps what it does at its start, and what a test needs there."""


def lines_of(name: str) -> list[str]:
    """What the page tells a user of that shell."""
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| {name} |")]
    return [each for each in row.split("`")[1::2] if " " in each]


@pytest.fixture(params=list(FILES))
def typed(request: pytest.FixtureRequest, tmp_path: Path, shell: Shell) -> Iterator[TypedShell]:
    with skipped_without():
        program = tool(request.param, f"the completion of {request.param}")
    environment = {
        **{name: value for name, value in shell.environment.items() if name.startswith("EOSIN_")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    file, own = FILES[request.param]
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    lines = lines_of(request.param)
    if request.param == "fish":  # it is told once, at a prompt
        (tmp_path / ".config/fish/completions").mkdir()
        # Without this folder fish reads all manual pages in a process of its own, which may outlive it.
        (tmp_path / ".local/share/fish/generated_completions").mkdir(parents=True)
        subprocess.run(["sh", "-c", *lines], env={**environment, "HOME": str(tmp_path)}, check=True, timeout=HANG_S)
        lines = []
    (tmp_path / file).write_text("\n".join([own, *lines, ""]))
    with TypedShell(program, tmp_path, environment) as opened:
        yield opened


def test_tab_completes_in_a_shell_what_is_then_run(typed: TypedShell, shell: Shell) -> None:
    topic, group = shell.topic(), f"{unique('group')}: of a reader"
    shell.ok("produce", topic, given=b"one book\n")
    shell.ok("groups", "reset-offsets", group, "--topic", topic, "--to-earliest", "--execute")
    typed.type("eosin transa\tlist\r", "TRANSACTIONAL ID")
    typed.type("eosin topics cre\t--help\r", "usage: eosin topics create")
    typed.type(f"eosin consume {topic[:-3]}\t--iso\tread_c\t\r", "one book")
    typed.type(f"eosin groups describe {group[:-13]}\t\r", "1 offsets behind")
    typed.type(f"eosin explain {topic} --command-config .no-such-f\t\r", "cannot read")
