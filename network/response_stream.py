"""`ResponseStream`: sends answers that are large or lie in files, as fast as the socket takes them and no faster.

Always true:
- What is sent is the answers' bytes in order, each once. While the transport's own buffer is empty they go straight
  into the socket: memory by `writev`, ranges of files by `sendfile`, without a copy in this process. When the socket is
  full, one piece is handed to the transport, which says when it has left: that piece is all that a reader who does not
  read holds of a range. A transport with TLS gets everything in such pieces.
- Bytes that are not in the page cache are read in a thread; other connections go on meanwhile. They get their turn of
  the loop after `_TURN_BYTES` as well.
- An answer that has begun cannot say that the rest of it cannot be read: the connection is closed then.
"""

import asyncio
import os
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from eosin.network.response_memory import ResponseMemory
from eosin.protocol.types import Buffer
from eosin.storage.results.file_range import FileRange, as_range

if TYPE_CHECKING:
    from eosin.network.connection import ServerConnection

_SEND_BYTES: Final = 1_048_576
"""Of a file, in one system call."""
_TURN_BYTES: Final = 1_048_576
_VECTORS: Final = 64
"""Buffers in one system call; every system takes 1,024."""

_CAN_SEND_DIRECTLY: Final = hasattr(os, "writev") and hasattr(os, "sendfile")


