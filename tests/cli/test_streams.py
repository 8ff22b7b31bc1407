"""Standard output and standard error that are closed, full or gone: one sentence, an exit code, and no traceback."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from free_ports import free_port
from shell import PROGRAM, Shell
from waiting import HANG_S, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow]

CLOSED = "eosin: cannot write to standard output: Bad file descriptor\n"
FULL = "eosin: cannot write to standard output: No space left on device\n"

COMMANDS = [
    ["topics", "list"],
    ["consume", "orders"],
    ["topics", "list", "--json"],
    ["explain", "orders"],
    ["cluster", "describe"],
    ["completion", "bash"],
    ["--version"],
    ["--help"],
    ["topics", "--help"],
]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a broker with a record."""
    data = tmp_path_factory.mktemp("streams") / "data"
    with BrokerProcess(data) as broker, Shell(broker.address) as shell:
        shell.ok("topics", "create", "orders")
        shell.ok("produce", "orders", given=b"1\n")
        yield broker.address


def run(redirected: str, *arguments: str, address: str) -> "subprocess.CompletedProcess[str]":
    """The command, as a shell runs it with that redirection."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirected}', "sh", *PROGRAM, *arguments],
        env={**os.environ, "EOSIN_BOOTSTRAP_SERVER": address},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_S,
    )


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_output_that_cannot_be_written_is_one_sentence(address: str, arguments: list[str]) -> None:
    closed = run(">&-", *arguments, address=address)
    said = "eosin consume: standard output is closed\n" if arguments[0] == "consume" else CLOSED
    assert (closed.returncode, closed.stdout, closed.stderr) == (2, "", said)
    full = run("> /dev/full", *arguments, address=address)
    assert (full.returncode, full.stderr) == (2, FULL)


def test_a_file_that_is_looked_into_is_not_taken_for_the_output(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    full = run("> /dev/full", "dump-log", str(tmp_path), address="")
    assert (full.returncode, full.stderr) == (2, FULL)


def test_a_command_that_writes_nothing_needs_no_output(address: str) -> None:
    assert run(">&-", "produce", "orders", address=address).returncode == 0


def test_a_reader_that_has_gone_ends_any_command_without_a_word() -> None:
    read, write = os.pipe()
    os.close(read)
    for arguments in (["completion", "bash"], ["--version"], ["--help"], ["topics", "--help"]):
        done = subprocess.run([*PROGRAM, *arguments], stdout=write, stderr=subprocess.PIPE, check=False, timeout=HANG_S)
        assert (done.returncode, done.stderr) == (0, b""), arguments
    os.close(write)


def test_an_error_does_not_go_to_the_output_where_standard_error_is_closed(address: str) -> None:
    for arguments in (["topics", "describe", "absent"], ["topics", "fly"], ["fly"], ["consume", "absent"]):
        refused = run("2>&-", *arguments, address=address)
        assert (refused.returncode > 0, refused.stdout) == (True, "")


@pytest.mark.parametrize("redirected", ["> /dev/full", ">&-", ">&- 2>&-", "<&- >&- 2>&-", "2> /dev/full"])
def test_a_broker_serves_and_stops_whatever_its_output_is(redirected: str, tmp_path: Path) -> None:
    port = free_port()
    words = [*PROGRAM, "serve", "--durability", "memory", "--listen", f"127.0.0.1:{port}"]
    with (tmp_path / "log").open("wb") as log:
        broker = subprocess.Popen(
            ["sh", "-c", f'exec "$@" {redirected}', "sh", *words], stdout=subprocess.DEVNULL, stderr=log
        )
    try:
        asked = [*PROGRAM, "health", f"127.0.0.1:{port}"]
        wait_until(lambda: subprocess.run(asked, capture_output=True, check=False).returncode == 0)
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(HANG_S) == 0
    finally:
        broker.kill()
        broker.wait()
    assert "Traceback" not in (tmp_path / "log").read_text()
