"""`TlsLayer` between a transport without a socket and a protocol that keeps what it gets (security.md 2.3)."""

import asyncio
import contextlib
import logging
import ssl
from pathlib import Path
from typing import Any, cast

import pytest
import virtual_time
from certificates import Authority
from fake_transport import FakeTransport
from hypothesis import given, settings
from hypothesis import strategies as st
from manual_clock import ManualClock
from tls_broker import pem_text
from waiting import until

from eosin.network.known_addresses import KnownAddresses
from eosin.network.refusal_log import RefusalLog
from eosin.network.tls.handshakes import CHECK_MS, PER_TURN, TIME_MS, Handshakes
from eosin.network.tls.layer import (
    GREETING_BYTES,
    PIECE_BYTES,
    RAW_BYTES,
    SCRATCH_BYTES,
    TURN_BYTES,
    TlsHost,
    TlsLayer,
)
from eosin.network.unauthenticated_peers import UnauthenticatedPeerLimits, UnauthenticatedPeers
from eosin.node.configuration import load_config
from eosin.runtime.chance import SeededChance
from eosin.runtime.clock import SystemClock
from eosin.security.tls.contexts import build_context
from eosin.security.tls.reload import StoreWatch
from eosin.security.tls.settings import tls_settings

pytestmark = pytest.mark.virtual

LONG_S = 10.0
"""Longer than any peer may take."""


