"""Ports for servers of tests are not taken by somebody else before they start."""

import socket
import subprocess
import sys
from pathlib import Path

import free_ports
import pytest

pytestmark = pytest.mark.process

OTHER = """
import sys
sys.path.insert(0, sys.argv[1])
import free_ports
print(free_ports.free_port(), flush=True)
sys.stdin.read()
"""
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


@pytest.mark.skipif(not RANGE.exists(), reason="it is Linux that tells which ports it hands out")
def test_no_port_is_one_that_the_system_hands_out() -> None:
    first_of_the_system = int(RANGE.read_text().split()[0])
    assert all(free_ports.free_port() < first_of_the_system for _ in range(20))


def test_a_port_is_given_once_and_not_while_somebody_listens_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_ports, "FIRST", (taken := free_ports.free_port()) - 1)
    monkeypatch.setattr(free_ports, "LAST", taken + 1)
    monkeypatch.setattr(free_ports, "_given", set())
    monkeypatch.setattr(free_ports, "_locked", lambda port: True)  # another test process may have them
    with socket.create_server(("127.0.0.1", taken)):
        assert {free_ports.free_port(), free_ports.free_port()} == {taken - 1, taken + 1}


def test_a_port_that_another_test_process_was_given_is_not_given_before_that_ends() -> None:
    command = [sys.executable, "-c", OTHER, str(Path(free_ports.__file__).parent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        assert not free_ports._locked(theirs)
        other.communicate()
    assert free_ports._locked(theirs)
