"""The command line: what cannot be started is one sentence and exit code 2, without a traceback."""

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from eosin.cli import __main__ as program
from eosin.cli import serve
from eosin.cli.__main__ import COMMANDS, main
from eosin.cli.serve import configured, ready_line
from eosin.runtime.version import VERSION
from eosin.settings.broker import BrokerConfig


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    """What the command says on stderr, checked to be one line; it must end with `code`."""
    try:
        ended: object = main(arguments)
    except SystemExit as exit_code:
        ended = exit_code.code
    assert ended == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1, err
    return err.strip()


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"eosin {VERSION}\n"


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for name in COMMANDS:
        assert f"  {name} " in text


def test_an_unknown_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, "fly") == "eosin: no command 'fly' (eosin --help lists all)"


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--set", "nothing.known=1"], "unknown setting 'nothing.known'; docs/configuration.md lists all"),
        (["--set", "num.partitions=0"], "num.partitions must be an integer of at least 1, not '0'"),
        (["--listen", "nonsense"], "--listen must be [NAME=]HOST:PORT"),
        (["--listen", "0.0.0.0:0"], "--advertise PLAINTEXT=HOST:PORT"),
        (["--advertise", "OTHER=a:1"], "advertised.listeners names OTHER, but no listener has that name"),
        (["--durability", "memory", "--data-dir", "x"], "durability memory writes nothing"),
        (["--durability", "granite"], "invalid choice: 'granite'"),
        (["--data-dir", "a,b"], "--data-dir must be one directory without a comma"),
        (["--config", "/does/not/exist"], "cannot read the config file /does/not/exist: No such file or directory"),
        (["--data-dir", ""], "log.dirs must name one directory, not none"),
        (
            ["--listen", "127.0.0.1:0", "--data-dir", __file__],
            f"cannot use the data directory {__file__}: it is a file",
        ),
        (["--bogus"], "unrecognized arguments: --bogus"),
    ],
)
def test_a_command_line_that_starts_nothing_is_refused_in_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "setup_logging", lambda **_: None)  # this process goes on, and has its own
    said = refusal(capsys, "serve", *arguments)
    assert said.startswith("eosin serve: ")
    assert sentence in said


def test_a_setting_is_given_to_serve_as_kafkas_start_script_has_it() -> None:
    config = configured(["--override", "num.partitions=3", "--set", "default.replication.factor=1"]).config
    assert config.num_partitions == 3


@pytest.mark.parametrize("arguments", [["--port", "9192"], ["--port=9192"], ["--listen", "9192"]])
def test_a_port_alone_is_one_of_this_machine(arguments: list[str]) -> None:
    assert configured(arguments).config.listeners == ("PLAINTEXT://127.0.0.1:9192",)


def test_a_config_file_with_a_bad_value_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "server.properties"
    file.write_text("eosin.durability=granite\n")
    said = refusal(capsys, "serve", "--config", str(file))
    assert said == "eosin serve: eosin.durability must be one of fsync, os, memory, not 'granite'"


@pytest.mark.process
def test_health_is_1_when_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert "Connection refused" in refusal(capsys, "health", address, code=1)


@pytest.mark.process
def test_health_is_1_when_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert refusal(capsys, "health", address, "--timeout", "0.05", code=1).startswith("eosin health: ")


def test_health_of_what_is_no_address_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "is no port" in refusal(capsys, "health", "localhost:many")


def test_health_takes_its_address_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert "not allowed with" in refusal(capsys, "health", "here:9092", "--bootstrap-server", "there:9092")


@pytest.mark.process
def test_health_asks_each_bootstrap_server_until_one_answers(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken, socket.socket() as other:
        for each in (taken, other):
            each.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in (taken, other)]
        said = refusal(capsys, "health", "--bootstrap-server", ",".join(addresses), code=1)
        assert all(f"{address}: " in said for address in addresses)


@pytest.mark.parametrize("seconds", ["0", "-3", "inf", "nan", "1e308", "soon"])
@pytest.mark.parametrize("command", [["health"], ["transactions", "list"], ["producers", "orders", "0"]])
def test_a_timeout_that_is_no_time_is_refused(
    command: list[str], seconds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refusal(capsys, *command, "--timeout", seconds)
    assert f"argument --timeout: must be a number above 0, not {seconds!r}" in said


@pytest.mark.process
def test_help_ends_quietly_when_its_reader_has_gone() -> None:
    read, write = os.pipe()
    os.close(read)
    asked = subprocess.run(
        [sys.executable, "-m", "eosin.cli", "--help"], stdout=write, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write)
    assert asked.stderr == ""


def test_the_ready_line_tells_where_and_how() -> None:
    config = BrokerConfig(log_dirs=("/var/lib/eosin",))
    assert (
        ready_line(config, ["127.0.0.1:9092"], 0.214)
        == f"eosin {VERSION} ready on 127.0.0.1:9092 in 0.21 s (data /var/lib/eosin, durability fsync)"
    )
    assert ready_line(BrokerConfig(eosin_durability="memory"), ["a:1"], 1).endswith("(data none, durability memory)")


def test_a_broker_keeps_one_heap_before_its_first_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    start = threading.Thread.start

    def noted(thread: threading.Thread) -> None:
        done.append("thread")
        start(thread)

    async def served(broker: object) -> int:
        await asyncio.to_thread(done.append, "served")
        return 0

    for changes_this_process in ("setup_logging", "keep_files_private", "raise_file_limit"):
        monkeypatch.setattr(serve, changes_this_process, lambda **_: None)
    monkeypatch.setattr(serve, "keep_one_heap", lambda: done.append("one heap"))
    monkeypatch.setattr(serve, "_serve", served)
    monkeypatch.setattr(threading.Thread, "start", noted)
    assert main(["serve", "--durability", "memory"]) == 0
    assert done[:3] == ["one heap", "thread", "served"]  # another thread ends these


@pytest.mark.parametrize("command", ["serve", "topics"])
def test_the_garbage_collector_rests_while_a_broker_is_imported_and_in_no_other_command(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    collects: list[bool] = []

    def runs(given: list[str]) -> int:
        collects.append(gc.isenabled())
        serve._collect_again()
        return 0

    monkeypatch.setattr(program, "_run", runs)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["eosin", command])
    try:
        assert main() == 0
        assert [*collects, gc.isenabled()] == [command != "serve", True]
    finally:
        gc.enable()
