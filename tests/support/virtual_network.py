"""Connections between processes of one `Scheduler`: what `loop.create_connection` and `create_server` do, without a
socket.

Always true: bytes arrive in order, `LATENCY_S` after they were written; what the receiver does not read counts as
unsent, so that the writer is told to pause; the end of a connection arrives behind what was sent before. A process that
is killed takes its ends with it, and the other ends hear of that from `Network.forget`.
"""

import asyncio
import errno
import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from simulation.loop import Process

from eosin.protocol.types import Buffer

LATENCY_S: Final = 0.0001
"""Not nothing: time passes for a test that asks again and again."""
_HIGH_WATER: Final = 64 * 1024
"""Bytes beyond which a writer pauses unless it says otherwise, as with asyncio's own transports."""

_LAST_PORT: Final = 65535

Accept = Callable[[], "tuple[Process, asyncio.BaseProtocol] | None"]
"""The process that takes a new connection, and its protocol; None refuses the connection."""


class Network:
    """The addresses at which somebody listens, and what is connected."""

    def __init__(self) -> None:
        self._listening: dict[tuple[str, int], Accept] = {}
        self._ends: dict[End, None] = {}
        self._free = itertools.count(9092)
        self._of_clients = itertools.count(49152)

    def free_port(self) -> int:
        """A port at which nobody has ever listened."""
        return next(self._free)

    def listen(self, host: str, port: int, accept: Accept) -> None:
        """Ask `accept` for every connection to this address from now on. Raises OSError if somebody listens there, and
        OverflowError if there is no such port."""
        if (host, port) in self._listening:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        if not 0 <= port <= _LAST_PORT:
            raise OverflowError(f"there is no port {port}")
        self._listening[host, port] = accept

    def refuse(self, host: str, port: int) -> None:
        """Nobody listens at this address any more."""
        self._listening.pop((host, port), None)

    def connect(self, process: Process, protocol: asyncio.BaseProtocol, host: str, port: int) -> "End":
        """The end of a new connection that `process` has. Raises ConnectionRefusedError."""
        accepted = self._listening.get((host, port), lambda: None)()
        if accepted is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        own, remote = ("127.0.0.1", next(self._of_clients)), ("127.0.0.1", port)
        near = End(self, process, protocol, own=own, remote=remote)
        near.other = End(self, *accepted, own=remote, remote=own)
        near.other.other = near
        self._ends |= {near: None, near.other: None}
        for each in (near.other, near):
            each.process.call_soon(each.protocol.connection_made, each)
        return near

    def ended(self, end: "End") -> None:
        """An end is closed."""
        self._ends.pop(end, None)

    def forget(self, process: Process) -> None:
        """Close what a killed process was connected to."""
        for end in [each for each in self._ends if each.process is process]:
            end.abort()

    def close(self) -> None:
        """Close every connection. The processes are no more, so nobody hears of it."""
        for end in list(self._ends):
            end.abort()


class Listening(asyncio.AbstractServer):
    """The server that `create_server` returns: it listens at an address until `close`."""

    def __init__(self, network: Network, address: tuple[str, int]) -> None:
        self._network = network
        self._address = address

    @property
    def sockets(self) -> "tuple[Listening, ...]":
        """It stands for its only socket, too."""
        return (self,)

    def getsockname(self) -> tuple[str, int]:
        """The address."""
        return self._address

    def is_serving(self) -> bool:
        return True

    def close(self) -> None:
        self._network.refuse(*self._address)

    async def wait_closed(self) -> None:
        """Connections that are open stay."""


class End(asyncio.Transport):
    """The transport that one end of a connection sees."""

    other: "End"
    """The end at the peer."""

    def __init__(
        self,
        network: Network,
        process: Process,
        protocol: asyncio.BaseProtocol,
        *,
        own: tuple[str, int],
        remote: tuple[str, int],
    ) -> None:
        super().__init__({"sockname": own, "peername": remote})
        self.process = process
        self.protocol = protocol
        self._network = network
        self._unread: deque[memoryview | None] = deque()
        """The data that has arrived or is on its way; None for the end."""
        self._arrived = 0
        """The number of its pieces that are here already."""
        self._unread_bytes = 0
        self._is_reading = True
        self._is_closing = False
        self._high = _HIGH_WATER
        self._has_paused = False

    # What it sends

    def write(self, data: Buffer) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        data = b"".join(list_of_data)
        if data and not self._is_closing:
            self.other._send(data)
            self._pause_if_full()

    def _send(self, data: bytes | None) -> None:
        """Bytes for this end, or the news that there are no more, are on their way."""
        self._unread.append(None if data is None else memoryview(data))
        self._unread_bytes += len(data or b"")
        self.process.call_later(LATENCY_S, self._arrive)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH_WATER if high is None else high
        self._pause_if_full()

    def get_write_buffer_size(self) -> int:
        """The bytes that the peer leaves unread; data on its way to a peer that reads is as good as sent."""
        return 0 if self.other._is_reading else self.other._unread_bytes

    def can_write_eof(self) -> bool:
        return False

    def _pause_if_full(self) -> None:
        if self.get_write_buffer_size() > self._high and not self._has_paused:
            self._has_paused = True
            assert isinstance(self.protocol, asyncio.BufferedProtocol | asyncio.Protocol)
            self.protocol.pause_writing()

    def _resume_if_drained(self) -> None:
        if self._has_paused and self.get_write_buffer_size() <= self._high // 4 and not self._is_closing:
            self._has_paused = False
            assert isinstance(self.protocol, asyncio.BufferedProtocol | asyncio.Protocol)
            self.protocol.resume_writing()

    # What it receives

    def pause_reading(self) -> None:
        self._is_reading = False
        self.other.process.call_soon(self.other._pause_if_full)

    def resume_reading(self) -> None:
        self._is_reading = True
        self.process.call_soon(self._deliver)

    def is_reading(self) -> bool:
        return self._is_reading

    def _arrive(self) -> None:
        self._arrived += 1
        self._deliver()

    def _deliver(self) -> None:
        while self._arrived and self._is_reading and not self._is_closing:
            self._arrived -= 1
            data = self._unread.popleft()
            if data is None:
                self._end_of_stream()
            else:
                self._unread_bytes -= len(data)
                self._read(data)
        self.other.process.call_soon(self.other._resume_if_drained)

    def _read(self, data: memoryview) -> None:
        protocol = self.protocol
        if isinstance(protocol, asyncio.Protocol):
            protocol.data_received(bytes(data))
            return
        assert isinstance(protocol, asyncio.BufferedProtocol)
        while data and self._is_reading and not self._is_closing:
            buffer = memoryview(protocol.get_buffer(len(data)))
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            data = data[size:]
            protocol.buffer_updated(size)
        if data:
            self._unread.appendleft(data)
            self._unread_bytes += len(data)
            self._arrived += 1

    def _end_of_stream(self) -> None:
        assert isinstance(self.protocol, asyncio.BufferedProtocol | asyncio.Protocol)
        if not self.protocol.eof_received():
            self.close()

    # The end

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._network.ended(self)
            self.process.call_soon(self.protocol.connection_lost, None)
            self.other._send(None)

    def abort(self) -> None:
        self.close()
