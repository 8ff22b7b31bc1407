"""How many connections there may be, and how fast they may come (security.md 5.7)."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from fake_peer import FakePeer, host_of, turns
from local_broker import running
from waiting import until

from eosin.model.principals import Principal
from eosin.network.limits import BROKER, ConnectionLimits, NetworkLimits, close_if_too_many, limits_of
from eosin.node.configuration import load_config
from eosin.node.running import RunningNode
from eosin.security.session import Session
from eosin.settings.connections import connections_by_address
from eosin.settings.settings import SettingError

FEW = ("eosin.durability=memory", "transaction.state.log.num.partitions=2", "offsets.topic.num.partitions=2")


@asynccontextmanager
async def serving(*settings: str, listeners: str = "PLAINTEXT://127.0.0.1:0") -> AsyncIterator[RunningNode]:
    async with running(load_config(assignments=[*FEW, f"listeners={listeners}", *settings]).config) as server:
        yield server


class Clients:
    """Connections to a server, from addresses of a test's choice."""

    def __init__(self, server: RunningNode) -> None:
        self.server = server
        self.writers: list[asyncio.StreamWriter] = []

    async def is_served(self, address: str = "127.0.0.1", listener: int = 0) -> bool:
        port = int(self.server.addresses[listener].rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
        self.writers.append(writer)
        own_port = writer.get_extra_info("sockname")[1]
        await until(lambda: own_port in self._ports() or reader._eof)  # type: ignore[attr-defined]
        return own_port in self._ports()

    def _ports(self) -> set[int]:
        return {int(each.peer.rpartition(":")[2]) for each in self.server.host.connections}

    async def leave(self, *which: int) -> None:
        for index in which:
            self.writers[index].close()
        left = len(self.server.host.connections) - len(which)
        await until(lambda: len(self.server.host.connections) <= left)

    def close(self) -> None:
        for writer in self.writers:
            writer.close()


@pytest.mark.process
async def test_an_address_has_so_many_connections_and_others_have_theirs(caplog: pytest.LogCaptureFixture) -> None:
    settings = ("max.connections.per.ip=2", "max.connections.per.ip.overrides=127.0.0.3:3,127.0.0.4:0")
    async with serving(*settings) as server:
        clients = Clients(server)
        assert [await clients.is_served() for _ in range(4)] == [True, True, False, False]
        assert await clients.is_served("127.0.0.2")
        assert [await clients.is_served("127.0.0.3") for _ in range(4)] == [True, True, True, False]
        assert not await clients.is_served("127.0.0.4")
        await clients.leave(0)
        assert await clients.is_served()
        limits = server.host.limits
        assert limits is not None
        await until(lambda: not limits._arriving)
        clients.close()
    assert caplog.text.count("max.connections.per.ip is 2") == 1


@pytest.mark.process
async def test_a_listener_has_a_number_of_its_own() -> None:
    where = "INSIDE://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"
    async with serving("listener.name.inside.max.connections=1", listeners=where) as server:
        clients = Clients(server)
        assert [await clients.is_served(listener=0) for _ in range(2)] == [True, False]
        assert [await clients.is_served(listener=1) for _ in range(3)] == [True] * 3
        clients.close()


@pytest.mark.process
async def test_the_operator_gets_in_by_loopback_when_the_broker_is_full() -> None:
    where = "PLAINTEXT://0.0.0.0:0,LOCAL://127.0.0.1:0"
    settings = ("max.connections=2", "eosin.allow.open.listeners=true", "advertised.listeners=PLAINTEXT://localhost:9")
    async with serving(*settings, listeners=where) as server:
        clients = Clients(server)
        assert [await clients.is_served(listener=0) for _ in range(3)] == [True, True, False]
        assert [await clients.is_served(listener=1) for _ in range(3)] == [True] * 3
        assert not await clients.is_served(listener=0)
        clients.close()


@pytest.mark.process
async def test_without_limits_nothing_is_counted() -> None:
    async with serving() as server:
        assert server.host.limits is None


def test_connections_beyond_the_rate_wait_and_are_not_refused() -> None:
    limits = ConnectionLimits(NetworkLimits(rates={BROKER: 10, "SLOW": 1}), possible=1000)
    assert limits.delay_ms("PLAINTEXT", 90, 0) == 0, "ten seconds' worth at once"
    assert 0 < limits.delay_ms("PLAINTEXT", 16, 0) <= 16_000
    assert limits.delay_ms("PLAINTEXT", 1, 60_000) == 0
    assert limits.delay_ms("SLOW", 5, 60_000) == 0
    assert limits.delay_ms("SLOW", 7, 60_000) > 0, "of its own rate"


@pytest.mark.process
@pytest.mark.slow
async def test_a_connection_that_comes_too_fast_is_served_a_little_later() -> None:
    async with serving("max.connection.creation.rate=2", "quota.window.num=2") as server:
        clients, loop = Clients(server), asyncio.get_running_loop()
        begun = loop.time()
        assert [await clients.is_served() for _ in range(7)] == [True] * 7
        assert loop.time() - begun > 1
        clients.close()


@pytest.mark.parametrize("key", ["max.connections.per.ip=0", "max.connections.per.ip.overrides=host.example:3"])
def test_a_limit_that_makes_no_sense_is_refused_in_a_sentence(key: str) -> None:
    with pytest.raises(SettingError, match=r"max\.connections\.per\.ip"):
        load_config(assignments=[key])


def test_addresses_count_as_their_networks_do() -> None:
    assert connections_by_address(["10.0.0.1:5", "[2001:db8::1]:7", "2001:db8:0:1::9:8"]) == {
        "10.0.0.1": 5,
        "2001:db8::/64": 7,
        "2001:db8:0:1::/64": 8,
    }
    for wrong in ("10.0.0.1", "10.0.0.1:-1", ":4", "10.0.0.1:x"):
        with pytest.raises(SettingError):
            connections_by_address([wrong])


def test_the_settings_of_listeners_are_limits_of_theirs() -> None:
    where = "listeners=A://127.0.0.1:1,B://127.0.0.1:2"
    keys = ("listener.name.a.max.connections=7", "listener.name.b.max.connection.creation.rate=3")
    limits = limits_of(load_config(assignments=[where, *keys]).config, ["A", "B"])
    assert (limits.of_listener, limits.rates, limits.spared) == ({"A": 7}, {"B": 3}, frozenset())


async def test_a_user_has_so_many_connections(caplog: pytest.LogCaptureFixture) -> None:
    host = host_of()
    host.limits = ConnectionLimits(NetworkLimits(per_principal=2), possible=1000)
    peers = []
    for name in ("alice", "alice", "bob", "alice", "ANONYMOUS", "ANONYMOUS", "ANONYMOUS"):
        peer = FakePeer(host)
        peers.append(peer)
        peer.connection.adopt(Session(principal=Principal("User", name)))
        close_if_too_many(host, peer.connection)
    await turns()
    assert [peer.transport.is_closing() for peer in peers] == [False, False, False, True, False, False, False]
    assert "eosin.principal.connections.max is 2" in caplog.text


def test_arriving_connections_are_counted_until_they_have_arrived() -> None:
    chance = random.Random(5)
    limits, under_way = ConnectionLimits(NetworkLimits(per_address=5), possible=1000), list[tuple[str, str]]()
    host: Any = SimpleNamespace(connections=(), layers=())
    for _ in range(2000):
        if under_way and chance.random() < 0.5:
            limits.arrived(*under_way.pop(chance.randrange(len(under_way))))
            continue
        one = f"10.0.0.{chance.randrange(4)}", chance.choice(("A", "B"))
        if limits.counted(host).admit(*one) is None:
            limits.arriving(*one)
            under_way.append(one)
        assert max(limits.counted(host).addresses.values()) <= 5
    for one in under_way:
        limits.arrived(*one)
    assert not limits._arriving
