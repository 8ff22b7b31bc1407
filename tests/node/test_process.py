"""The broker as a process: signals, exit codes, limits, both event loops."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop
from broker_process import BrokerProcess

from eosin.cli.__main__ import main
from eosin.cli.serve import stop_on_signals
from eosin.runtime.version import VERSION

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.smoke]


def test_the_ready_line_is_exact_and_the_only_output(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", durability="fsync") as broker:
        where = f"data {re.escape(str(tmp_path / 'data'))}, durability fsync"
        assert re.fullmatch(
            rf"eosin {re.escape(VERSION)} ready on 127\.0\.0\.1:{broker.port} in \d+\.\d\d s \({where}\)\n",
            broker.ready_line,
        )


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_broker_runs_on_either_event_loop(loop: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with BrokerProcess(tmp_path / "data", settings={"eosin.event.loop": loop}) as broker:
        assert main(["health", broker.address]) == 0
        assert main(["health", "--bootstrap-server", f"127.0.0.1:1,{broker.address}"]) == 0
        assert capsys.readouterr().out == f"{broker.address} answers\n" * 2
        assert ("libuv" in maps_of(broker.pid) or "uvloop" in maps_of(broker.pid)) == (loop == "uvloop")


def maps_of(pid: int) -> str:
    """The files that a process has mapped."""
    return Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_broker_cleanly_with_code_0(number: signal.Signals, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    assert broker._end(number) == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    assert f"stopping signal={number.name}" in broker.log
    assert "Traceback" not in broker.log


@pytest.mark.parametrize(
    "imported", ["eosin.cli.__main__", "argparse", "asyncio", "eosin.coordinator.transactions.rules.decide"]
)
def test_an_interrupt_while_it_starts_ends_the_broker_at_once_and_without_a_traceback(
    imported: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "eosin.cli", "serve", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        [*command, "--data-dir", str(tmp_path / "data")], stderr=subprocess.PIPE, text=True
    ) as broker:
        assert broker.stderr is not None
        while not (line := broker.stderr.readline()).rstrip().endswith(f" {imported}"):
            assert line, f"{imported} was not imported"
        broker.send_signal(signal.SIGINT)
        said = broker.stderr.read()
    assert broker.returncode == -signal.SIGINT, "as it ends every program that has nothing to tidy up"
    assert "Traceback" not in said


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_second_signal_does_not_wait_for_the_stop_and_leaves_no_traceback(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def stopping() -> None:
        stop = stop_on_signals()
        os.kill(os.getpid(), signal.SIGINT)
        await stop.wait()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

    before = signal.getsignal(signal.SIGINT)
    try:
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(stopping())
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_second_process_on_the_same_directory_is_refused_with_code_2(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data"):
        command = [sys.executable, "-m", "eosin.cli", "serve", "--listen", "127.0.0.1:0"]
        second = subprocess.run(
            [*command, "--data-dir", str(tmp_path / "data")], capture_output=True, text=True, check=False
        )
    assert second.returncode == 2
    assert second.stdout == ""
    (sentence,) = second.stderr.splitlines()
    folder = tmp_path / "data"
    assert sentence == (
        f"eosin serve: cannot use the data directory {folder}: another process holds {folder}/.lock;"
        " stop that one, or name another with --data-dir"
    )


def test_an_address_in_use_is_refused_with_code_2(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "one", durability="memory") as broker:
        command = [sys.executable, "-m", "eosin.cli", "serve", "--listen", broker.address, "--durability", "memory"]
        second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert second.returncode == 2
    assert (
        second.stderr
        == f"eosin serve: cannot listen on {broker.address}: the address is in use, choose another with --listen\n"
    )


def test_the_limit_on_open_files_is_raised_as_far_as_it_goes(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", durability="memory") as broker:
        (line,) = [
            line
            for line in Path(f"/proc/{broker.pid}/limits").read_text().splitlines()
            if line.startswith("Max open files")
        ]
        soft, hard = line.split()[3:5]
        assert soft == hard


def test_durability_memory_writes_nothing(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", durability="memory"):
        pass
    assert not (tmp_path / "data").exists()


def test_a_broker_that_was_killed_starts_again(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    broker.kill()
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    with BrokerProcess(tmp_path / "data"):
        pass


def test_an_idle_broker_stays_small(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        # The budget is 60 MiB with ten topics; `make bench` measures it, this only notices a jump.
        assert broker.resident_bytes() < 70 * 1024 * 1024


def test_only_one_process_and_few_threads_run(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        assert len(os.listdir(f"/proc/{broker.pid}/task")) <= 12