class ResponseStream:
    """The large answers of one connection that are not sent yet, in order."""

    __slots__ = (
        "_at",
        "_counted",
        "_descriptor",
        "_is_limited",
        "_later",
        "_loop",
        "_memory",
        "_memory_bytes",
        "_owner",
        "_parts",
        "_reading",
        "_transport",
        "_write_buffer_bytes",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        memory: ResponseMemory,
        owner: "ServerConnection",
        *,
        write_buffer_bytes: int,
    ) -> None:
        """`write_buffer_bytes` is the transport's limit, to be set again after each stream."""
        self._transport = transport
        self._loop = loop
        self._memory = memory
        self._owner = owner
        self._write_buffer_bytes = write_buffer_bytes
        socket = transport.get_extra_info("socket")
        is_plain = socket is not None and transport.get_extra_info("sslcontext") is None
        self._descriptor = socket.fileno() if is_plain and _CAN_SEND_DIRECTLY else -1
        self._parts: deque[Buffer] = deque()
        """The buffers to send; some are ranges of files."""
        self._at = 0
        """Number of bytes of the first part that are sent."""
        self._memory_bytes = 0
        """Number of bytes that `_parts` holds in memory."""
        self._counted = 0
        """Number of bytes that the memory of all connections counts for this one."""
        self._is_limited = False
        self._later: asyncio.Handle | None = None
        self._reading: asyncio.Task[Buffer] | None = None

    @property
    def is_busy(self) -> bool:
        """True if something is not sent yet."""
        return self._is_limited or bool(self._parts)

    @property
    def left(self) -> tuple[int, int]:
        """The number of parts that are not handed on yet, and the position in the first of them."""
        return len(self._parts), self._at

    def send(self, parts: Sequence[Buffer]) -> bool:
        """Send `parts` behind what waits. True when all of it is sent; else the owner is told, once it is."""
        in_memory = 0
        has_ranges = False
        for part in parts:
            if as_range(part) is None:
                in_memory += len(part)
            else:
                has_ranges = True
        if self._is_limited or self._parts:
            self._parts += parts
            self._memory_bytes += in_memory
            self._count()
            return False
        sent = 0
        if not has_ranges and self._descriptor >= 0 and len(parts) <= _VECTORS:
            sent = self._send_at_once(parts)
            if sent == in_memory:
                return True
        self._parts += parts
        self._memory_bytes = in_memory
        self._drop_sent(sent)
        return self._advance()

    def _send_at_once(self, parts: Sequence[Buffer]) -> int:
        """Number of bytes of a response in memory that the socket takes: nearly always all. An error here comes again
        later."""
        transport = self._transport
        if transport.get_write_buffer_size() or transport.is_closing():
            return 0
        try:
            return os.writev(self._descriptor, parts)
        except OSError:
            return 0

    def go_on(self) -> None:
        """The transport's buffer is empty again."""
        if self._later is None and self._reading is None and self._advance():
            self._owner.stream_ended()

    def drop(self) -> None:
        """The client is gone: nothing of this will be sent."""
        self._parts.clear()
        self._memory_bytes = 0
        self._is_limited = False
        if self._later is not None:
            self._later.cancel()
        self._memory.held_bytes -= self._counted
        self._counted = 0

    def _advance(self) -> bool:
        """Send what can be sent now; whether that was everything."""
        left = _TURN_BYTES
        transport = self._transport
        try:
            while not transport.is_closing():
                if transport.get_write_buffer_size():
                    self._wait_for_room()
                    return False
                if not self._parts:
                    self._finish()
                    return True
                if left <= 0:
                    self._later = self._loop.call_soon(self._next_turn)
                    self._count()
                    return False
                sent = self._send_some()
                if sent is None:
                    return False
                left -= sent
        except OSError as error:
            self.drop()
            if isinstance(error, ConnectionError):
                transport.abort()
            else:
                self._owner.stream_failed(error)
        return False

    def _next_turn(self) -> None:
        self._later = None
        self.go_on()

    def _wait_for_room(self) -> None:
        """Have the transport say when its buffer is empty."""
        if not self._is_limited:
            self._is_limited = True
            self._transport.set_write_buffer_limits(high=0)
        self._count()

    def _finish(self) -> None:
        if self._is_limited:
            self._is_limited = False
            self._transport.set_write_buffer_limits(high=self._write_buffer_bytes)
        if self._counted:
            self._count()

    def _count(self) -> None:
        held = self._memory_bytes + self._transport.get_write_buffer_size()
        self._memory.held_bytes += held - self._counted
        self._counted = held

    # One step each: how many bytes were taken, or None when something has to be waited for

    def _send_some(self) -> int | None:
        if self._descriptor < 0:
            return self._hand_over()
        first = self._parts[0]
        unread = as_range(first)
        try:
            if unread is None:
                sent = os.writev(self._descriptor, self._vectors())
            else:
                found = unread.send(self._descriptor, self._at, min(_SEND_BYTES, len(first) - self._at))
                if found is None:
                    self._read(unread)
                    return None
                sent = found
        except BlockingIOError:
            return self._hand_over()
        self._drop_sent(sent)
        return sent

    def _vectors(self) -> list[Buffer]:
        """The buffers up to the next range."""
        vectors: list[Buffer] = []
        for part in self._parts:
            if len(vectors) == _VECTORS or as_range(part) is not None:
                break
            vectors.append(part)
        if self._at:
            vectors[0] = memoryview(vectors[0])[self._at :]
        return vectors

    def _hand_over(self) -> int | None:
        """Give the transport a piece of the first part, or have that read."""
        first = self._parts[0]
        size = self._memory.piece_bytes()
        unread = as_range(first)
        if unread is None:
            return self._write(memoryview(first)[self._at : self._at + size])
        data = unread.read_now(self._at, size)
        if data is None:
            self._read(unread)
            return None
        return self._write(data)

    def _write(self, data: Buffer) -> int:
        if not self._is_limited:
            self._is_limited = True
            self._transport.set_write_buffer_limits(high=0)
        size = len(data)
        self._transport.write(data)
        self._drop_sent(size)
        return size

    def _read(self, unread: FileRange) -> None:
        """Have a piece of the first part read where that holds up nobody."""
        reading = self._loop.create_task(unread.read(self._at, self._memory.piece_bytes()))
        self._reading = reading
        self._count()
        reading.add_done_callback(self._was_read)

    def _was_read(self, reading: "asyncio.Task[Buffer]") -> None:
        self._reading = None
        error = reading.exception()
        if self._transport.is_closing() or not self._parts:
            return
        if isinstance(error, OSError):
            self.drop()
            self._owner.stream_failed(error)
            return
        self._write(reading.result())
        self.go_on()

    def _drop_sent(self, size: int) -> None:
        """The first `size` bytes are sent."""
        parts = self._parts
        size += self._at
        while parts and size >= len(parts[0]):
            part = parts.popleft()
            size -= len(part)
            if as_range(part) is None:
                self._memory_bytes -= len(part)
        self._at = size
