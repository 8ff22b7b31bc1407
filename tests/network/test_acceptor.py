"""How connections are accepted: many at once, none when there is no room, and never at the cost of other clients."""

import asyncio
import logging
import os
import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop
from broker_process import BrokerProcess
from fake_peer import host_of
from waiting import HANG_S, until

from eosin.network.acceptor import ACCEPTS_PER_TURN, Acceptor, longest_backlog
from eosin.network.connection import ServerConnection
from eosin.network.host import ConnectionHost
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.metadata import MetadataRequest
from eosin.protocol.wire.codec import encode_request

pytestmark = pytest.mark.process

TWO_THOUSAND = 2000
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


@contextmanager
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as bound:
        bound.setblocking(False)
        yield bound


def connected(bound: socket.socket) -> socket.socket:
    """A client whose connection the kernel has taken; nobody has accepted it yet."""
    return socket.create_connection(bound.getsockname())


def accepting(bound: socket.socket, host: ConnectionHost) -> Acceptor:
    loop = asyncio.get_running_loop()
    return Acceptor(bound, lambda: ServerConnection(host, "PLAINTEXT", loop), host, "PLAINTEXT")


@pytest.mark.parametrize("make_loop", LOOPS, ids=["asyncio", "uvloop"])
def test_a_storm_of_connections_leaves_turns_of_the_loop_to_others(make_loop: Any) -> None:
    async def storm() -> None:
        host = host_of()
        with listening() as bound:
            clients = [connected(bound) for _ in range(300)]
            acceptor = accepting(bound, host)
            grown, before = 0, 0
            while before < len(clients):
                await asyncio.sleep(0)
                now = len(host.connections)
                grown, before = max(grown, now - before), now
            assert grown <= ACCEPTS_PER_TURN
            await acceptor.close()
            for client in clients:
                client.close()
            await until(lambda: not host.connections)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(asyncio.wait_for(storm(), HANG_S))


@pytest.mark.parametrize("make_loop", LOOPS, ids=["asyncio", "uvloop"])
def test_a_client_that_does_not_fit_is_closed_and_the_next_one_fits_once_another_has_left(make_loop: Any) -> None:
    async def full() -> None:
        host = host_of(max_connections=3)
        with listening() as bound:
            acceptor = accepting(bound, host)
            first = [connected(bound) for _ in range(3)]
            await until(lambda: len(host.connections) == 3)
            refused = [connected(bound) for _ in range(40)]
            loop = asyncio.get_running_loop()
            for client in refused:
                client.setblocking(False)
                assert await loop.sock_recv(client, 1) == b""
            assert len(host.connections) == 3
            first.pop().close()
            await until(lambda: len(host.connections) == 2)
            first.append(connected(bound))
            await until(lambda: len(host.connections) == 3)
            await acceptor.close()
            for client in (*first, *refused):
                client.close()
            await until(lambda: not host.connections)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(asyncio.wait_for(full(), HANG_S))


async def test_without_descriptors_it_pauses_and_goes_on_when_there_are_some_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = host_of()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with listening() as bound, caplog.at_level(logging.WARNING):
        client = connected(bound)
        resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 1, hard))
        try:
            acceptor = accepting(bound, host)
            await until(lambda: caplog.records)
            assert not host.connections
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await until(lambda: host.connections)
        await acceptor.close()
        client.close()
    said = [record.getMessage() for record in caplog.records]
    assert said
    assert all("cannot accept" in line and "ulimit -n" in line for line in said)
    assert all(record.exc_info is None for record in caplog.records)


async def test_a_client_that_left_before_it_was_accepted_harms_nobody() -> None:
    host = host_of()
    with listening() as bound:
        gone = connected(bound)
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        gone.close()  # with a reset
        stays = connected(bound)
        acceptor = accepting(bound, host)
        await until(lambda: len(host.connections) == 1)
        await acceptor.close()
        stays.close()


QUESTION = b"".join(encode_request(ApiKey.METADATA, 9, 1, "a client", MetadataRequest(topics=None)))


def ask(clients: list[socket.socket]) -> None:
    """Each asks, then each reads its answer."""
    for client in clients:
        client.sendall(QUESTION)
    for client in clients:
        size = int.from_bytes(client.recv(4, socket.MSG_WAITALL), "big")
        assert len(client.recv(size, socket.MSG_WAITALL)) == size > 0


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_two_thousand_clients_that_connect_while_the_broker_is_held_up_are_all_connected_and_served(
    tmp_path: Path, loop: str
) -> None:
    """With a short queue in the kernel, most would wait a second, or three, for their SYN to be sent again, and until
    then for a broker that has time for them. How long it takes: `python -m bench scale`."""
    if (longest := longest_backlog()) is not None and longest < TWO_THOUSAND:
        pytest.skip(f"net.core.somaxconn is {longest}")
    with BrokerProcess(tmp_path / "data", durability="memory", settings={"eosin.event.loop": loop}) as broker:
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            clients = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(TWO_THOUSAND)]
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        ask(clients)
        for client in clients:
            client.close()


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_an_idle_connection_costs_at_most_eight_kibibytes(tmp_path: Path, loop: str) -> None:
    clients: list[socket.socket] = []

    def come(number: int) -> None:
        clients.extend(socket.create_connection(("127.0.0.1", broker.port)) for _ in range(number))
        ask(clients[-number:])

    with BrokerProcess(tmp_path / "data", durability="memory", settings={"eosin.event.loop": loop}) as broker:
        come(100)
        before = broker.resident_bytes()
        come(TWO_THOUSAND)
        grown = broker.resident_bytes() - before
        for client in clients:
            client.close()
    assert grown / TWO_THOUSAND <= 8192
