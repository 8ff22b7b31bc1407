"""Connections between clients and the broker: in order and whole, but slow, and they break.

A client that gives up on a connection leaves behind what it has sent: it may still arrive, much later, when the client
has long sent the same again over another one. That is how requests come late and come twice.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, cast

from eosin.protocol.types import Buffer
from simulation.loop import Process
from simulation.machine import Machine


class ConnectionLost(OSError):
    """The connection is gone, and whatever was not answered over it may or may not have been done."""


class Link:
    """What the network does to the connections of one client."""

    def __init__(self, chance: random.Random, *, delay_ms: float, stall: float = 0.0, stall_ms: float = 0.0) -> None:
        self._chance = chance
        self.delay_ms = delay_ms
        """How long a message takes at most, usually."""
        self.stall = stall
        """How likely a message takes much longer."""
        self.stall_ms = stall_ms
        self.latest = 0.0
        """When the last message that is under way arrives, in seconds of the world."""

    def delay(self) -> float:
        """Seconds for the next message."""
        if self.stall and self._chance.random() < self.stall:
            return self._chance.random() * self.stall_ms / 1000
        return self._chance.random() * self.delay_ms / 1000


class Wire:
    """One connection, both ends of it. The client's end is `call` and `abandon`; nothing here waits."""

    def __init__(self, machine: Machine, client: Process, there: Link, back: Link) -> None:
        """`there` is what happens to requests, `back` to answers."""
        self._machine = machine
        self._client = client
        self._there = there
        self._back = back
        self._request_at = 0.0
        self._answer_at = 0.0
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._received = bytearray()
        self._end: End | None = None
        self._refused = False
        self.is_lost = False
        """Whether it is of no use to the client any more."""

    def call(self, frame: bytes) -> "asyncio.Future[bytes]":
        """Send a request; its answer, without the size, or ConnectionLost."""
        answer: asyncio.Future[bytes] = self._client.create_future()
        self._waiting.append(answer)
        self._request_at = max(self._request_at, self._client.time() + self._there.delay())
        self._there.latest = max(self._there.latest, self._request_at)
        self._client.call_at(self._request_at, self._at_the_gate, frame)
        return answer

    def abandon(self) -> None:
        """Forget the connection. What was sent is still on its way."""
        self._lose()

    def hang_up(self) -> None:
        """Close the connection, of which the broker hears behind what was sent."""
        self.abandon()
        at = max(self._request_at, self._client.time() + self._there.delay())
        self._client.call_at(at, self._machine.gate.through, self._hung_up)

    def _hung_up(self) -> None:
        if self._end is not None:
            self._machine.peers.pop(self.closed, None)
            self._end.lost()

    def _lose(self) -> None:
        self.is_lost = True
        waiting, self._waiting = self._waiting, deque()
        for answer in waiting:
            if not answer.done():
                answer.set_exception(ConnectionLost())

    def _at_the_gate(self, frame: bytes) -> None:
        """A request that has to wait there is lost if its client gives up meanwhile: nothing has acknowledged it."""
        if self._machine.gate.is_shut:
            self._machine.gate.through(lambda: None if self.is_lost else self._arrived(frame))
        else:
            self._arrived(frame)

    # At the broker

    def _arrived(self, frame: bytes) -> None:
        if self._end is None and not self._refused:
            connection = self._machine.accept()
            if connection is not None:
                process = cast(Process, self._machine.process)
                self._end = End(process, connection, send=self.answered, hang_up=self.closed)
                self._machine.peers[self.closed] = None
        if self._end is None or not self._end.process.is_alive or self._end.is_closing():
            # Nobody listens, or a new process has taken the place of the one that knew this connection.
            self._refused = True
            self.closed()
            return
        self._end.feed(frame)

    # Back at the client

    def answered(self, data: bytes) -> None:
        """The broker has sent bytes."""
        self._answer_at = max(self._answer_at, self._client.time() + self._back.delay())
        self._client.call_at(self._answer_at, self._machine.gate.through, self._read, data)

    def closed(self) -> None:
        """The broker's end is gone; that is heard behind what it has sent."""
        self._machine.peers.pop(self.closed, None)
        self._answer_at = max(self._answer_at, self._client.time() + self._back.delay())
        self._client.call_at(self._answer_at, self._machine.gate.through, self._lose)

    def _read(self, data: bytes) -> None:
        if self.is_lost:
            return
        received = self._received
        received += data
        while len(received) >= 4 and len(received) >= 4 + (size := int.from_bytes(received[:4], "big")):
            answer = self._waiting.popleft()
            if not answer.done():
                answer.set_result(bytes(received[4 : 4 + size]))
            del received[: 4 + size]


class End(asyncio.Transport):
    """The transport that one end of a connection sees, whoever carries its bytes."""

    def __init__(
        self,
        process: Process,
        protocol: asyncio.BufferedProtocol,
        *,
        send: Callable[[bytes], None],
        hang_up: Callable[[], None],
        reset: Callable[[], None] | None = None,
    ) -> None:
        """`protocol` lives in `process`. `send` takes what it writes, `hang_up` hears that it closes, `reset` that it
        takes back what has not come over, where that is told apart."""
        super().__init__()
        self.process = process
        self._protocol = protocol
        self._send = send
        self._hang_up = hang_up
        self._reset = reset or hang_up
        self._unread: deque[bytes] = deque()
        self._is_reading = True
        self._is_closing = False
        process.call_soon(protocol.connection_made, self)

    def feed(self, frame: bytes) -> None:
        """Bytes have come over the wire."""
        self._unread.append(frame)
        self.process.call_soon(self._deliver)

    def _deliver(self) -> None:
        while self._unread and self._is_reading and not self._is_closing:
            data = self._unread.popleft()
            at = 0
            while at < len(data):
                buffer = memoryview(cast(memoryview, self._protocol.get_buffer(-1)))
                size = min(len(buffer), len(data) - at)
                buffer[:size] = data[at : at + size]
                at += size
                self._protocol.buffer_updated(size)

    def write(self, data: Buffer) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        if self.process.is_alive:
            self._send(b"".join(list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The peer always reads."""

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self.process.call_soon(self._deliver)

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._end(self._hang_up)

    def _end(self, tell: Callable[[], None]) -> None:
        if not self._is_closing and self.process.is_alive:
            self._is_closing = True
            self.process.call_soon(self._protocol.connection_lost, None)
            tell()

    def lost(self) -> None:
        """The other end is gone."""
        if not self._is_closing and self.process.is_alive:
            self._is_closing = True
            self.process.call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        self._end(self._reset)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.1", 1) if name == "peername" else default
