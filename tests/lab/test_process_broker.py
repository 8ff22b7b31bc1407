"""A broker in a process of its own, from Python and from any language: real processes, so each once."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import HANG_S, wait_until

from eosin.lab.broker import Broker
from eosin.lab.command import main, parser
from eosin.lab.common.errors import LabError
from eosin.testing import ProcessBroker

pytestmark = pytest.mark.process

PAUSED_AND_LEFT = """
import os, sys
from eosin.testing import ProcessBroker
broker = ProcessBroker()
broker.pause()
print(broker.pid, flush=True)
os._exit(1)
"""


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_broker_in_a_process_tells_what_one_in_a_thread_tells() -> None:
    with ProcessBroker(topics={"orders": 2}) as broker:
        broker.produce("orders", "a", key="k", headers={"h": None}, transactional_id="t")
        broker.produce("orders", "b", partition=0, transactional_id="t", commit=False)
        (record,) = broker.topic("orders").records()
        assert (record.value, record.key, record.headers) == (b"a", b"k", (("h", None),))
        assert broker.transactions("t").outcomes == ["commit", "open"]
        assert [str(each) for each in broker.transactions("t").partitions] == ["orders-0"]
        assert broker.group("nobody").generation is None
        with pytest.raises(LabError, match="did you mean orders"):
            broker.topic("order").values()
        broker.pause()
        with pytest.raises(LabError, match=r"is paused, and answers nobody: call resume\(\) first"):
            broker.topics()
        broker.resume()
        assert broker.topics() == ["orders"]
        broker.pause()
        pid = broker.pid
    assert not is_running(pid)
    with pytest.raises(LabError, match="this ProcessBroker is closed"):
        broker.topics()


def test_a_process_that_was_killed_is_told_with_its_code() -> None:
    with ProcessBroker() as broker:
        os.kill(broker.pid, signal.SIGKILL)
        with pytest.raises(LabError, match="the process of this broker has ended with code -9"):
            broker.topics()


def test_a_start_that_fails_is_refused_in_a_sentence() -> None:
    with Broker() as other, pytest.raises(LabError, match="cannot listen"):
        ProcessBroker(port=int(other.bootstrap.rpartition(":")[2]))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only the end of standard input ends it")
def test_a_paused_broker_dies_with_its_parent() -> None:
    parent = subprocess.run(
        [sys.executable, "-c", PAUSED_AND_LEFT], stdout=subprocess.PIPE, text=True, timeout=HANG_S, check=False
    )
    pid = int(parent.stdout)
    wait_until(lambda: not is_running(pid))


def test_the_command_prints_its_address_and_ends_with_standard_input() -> None:
    command = [
        sys.executable,
        "-m",
        "eosin.cli",
        "testing",
        "--topics",
        "orders:3",
        "--ready-line",
        "--until-stdin-ends",
    ]
    told, telling = os.pipe()
    process = subprocess.Popen(command, stdin=told, stdout=subprocess.PIPE, text=True)
    os.close(told)
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    with Broker() as other:  # any client of ours
        assert other.bootstrap != address
    host, _, port = address.rpartition(":")
    assert (host, port.isdecimal()) == ("127.0.0.1", True)
    os.close(telling)
    assert process.wait(HANG_S) == 0
    assert process.stdout.read() == ""
    process.stdout.close()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--topics", "orders:many"], "--topics is NAME[:PARTITIONS],..., not 'orders:many'"),
        (["--listen", "here"], "--listen is [HOST:]PORT, not 'here'"),
        (["--set", "retention"], "--set is NAME=VALUE, not 'retention'"),
        (["--set", "log.segment.byte=1"], "did you mean log.segment.bytes"),
    ],
)
def test_a_wrong_option_is_refused_in_a_sentence(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert complaint in capsys.readouterr().err


def test_the_address_is_told_in_one_way(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["--ready-fd", "3", "--ready-line"])
    assert "not allowed with" in capsys.readouterr().err
