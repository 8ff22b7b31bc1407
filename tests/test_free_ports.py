"""Ports for servers of tests are not taken by somebody else before they start."""

import socket
from pathlib import Path

import free_ports
import pytest

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


@pytest.mark.skipif(not RANGE.exists(), reason="it is Linux that tells which ports it hands out")
def test_no_port_is_one_that_the_system_hands_out() -> None:
    first_of_the_system = int(RANGE.read_text().split()[0])
    assert all(free_ports.free_port() < first_of_the_system for _ in range(20))


def test_a_port_is_given_once_and_not_while_somebody_listens_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_ports, "FIRST", (taken := free_ports.free_port()) - 1)
    monkeypatch.setattr(free_ports, "LAST", taken + 1)
    monkeypatch.setattr(free_ports, "_given", set())
    with socket.create_server(("127.0.0.1", taken)):
        assert {free_ports.free_port(), free_ports.free_port()} == {taken - 1, taken + 1}
