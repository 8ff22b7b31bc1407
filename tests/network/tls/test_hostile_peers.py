"""Hostile peers of a listener with TLS, on real sockets (security.md 9.3): what they get, and who feels it."""

import asyncio
import contextlib
import ctypes
import ctypes.util
import logging
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop
from certificates import Authority
from tls_broker import API_VERSIONS, TlsBroker, TlsClient, framed, tls_broker
from waiting import HANG_S, until

from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from eosin.protocol.wire.codec import encode_request

pytestmark = pytest.mark.process

LOOPS = pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])


class World:
    def __init__(self, directory: Path) -> None:
        self.authority = Authority.root()
        self.key_store = self.authority.issue().write(directory / "broker.pem")

    def run(self, make_loop: Any, body: Callable[[TlsBroker], Awaitable[None]], *settings: str) -> None:
        """Run `body` with a broker, and see that it ends with nothing left behind."""

        async def with_broker() -> None:
            async with tls_broker(self.authority, f"ssl.keystore.location={self.key_store}", *settings) as broker:
                await body(broker)
                await (await broker.connect()).ask()
                await broker.quiet()

        with asyncio.Runner(loop_factory=make_loop) as runner:
            runner.run(asyncio.wait_for(with_broker(), HANG_S))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@LOOPS
