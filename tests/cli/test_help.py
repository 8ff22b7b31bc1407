"""What every command tells about itself, and what a shell is told at TAB."""

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from shell import PROGRAM, Shell
from waiting import HANG_S
from wire import unique

from eosin.cli.__main__ import COMMANDS, main
from eosin.cli.common.arguments import Parser

pytestmark = pytest.mark.process

OURS = [name for name in COMMANDS if name not in ("testing", "lab", "pipeline")]


def parser_of(command: str) -> Parser:
    found: Parser = import_module(f"eosin.cli.{command.replace('-', '_')}").parser()
    return found


def actions_of(parser: Parser) -> Iterator[Parser]:
    """A parser, and those of its actions."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


@pytest.mark.parametrize("command", OURS)
def test_the_help_of_every_command_ends_with_examples_that_it_understands(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "positions.csv").write_text("orders,0,5\n")  # options that name a file of input read it at once
    for parser in actions_of(parser_of(command)):
        assert parser.examples, parser.prog
        assert parser.format_help().rstrip().endswith(parser.examples[-1])
        for example in parser.examples:
            for part in example.split(" | "):
                words = shlex.split(part.partition(" < ")[0].partition(" > ")[0].removeprefix('eval "$(').rstrip(')"'))
                if words[0] == "eosin":
                    parser_of(words[1]).parse_args(words[2:])


def test_every_command_that_asks_a_cluster_finds_it_and_logs_in_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EOSIN_BOOTSTRAP_SERVER", "elsewhere:1")
    monkeypatch.setenv("EOSIN_COMMAND_CONFIG", "login.properties")
    asking = set()
    for command in OURS:
        for parser in actions_of(parser_of(command)):
            options = parser._option_string_actions
            if "--bootstrap-server" in options and command != "health":  # without an address it asks this machine
                asking.add(command)
                assert options["--bootstrap-server"].default == "elsewhere:1", parser.prog
                assert options["--command-config"].default == "login.properties", parser.prog
                assert "--timeout" in options, parser.prog
    assert {"topics", "produce", "consume", "groups", "configs", "cluster", "transactions", "explain"} <= asking


@pytest.mark.parametrize("columns", ["40", "200"])
def test_help_fits_a_narrow_terminal(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    with pytest.raises(SystemExit):
        main(["groups", "reset-offsets", "--help"])
    described = capsys.readouterr().out.partition("\n\n")[2].partition("examples:")[0]
    assert max(map(len, described.splitlines())) <= int(columns)


def completed(line: str, shell: Shell | None = None, folder: Path | None = None) -> list[str]:
    """What TAB at the end of a line offers."""
    assert folder is not None
    answer = folder / "answer"
    environment = {
        **(os.environ if shell is None else shell.environment),
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    done = subprocess.run(PROGRAM, env=environment, capture_output=True, check=False, timeout=HANG_S)
    assert done.stderr == b""
    return answer.read_text().splitlines() if answer.exists() else []


@pytest.mark.slow
def test_tab_completes_commands_actions_and_options(tmp_path: Path) -> None:
    assert completed("eosin to", folder=tmp_path) == ["topics"]
    assert {"create", "delete", "list"} <= set(completed("eosin topics ", folder=tmp_path))
    assert completed("eosin consume orders --iso", folder=tmp_path) == ["--isolation"]
    assert completed("eosin consume orders --isolation read_c", folder=tmp_path) == ["read_committed"]


def test_tab_completes_the_names_that_the_cluster_has(shell: Shell, tmp_path: Path) -> None:
    topic = shell.topic()
    group = unique("group")
    shell.ok("groups", "reset-offsets", group, "--topic", topic, "--to-latest", "--execute")
    assert completed(f"eosin consume {topic[:-1]}", shell, tmp_path) == [topic]
    assert completed(f"eosin groups describe {group[:-1]}", shell, tmp_path) == [group]
    assert completed(f"eosin explain {group[:-1]}", shell, tmp_path) == [group]
    assert completed(f"eosin explain {topic[:-1]}", shell, tmp_path) == [topic]


@pytest.mark.slow
def test_tab_without_a_broker_offers_nothing_and_says_nothing(tmp_path: Path) -> None:
    assert completed("eosin consume orders --bootstrap-server 127.0.0.1:1 --partition 0 x", folder=tmp_path) == []


@pytest.mark.slow
def test_bash_completes_with_what_the_command_prints(tmp_path: Path) -> None:
    program = (
        'eval "$(eosin completion bash)"; complete -p eosin; '
        "COMP_WORDS=(eosin trans); COMP_CWORD=1; COMP_LINE='eosin trans'; COMP_POINT=11; COMP_TYPE=9; "
        '_python_argcomplete eosin; echo "${COMPREPLY[@]}"'
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", program],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_S,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1].strip() == "transactions"


@pytest.mark.slow
def test_a_broker_imports_nothing_of_it() -> None:
    program = "import sys; from eosin.cli import serve; print([n for n in sys.modules if 'argcomplete' in n])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=HANG_S)
    assert done.stdout == "[]\n"
