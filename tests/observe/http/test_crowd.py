"""More clients than the HTTP listener has places for: who gets one (console.md 6)."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator
from typing import Final

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol
from waiting import HANG_S

from eosin.observe.http.guard import Receive, Scope, Send
from eosin.observe.http.host import MOST_CONNECTIONS, HttpHost

pytestmark = pytest.mark.process

LIVEZ: Final = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"
UNREAD: Final = bytes(16 << 20)


class Listener:
    """A listener whose application answers at once, but for /held and /large."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.asked: asyncio.Queue[str] = asyncio.Queue()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._host = HttpHost(self._answer, self._socket)
        self.writers: list[asyncio.StreamWriter] = []

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked.put_nowait(scope["path"])
        body = b"ok"
        if scope["method"] == "POST" and not await _whole(receive):
            return
        if scope["path"] == "/held":
            await self.let_go.wait()
        elif scope["path"] == "/large":
            body = UNREAD
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    async def start(self) -> None:
        await self._host.start()

    async def stop(self) -> None:
        self.let_go.set()
        for writer in self.writers:
            writer.transport.abort()
        await self._host.stop()

    async def connect(self, request: bytes, address: str = "127.0.0.1") -> asyncio.StreamReader:
        """What a new connection from `address` reads after this request."""
        host, port = self._socket.getsockname()
        reader, writer = await asyncio.open_connection(host, port, local_addr=(address, 0))
        self.writers.append(writer)
        writer.write(request)
        return reader

    async def crowd(self, request: bytes, *, answered: bool) -> None:
        """More connections than there are places, of another address."""
        for _ in range(MOST_CONNECTIONS + 8):
            reader = await self.connect(request, "127.0.0.2")
            if answered:
                await asyncio.wait_for(reader.readline(), HANG_S)


async def _whole(receive: Receive) -> bool:
    """Whether the body of a request comes to its end."""
    message = await receive()
    while message["type"] == "http.request" and message.get("more_body"):
        message = await receive()
    return bool(message["type"] == "http.request")


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    running = Listener()
    await running.start()
    try:
        yield running
    finally:
        await running.stop()


async def status(reader: asyncio.StreamReader) -> bytes:
    return (await asyncio.wait_for(reader.readline(), HANG_S)).split(b" ")[1]


@pytest.mark.parametrize(
    ("request_bytes", "answered"),
    [
        (b"", False),
        (b"GET /livez HTTP/1.1\r\nHost:", False),
        (LIVEZ, True),
        (b"GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nx", True),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nx", False),
        (b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n", True),
    ],
    ids=["silent", "half a header", "between requests", "answered before its body", "half a body", "reads nothing"],
)
async def test_an_idle_connection_gives_its_place_to_a_check_of_the_health(
    listener: Listener, request_bytes: bytes, answered: bool
) -> None:
    await listener.crowd(request_bytes, answered=answered)
    for _ in range(3):
        assert await status(await listener.connect(LIVEZ)) == b"200"


async def test_the_address_with_the_most_connections_gives_first(listener: Listener) -> None:
    check = await listener.connect(LIVEZ)
    assert await status(check) == b"200"
    await listener.crowd(LIVEZ, answered=True)
    listener.writers[0].write(LIVEZ)
    await asyncio.wait_for(check.readuntil(b"200 OK"), HANG_S)


async def test_when_everybody_is_being_answered_one_more_is_told_to_come_back(listener: Listener) -> None:
    held = [await listener.connect(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n") for _ in range(MOST_CONNECTIONS - 1)]
    for _ in held:
        await asyncio.wait_for(listener.asked.get(), HANG_S)
    assert await status(await listener.connect(LIVEZ)) == b"503"
    listener.let_go.set()
    assert {await status(each) for each in held} == {b"200"}


async def test_one_connection_is_read_in_each_turn_of_the_loop(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    turn = 0

    def count_turn() -> None:
        nonlocal turn
        turn += 1
        asyncio.get_running_loop().call_soon(count_turn)

    received = H11Protocol.data_received

    def noted(self: H11Protocol, data: bytes) -> None:
        read.append(turn)
        received(self, data)

    monkeypatch.setattr(H11Protocol, "data_received", noted)
    count_turn()
    readers = [await listener.connect(LIVEZ) for _ in range(20)]
    assert [await status(each) for each in readers] == [b"200"] * 20
    assert len(set(read)) == len(read) == 20


async def test_the_end_of_headers_may_come_in_two_pieces(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: asyncio.Queue[bytes] = asyncio.Queue()
    received = H11Protocol.data_received

    def noted(self: H11Protocol, data: bytes) -> None:
        received(self, data)
        begun.put_nowait(data)

    monkeypatch.setattr(H11Protocol, "data_received", noted)
    request = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n"
    for cut in range(1, 5):
        reader = await listener.connect(request[:-cut])
        await asyncio.wait_for(begun.get(), HANG_S)
        listener.writers[-1].write(request[-cut:] + b"\n" * 60_000)
        assert await status(reader) == b"200"
        while not begun.empty():
            begun.get_nowait()


async def test_a_body_that_never_ends_is_cut_off(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eosin.observe.http.host.HEADER_SECONDS", 0.05)
    reader = await listener.connect(b"GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nx")
    assert await status(reader) == b"200"
    with contextlib.suppress(ConnectionError):
        await asyncio.wait_for(reader.read(), HANG_S)


async def test_malformed_requests_are_told_of_once_in_a_while(
    listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="uvicorn.error"):
        for _ in range(5):
            assert await status(await listener.connect(b"nonsense\r\n\r\n")) == b"400"
    assert [record.getMessage() for record in caplog.records] == ["Invalid HTTP request received."]