def test_a_silent_or_slow_client_is_cut_off(world: World, make_loop: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def body(broker: TlsBroker) -> None:
        silent, slow = await broker.connect_plain(), await broker.connect_plain()
        ended = asyncio.ensure_future(slow.ended())
        for byte in b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc":
            slow.writer.write(bytes([byte]))
            await asyncio.sleep(0.03)
        assert await silent.ended() == b""
        assert await ended == b""

    world.run(make_loop, body, "eosin.connection.setup.timeout.ms=300")
    assert "has not proved who it is within 300 ms, at stage tls" in caplog.text


@LOOPS
def test_many_who_say_nothing_leave_room_for_others(
    world: World, make_loop: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(broker: TlsBroker) -> None:
        silent = [await broker.connect_plain() for _ in range(60)]
        await until(lambda: len(broker.server.host.layers) == 10)
        closed = [asyncio.ensure_future(client.ended()) for client in silent]
        await until(lambda: sum(each.done() for each in closed) == 50)
        reader, writer = await asyncio.wait_for(
            asyncio.open_connection(
                "127.0.0.1",
                broker.port(),
                ssl=broker.context(),
                server_hostname="localhost",
                local_addr=("127.0.0.2", 0),
            ),
            HANG_S,
        )
        await TlsClient(reader, writer).ask()
        writer.close()
        for client in silent:
            client.close()
        await asyncio.gather(*closed)

    world.run(make_loop, body, "eosin.unauthenticated.connections.per.ip.max=10")
    assert caplog.text.count("closing a connection: too many connections of one address") == 1


@LOOPS
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1], ids=["1.0", "1.1"])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_an_old_version_is_refused_with_an_alert(
    world: World, make_loop: Any, version: ssl.TLSVersion, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(broker: TlsBroker) -> None:
        context = broker.context()
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = version
        with pytest.raises(ssl.SSLError, match="ALERT_PROTOCOL_VERSION"):
            await broker.connect(context)

    world.run(make_loop, body)
    assert "the client speaks no version of TLS that is served" in caplog.text


@LOOPS
@pytest.mark.parametrize("ciphers", ["AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA256", "ECDHE-RSA-AES128-SHA"])
def test_suites_without_forward_secrecy_or_authenticated_encryption_are_refused(
    world: World, make_loop: Any, ciphers: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(broker: TlsBroker) -> None:
        context = broker.context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(ciphers)
        with pytest.raises(ssl.SSLError, match="HANDSHAKE_FAILURE"):
            await broker.connect(context)

    world.run(make_loop, body)
    assert "the client has no cipher suite that is served" in caplog.text


@pytest.mark.slow
def test_a_renegotiation_is_refused(world: World) -> None:
    program = shutil.which("openssl")
    assert program is not None, "openssl is missing: install it"

    async def body(broker: TlsBroker) -> None:
        command = [program, "s_client", "-connect", f"127.0.0.1:{broker.port()}", "-tls1_2"]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert process.stdin is not None
        assert process.stdout is not None
        while b"Verify return code" not in await asyncio.wait_for(process.stdout.readline(), HANG_S):
            pass  # it takes a command when it has told all about the connection
        process.stdin.write(b"R\n")
        out, _ = await asyncio.wait_for(process.communicate(), HANG_S)
        assert b"no renegotiation" in out
        await until(lambda: not broker.connections)

    world.run(uvloop.new_event_loop, body)


def change_keys(port: int, times: int, *, between_requests: int = 0) -> int:
    """A client that changes its keys again and again, and asks something after each so many changes, or nothing at all;
    how many responses it got. Python's ssl has no call for it, so OpenSSL's own is used."""
    found = ctypes.util.find_library("ssl")
    assert found is not None, "libssl is missing: install OpenSSL 3"
    library = ctypes.CDLL(found)
    for name in ("TLS_client_method", "SSL_CTX_new", "SSL_new"):
        getattr(library, name).restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.SSL_CTX_new(ctypes.c_void_p(library.TLS_client_method())))
    engine = ctypes.c_void_p(library.SSL_new(context))
    with socket.create_connection(("127.0.0.1", port)) as client:
        library.SSL_set_fd(engine, client.fileno())
        assert library.SSL_connect(engine) == 1
        answered, received = 0, ctypes.create_string_buffer(65_536)
        for number in range(1, times + 1):
            if library.SSL_key_update(engine, 1) != 1 or library.SSL_do_handshake(engine) != 1:
                break
            if between_requests and number % between_requests == 0:
                request = framed()
                assert library.SSL_write(engine, request, len(request)) == len(request)
                if library.SSL_read(engine, received, len(received)) <= 0:
                    break
                answered += 1
    library.SSL_free(engine)
    library.SSL_CTX_free(context)
    return answered


@pytest.mark.slow
@LOOPS
def test_a_client_that_only_changes_its_keys_is_closed(
    world: World, make_loop: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(broker: TlsBroker) -> None:
        changing = asyncio.ensure_future(asyncio.to_thread(change_keys, broker.port(), 10_000))
        good = await broker.connect()
        while not changing.done():
            await asyncio.wait_for(good.ask(), HANG_S)
            await asyncio.sleep(0.001)
        await changing

    world.run(make_loop, body)
    assert "the client sends records of TLS without requests" in caplog.text


@LOOPS
def test_a_client_that_asks_between_changes_of_its_keys_is_served(world: World, make_loop: Any) -> None:
    async def body(broker: TlsBroker) -> None:
        changing = asyncio.ensure_future(asyncio.to_thread(change_keys, broker.port(), 500, between_requests=10))
        good = await broker.connect()
        while not changing.done():
            await asyncio.wait_for(good.ask(), HANG_S)
            await asyncio.sleep(0.001)
        assert await changing == 50

    world.run(make_loop, body)


@LOOPS
def test_requests_buy_a_client_few_changes_of_its_keys(
    world: World, make_loop: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(broker: TlsBroker) -> None:
        assert await asyncio.to_thread(change_keys, broker.port(), 10_000, between_requests=100) < 20

    world.run(make_loop, body)
    assert "the client sends records of TLS without requests" in caplog.text


@LOOPS
def test_the_end_of_a_connection_in_the_middle_of_a_request_executes_nothing(world: World, make_loop: Any) -> None:
    async def body(broker: TlsBroker) -> None:
        client = await broker.connect()
        await client.ask()
        question = MetadataRequest(topics=(MetadataRequestTopic(name="t"),), allow_auto_topic_creation=True)
        request = b"".join(encode_request(ApiKey.METADATA, 8, 1, "c", question))
        client.writer.write(request[:-1])
        await until(lambda: [each.unfinished() for each in broker.connections] == [(1, len(request) - 1)])
        client.close()  # without a close_notify
        await until(lambda: not broker.connections)
        assert "t" not in broker.server.services.cluster.topics
        client = await broker.connect()
        await client.ask(request[4:])
        await until(lambda: "t" in broker.server.services.cluster.topics)

    world.run(make_loop, body)


@LOOPS
def test_garbage_in_place_of_a_record_ends_that_connection_alone(
    world: World, make_loop: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(broker: TlsBroker) -> None:
        good = await broker.connect()
        await good.ask()
        bad = socket.create_connection(("127.0.0.1", broker.port()))
        bad.setblocking(True)

        def attack() -> None:
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            engine = broker.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
            while True:
                try:
                    engine.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    bad.sendall(outgoing.read())
                    incoming.write(bad.recv(65_536))
            bad.sendall(outgoing.read() + b"\x17\x03\x03\x01\x00" + os.urandom(256))
            bad.settimeout(HANG_S)
            with contextlib.suppress(ConnectionError):
                while bad.recv(65_536):
                    pass
            bad.close()

        await asyncio.to_thread(attack)
        await good.ask()

    with caplog.at_level(logging.WARNING):
        world.run(make_loop, body)
    assert caplog.text.count("TLS fails: decryption failed or bad record mac") == 1


@LOOPS
def test_a_reader_that_never_reads_holds_up_itself_alone(world: World, make_loop: Any) -> None:
    async def body(broker: TlsBroker) -> None:
        deaf = await broker.connect()
        await deaf.ask()
        deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(40_000):
            deaf.writer.write(framed(API_VERSIONS))
        other = await broker.connect()
        await until(lambda: any(not each._transport.is_reading() for each in broker.connections))  # type: ignore[union-attr]
        for _ in range(20):
            await asyncio.wait_for(other.ask(), HANG_S)
        held = [connection._transport.get_write_buffer_size() for connection in broker.connections]  # type: ignore[union-attr]
        assert max(held) < 2_097_152

    world.run(make_loop, body)


@LOOPS
def test_a_session_is_resumed_until_the_certificate_is_loaded_again(world: World, make_loop: Any) -> None:
    async def body(broker: TlsBroker) -> None:
        context = broker.context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2

        def handshake(session: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool | None]:
            with (
                socket.create_connection(("127.0.0.1", broker.port())) as plain,
                context.wrap_socket(plain, server_hostname="localhost", session=session) as client,
            ):
                return client.session, client.session_reused

        session, _ = await asyncio.to_thread(handshake, None)
        assert (await asyncio.to_thread(handshake, session))[1]
        assert broker.server.tls is not None
        await broker.server.tls.refresh(forced=True)
        assert not (await asyncio.to_thread(handshake, session))[1]

    world.run(make_loop, body)


@pytest.mark.slow
def test_a_key_file_that_others_may_read_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = World(tmp_path)
    Path(world.key_store).chmod(0o644)

    async def body(broker: TlsBroker) -> None:
        await (await broker.connect()).ask()

    world.run(uvloop.new_event_loop, body)
    assert f"others than its owner may read it: chmod 600 {world.key_store}" in caplog.text