class Above:
    """What stands where a connection does."""

    def __init__(self, room: int = 65_536) -> None:
        self.transport: TlsLayer | None = None
        self.received = bytearray()
        self.lost: list[Exception | None] = []
        self.calls: list[str] = []
        self.updates = 0
        self._buffer = memoryview(bytearray(room))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(TlsLayer, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.updates += 1
        self.received += self._buffer[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")


class World:
    """A listener, and clients that are an `SSLObject` each."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority.root()
        self.loop = asyncio.get_running_loop()
        path = self.authority.issue().write(directory / "broker.pem")
        config = load_config(assignments=["listeners=SSL://localhost:1", f"ssl.keystore.location={path}"]).config
        now_ms = int(self.authority.certificate.not_valid_before_utc.timestamp() * 1000) + 86_400_000
        watch = StoreWatch(tls_settings(config, "SSL"), ManualClock(now_ms), build=build_context)
        self.above: list[Above] = []
        self.handshakes = Handshakes(self.loop, SystemClock(), limit=3)
        self.host = TlsHost(
            name="SSL",
            context=watch.built.context,
            connect=self.connect,
            refusals=RefusalLog(),
            handshakes=self.handshakes,
            scratch=memoryview(bytearray(SCRATCH_BYTES)),
            layers={},
        )
        self.unauthenticated_peers = UnauthenticatedPeers(
            "SSL",
            UnauthenticatedPeerLimits(most=100, most_per_address=50, timeout_ms=5000),
            KnownAddresses(),
            refusals=self.host.refusals,
            clock=SystemClock(),
            chance=SeededChance(1),
            loop=self.loop,
        )

    def connect(self, layer: TlsLayer) -> Above:
        above = Above()
        above.connection_made(layer)
        assert layer.unauthenticated is not None
        layer.unauthenticated.end()
        layer.unauthenticated = None
        self.above.append(above)
        return above

    def client(self, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, address: str = "127.0.0.1") -> "Client":
        return Client(self, version, address)

    async def connected(self, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> tuple["Client", Above, TlsLayer]:
        client = self.client(version)
        await client.shake()
        above = self.above[-1]
        assert above.transport is client.layer
        client.layer.set_write_buffer_limits(high=1_048_576)
        return client, above, client.layer


class Client:
    """One client; `transport` is its socket as the layer sees it."""

    def __init__(
        self, world: World, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, address: str = "127.0.0.1"
    ) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = context.maximum_version = version
        context.load_verify_locations(cadata=pem_text(world.authority))
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.engine = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.transport = FakeTransport(peer=(address, 50_000))
        unauthenticated = world.unauthenticated_peers.admit(address)
        assert unauthenticated is not None
        self.layer = TlsLayer(world.host, unauthenticated, world.loop)
        self.transport.connect(self.layer)

    async def shake(self, *, timeout_turns: int = 50) -> None:
        for _ in range(timeout_turns):
            try:
                self.engine.do_handshake()
            except ssl.SSLWantReadError:
                self.flush()
                await asyncio.sleep(0)
                self.take()
            else:
                self.flush()
                await turns()
                return
        raise AssertionError("the handshake does not end")

    def greet(self) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            self.engine.do_handshake()
        self.flush()

    def flush(self, piece: int = 65_536) -> None:
        if self.outgoing.pending:
            self.transport.feed(self.outgoing.read(), piece=piece)

    def send(self, data: bytes, piece: int = 65_536) -> None:
        self.engine.write(data)
        self.flush(piece)

    def take(self) -> None:
        self.incoming.write(bytes(self.transport.sent))
        self.transport.sent.clear()

    def read(self) -> bytes:
        """Everything that has come."""
        self.take()
        found = bytearray()
        with contextlib.suppress(ssl.SSLWantReadError):
            while data := self.engine.read(65_536):
                found += data
        return bytes(found)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.fixture
async def world(tmp_path: Path) -> World:
    return World(tmp_path)


VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.mark.parametrize("version", VERSIONS)
async def test_bytes_of_a_client_come_out_and_answers_go_back(world: World, version: ssl.TLSVersion) -> None:
    client, above, layer = await world.connected(version)
    data = bytes(range(256)) * 1000
    client.send(data, piece=1000)
    assert above.received == data
    layer.write(b"one")
    layer.writelines([b"two", memoryview(b"three"), bytearray(b"four")])
    layer.write(data)
    assert client.read() == b"onetwothreefour" + data
    assert world.unauthenticated_peers.count == world.handshakes.under_way == 0
    assert not world.host.layers


async def test_a_greeting_may_come_byte_by_byte_and_a_request_behind_it(world: World) -> None:
    client = world.client()
    with contextlib.suppress(ssl.SSLWantReadError):
        client.engine.do_handshake()
    client.flush(piece=1)
    await turns()
    client.take()
    client.engine.do_handshake()
    client.engine.write(b"at once")
    client.flush()
    await turns()
    assert world.above[0].received == b"at once"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("at_once", [True, False], ids=["in one go", "a piece in each turn"])
async def test_much_may_come_right_behind_the_end_of_the_handshake(
    world: World, version: ssl.TLSVersion, at_once: bool
) -> None:
    client = world.client(version)
    client.greet()
    while True:
        await turns()
        client.take()
        try:
            client.engine.do_handshake()
            break
        except ssl.SSLWantReadError:
            client.flush()
    data = bytes(range(256)) * 1200
    client.engine.write(data)
    ciphertext = client.outgoing.read()
    for start in range(0, len(ciphertext), 20_000):
        client.transport.feed(ciphertext[start : start + 20_000])
        if not at_once:
            await turns(1)
    await until(lambda: bool(world.above) and world.above[0].received == data)
    assert client.transport.reading


@pytest.mark.parametrize(
    "greeting",
    [b"\0\0\0\x0f\0\x12", b"GET / HTTP/1.1\r\n\r\n", b"SSH-2.0-OpenSSH\r\n", b"\x16\x02\x01", b"\x80\x2e\x01"],
    ids=["Kafka", "HTTP", "SSH", "almost TLS", "SSLv2"],
)
@pytest.mark.parametrize("piece", [1, 100])
async def test_a_client_that_does_not_speak_tls_gets_no_byte(
    world: World, greeting: bytes, piece: int, caplog: pytest.LogCaptureFixture
) -> None:
    clients = [world.client() for _ in range(3)]
    for client in clients:
        client.transport.feed(greeting, piece=piece)
    await turns()
    for client in clients:
        assert client.transport.is_closing()
        assert not client.transport.sent
    assert caplog.text.count("a plain client on TLS listener SSL") == 1
    assert world.unauthenticated_peers.count == world.handshakes.under_way == len(world.host.layers) == 0


async def test_a_greeting_without_end_is_cut_off(world: World) -> None:
    client = world.client()
    # A ClientHello of 2^24 bytes in records of the largest size: it is never complete.
    record = b"\x16\x03\x01\x40\x00" + b"\x01\xff\xff\xff" + bytes(16_380)
    for _ in range(GREETING_BYTES // len(record) + 2):
        client.transport.feed(record)
        await turns()
    assert client.transport.is_closing()
    assert world.unauthenticated_peers.count == world.handshakes.under_way == 0


async def test_what_comes_before_the_end_of_a_handshake_is_received_up_to_a_bound(world: World) -> None:
    client = world.client()
    record = b"\x16\x03\x01\x40\x00" + b"\x01\xff\xff\xff" + bytes(16_380)
    client.transport.feed(record * 1000)
    assert not client.transport.reading
    assert client.layer._incoming.pending <= GREETING_BYTES + SCRATCH_BYTES
    await turns()
    assert client.transport.is_closing()


async def test_so_many_handshakes_are_under_way_and_the_others_wait_their_turn(world: World) -> None:
    clients = [world.client() for _ in range(6)]
    for client in clients:
        client.greet()
    await turns()
    assert world.handshakes.under_way == 3
    assert [client.transport.reading for client in clients] == [True] * 3 + [False] * 3
    clients[0].transport.lose()
    await turns()
    assert clients[3].transport.reading
    assert not clients[4].transport.reading
    for client in clients[1:]:
        await client.shake()
    assert len(world.above) == 5
    assert world.handshakes.under_way == 0


async def test_a_handshake_that_takes_long_gives_way_to_others_that_wait_and_networks_take_turns(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    attackers = [world.client(address=f"10.0.0.{number}") for number in range(20)]
    for each in attackers:
        each.transport.feed(b"\x16\x03")
    client = world.client(address="192.168.0.1")
    client.greet()
    await asyncio.sleep(TIME_MS / 1000 - 0.01)
    assert not client.transport.reading
    await asyncio.sleep(2 * CHECK_MS / 1000)
    assert client.transport.reading
    await client.shake()
    assert len(world.above) == 1
    assert sum(each.transport.aborted for each in attackers) == 3
    assert caplog.text.count("takes long for its TLS handshake") == 3
    await asyncio.sleep(LONG_S)
    assert all(each.transport.aborted for each in attackers)
    assert world.unauthenticated_peers.count == world.handshakes.under_way == len(world.host.layers) == 0


async def test_a_handshake_may_take_long_where_nobody_waits(world: World) -> None:
    slow = [world.client() for _ in range(3)]
    for each in slow:
        each.greet()
    await asyncio.sleep(4 * TIME_MS / 1000)
    for each in slow:
        await each.shake()
    assert len(world.above) == 3


async def test_a_storm_of_greetings_leaves_turns_of_the_loop_to_others(world: World) -> None:
    world.host.handshakes = Handshakes(world.loop, SystemClock(), limit=100)
    clients = [world.client() for _ in range(20)]
    for client in clients:
        client.greet()
    answered = 0
    while answered < len(clients):
        await asyncio.sleep(0)
        now = sum(1 for client in clients if client.transport.sent)
        assert now - answered <= PER_TURN
        answered = now


async def test_a_handshake_waits_for_one_step_of_each_network_and_not_for_all_that_greet(world: World) -> None:
    world.host.handshakes = Handshakes(world.loop, SystemClock(), limit=100)
    attackers = [world.client(address=f"10.0.0.{number}") for number in range(40)]
    client = world.client(address="192.168.0.1")
    for each in (*attackers[:20], client):
        each.greet()
    await asyncio.sleep(0)
    client.take()
    for each in attackers[20:]:
        each.greet()
    with contextlib.suppress(ssl.SSLWantReadError):
        client.engine.do_handshake()
    client.flush()
    await asyncio.sleep(0)
    assert len(world.above) == 1
    assert sum(1 for each in attackers if each.transport.sent) < 2 * PER_TURN


async def test_those_who_answer_leave_a_step_of_each_turn_to_those_who_greet(world: World) -> None:
    world.host.handshakes = Handshakes(world.loop, SystemClock(), limit=100)
    slow = [world.client(address=f"10.0.{number}.0") for number in range(2 * PER_TURN)]
    for each in slow:
        each.greet()
    await turns()
    client = world.client(address="192.168.0.1")
    client.greet()
    for each in slow:
        each.transport.feed(b"\x14")  # the first byte of an answer
    await asyncio.sleep(0)
    assert client.transport.sent


async def test_a_greeting_whose_client_has_left_is_not_worth_a_signature(world: World) -> None:
    client = world.client()
    client.greet()
    client.transport.lose()
    await turns()
    assert not client.layer._outgoing.pending
    assert world.handshakes.under_way == 0


async def test_small_answers_of_one_turn_are_one_record(world: World) -> None:
    client, _, layer = await world.connected()
    client.read()
    layer.writelines([b"x" * 100] * 50)
    assert client.transport.sent[:1] == b"\x17"
    size = int.from_bytes(client.transport.sent[3:5], "big")
    assert len(client.transport.sent) == 5 + size
    assert client.read() == b"x" * 5000


async def test_a_reader_that_does_not_read_holds_little_ciphertext(world: World) -> None:
    client, above, layer = await world.connected()
    client.read()
    client.transport.read_slowly()
    answer = bytes(20_000_000)
    layer.write(answer)
    assert above.calls == ["pause"]
    assert len(client.transport.unsent) <= RAW_BYTES + 2 * PIECE_BYTES
    assert layer.get_write_buffer_size() >= len(answer)
    received = b""
    while len(received) < len(answer):
        client.transport.read_all()
        await turns(2)
        received += client.read()
        client.transport.read_slowly()
    assert received == answer
    assert above.calls == ["pause", "resume"]
    assert layer.get_write_buffer_size() == 0


async def test_a_large_answer_leaves_turns_of_the_loop_to_others(world: World) -> None:
    client, _, layer = await world.connected()
    client.read()
    layer.write(bytes(10 * TURN_BYTES))
    sent = len(client.transport.sent)
    assert sent < 2 * TURN_BYTES
    for _ in range(12):
        await asyncio.sleep(0)
        assert len(client.transport.sent) - sent < 2 * TURN_BYTES
        sent = len(client.transport.sent)
    assert len(client.read()) == 10 * TURN_BYTES


async def test_bytes_before_a_pause_wait_for_its_end(world: World) -> None:
    client, above, layer = await world.connected()
    layer.pause_reading()
    assert not client.transport.reading
    client.send(b"later")
    await turns()
    assert not above.received
    layer.resume_reading()
    await turns()
    assert above.received == b"later"


async def test_a_pause_in_the_middle_of_what_has_come_loses_nothing(world: World) -> None:
    client, above, layer = await world.connected()
    updated = above.buffer_updated

    def pausing(nbytes: int) -> None:
        updated(nbytes)
        layer.pause_reading()
        world.loop.call_soon(layer.resume_reading)

    above.buffer_updated = pausing  # type: ignore[method-assign]
    above._buffer = memoryview(bytearray(1000))
    data = bytes(range(250)) * 400
    client.send(data)
    for _ in range(500):
        await asyncio.sleep(0)
    assert above.received == data


async def test_a_close_sends_what_waits_and_says_so(world: World) -> None:
    client, above, layer = await world.connected()
    client.read()
    client.transport.read_slowly()
    layer.write(bytes(3_000_000))
    layer.close()
    assert layer.is_closing()
    assert not client.transport.is_closing()
    received = b""
    for _ in range(100):
        client.transport.read_all()
        await turns(2)
        received += client.read()
        client.transport.read_slowly()
    assert len(received) == 3_000_000
    assert client.engine.read(1) == b"", "no close_notify came"
    assert above.lost == [None]


async def test_an_abort_sends_nothing(world: World) -> None:
    client, above, layer = await world.connected()
    client.read()
    layer.abort()
    await turns()
    assert client.transport.aborted
    assert not client.transport.sent
    assert above.lost == [None]
    layer.write(b"late")
    layer.close()
    layer.resume_reading()


async def test_a_close_notify_ends_the_connection(world: World) -> None:
    client, above, _ = await world.connected()
    with contextlib.suppress(ssl.SSLError):
        client.engine.unwrap()
    client.flush()
    await turns()
    assert above.lost == [None]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_flipped_bit_ends_the_connection_with_one_line(
    world: World, version: ssl.TLSVersion, caplog: pytest.LogCaptureFixture
) -> None:
    client, above, _ = await world.connected(version)
    client.engine.write(b"a request")
    data = bytearray(client.outgoing.read())
    data[-1] ^= 1
    client.transport.feed(data)
    await turns()
    assert not above.received
    assert above.lost == [None]
    assert caplog.text.count("TLS fails") == 1


async def test_a_silent_client_is_aborted_when_the_time_is_over(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.unauthenticated_peers.limits = UnauthenticatedPeerLimits(timeout_ms=50)
    silent, slow = world.client(), world.client()
    with contextlib.suppress(ssl.SSLWantReadError):
        slow.engine.do_handshake()
    greeting = slow.outgoing.read()
    for byte in greeting[:10]:
        slow.transport.feed(bytes([byte]))
        await asyncio.sleep(0.01)
    await until(lambda: silent.transport.aborted and slow.transport.aborted)
    assert world.unauthenticated_peers.count == len(world.host.layers) == 0
    assert "within 50 ms, at stage tls" in caplog.text


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_mutated_records_end_the_connection_and_nothing_else(data: st.DataObject, tmp_path_factory: Any) -> None:
    async def run() -> None:
        world = World(tmp_path_factory.mktemp("store"))
        client = world.client()
        if data.draw(st.booleans()):
            await client.shake()
            client.engine.write(b"request" * data.draw(st.integers(1, 5000)))
        else:
            with contextlib.suppress(ssl.SSLWantReadError):
                client.engine.do_handshake()
        sent = bytearray(client.outgoing.read())
        for _ in range(data.draw(st.integers(1, 5))):
            sent[data.draw(st.integers(0, len(sent) - 1))] = data.draw(st.integers(0, 255))
        client.transport.feed(sent + data.draw(st.binary(max_size=50)), piece=data.draw(st.integers(1, 70_000)))
        await turns()
        client.transport.lose()
        await turns()
        assert world.unauthenticated_peers.count == world.handshakes.under_way == len(world.host.layers) == 0

    logging.disable(logging.WARNING)
    try:
        virtual_time.run(run())
    finally:
        logging.disable(logging.NOTSET)
