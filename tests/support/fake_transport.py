"""A transport without a socket: feeds bytes to a connection and keeps what it writes."""

import asyncio
from collections.abc import Iterable
from typing import Any

from eosin.protocol.types import Buffer


class FakeTransport(asyncio.Transport):
    """A socket as a connection sees it. The peer's side is `feed`, `sent`, `frames` and `read_slowly`."""

    def __init__(self, *, peer: tuple[str, int] = ("127.0.0.1", 50_000)) -> None:
        super().__init__()
        self._peer = peer
        self._protocol: asyncio.BufferedProtocol | None = None
        self._closing = False
        self._lost = False
        self._unread: list[bytes] = []
        self._high: int | None = None
        self._paused_writing = False
        self.reading = True
        self.sent = bytearray()
        """Everything that the connection wrote and the peer has read."""
        self.unsent = bytearray()
        """The bytes that were written while the peer did not read."""
        self.peer_reads = True
        self.writes = 0
        """The number of the connection's writes."""
        self.aborted = False

    # The peer's side

    def connect(self, protocol: asyncio.BufferedProtocol) -> None:
        """Tell the protocol that a client is there."""
        self._protocol = protocol
        protocol.connection_made(self)

    def feed(self, data: bytes | bytearray, *, piece: int = 65_536) -> None:
        """Send bytes, in pieces of at most `piece`. While the connection does not read, they wait."""
        self._unread += [bytes(data[start : start + piece]) for start in range(0, len(data), piece)]
        self._deliver()

    def read_slowly(self) -> None:
        """Stop reading answers, until `read_all`."""
        self.peer_reads = False

    def read_all(self) -> None:
        """Read the answers that wait, and all that follow."""
        self.peer_reads = True
        self.sent += self.unsent
        self.unsent.clear()
        if self._paused_writing and self._protocol is not None:
            self._paused_writing = False
            self._protocol.resume_writing()

    def frames(self) -> list[bytes]:
        """The whole frames among `sent`, without their sizes; they are taken out of it."""
        whole = []
        while len(self.sent) >= 4 and len(self.sent) >= 4 + (size := int.from_bytes(self.sent[:4], "big")):
            whole.append(bytes(self.sent[4 : 4 + size]))
            del self.sent[: 4 + size]
        return whole

    def lose(self) -> None:
        """The client is gone."""
        self._lose(ConnectionResetError())

    def _deliver(self) -> None:
        assert self._protocol is not None
        while self._unread and self.reading and not self._closing:
            data = self._unread.pop(0)
            while data:
                buffer = memoryview(self._protocol.get_buffer(-1))
                size = min(len(buffer), len(data))
                assert size > 0, "no room to read into"
                buffer[:size] = data[:size]
                data = data[size:]
                self._protocol.buffer_updated(size)
                if not self.reading or self._closing:
                    break
            if data:
                self._unread.insert(0, data)

    # The connection's side

    def write(self, data: Buffer) -> None:
        self.writelines([data])

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        assert not self._closing, "written after close"
        self.writes += 1
        target = self.sent if self.peer_reads else self.unsent
        for data in list_of_data:
            target += data
        self._pause_writing_if_full()

    def _pause_writing_if_full(self) -> None:
        if self._high is not None and len(self.unsent) > self._high and not self._paused_writing:
            self._paused_writing = True
            assert self._protocol is not None
            self._protocol.pause_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high
        self._pause_writing_if_full()

    def get_write_buffer_size(self) -> int:
        return len(self.unsent)

    def pause_reading(self) -> None:
        assert self.reading, "paused twice"
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading, "resumed twice"
        self.reading = True
        asyncio.get_running_loop().call_soon(self._deliver)

    def is_reading(self) -> bool:
        return self.reading

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self._lose, None)

    def abort(self) -> None:
        self.aborted = True
        self.close()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._peer if name == "peername" else default

    def _lose(self, error: Exception | None) -> None:
        self._closing = True
        if not self._lost and self._protocol is not None:
            self._lost = True
            self._protocol.connection_lost(error)
