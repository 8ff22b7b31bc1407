"""`ClientLink`: one client's connection as hooks see and steer it. Made when the first hook wants it.

Always true: what it withholds is sent in order when it is released, or dropped with the connection; requests begin and
run all the same, until as many bytes are withheld as a connection may have unsent.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal

from eosin.network.response_queue import ResponseQueue
from eosin.protocol.wire.codec import Buffer
from eosin.storage.results.file_range import as_range

if TYPE_CHECKING:
    from eosin.network.connection import ServerConnection
    from eosin.network.request_hooks import RequestHooks

FIN: Final = "fin"
RST: Final = "rst"
_NO_LINGER: Final = struct.pack("ii", 1, 0)
"""Of SO_LINGER: a close sends RST, and drops what is unsent."""


class ClientLink:
    """One connection. `listener` is the name of the listener that it came in on."""

    __slots__ = ("_connection", "_lost", "_responses", "_transport", "client_id", "requests")

    def __init__(
        self, connection: "ServerConnection", responses: ResponseQueue, transport: asyncio.Transport | None
    ) -> None:
        self._connection = connection
        self._responses = responses
        self._transport = transport
        self._lost: list[Callable[[], None]] = []
        self.client_id: str | None = None
        """In the last request that hooks have seen."""
        self.requests = 0
        """Number of requests that hooks have seen."""

    @property
    def id(self) -> int:
        """Higher than that of every connection that the broker accepted before it."""
        return self._connection.number

    @property
    def peer(self) -> str:
        """HOST:PORT of the client."""
        return self._connection.peer

    @property
    def listener(self) -> str:
        """The name of its listener."""
        return self._connection.listener

    @property
    def software(self) -> tuple[str, str]:
        """The client library's name and version; empty until it has said so."""
        return self._connection.software

    @property
    def is_gone(self) -> bool:
        """True if it has ended."""
        return self._connection.is_gone

    @property
    def is_closing(self) -> bool:
        """True if it is being closed: responses that are not in its transport do not leave any more."""
        return self._transport is None or self._transport.is_closing()

    @property
    def is_stalled(self) -> bool:
        """True between `stall` and `release`."""
        return self._responses.is_withheld

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Call back when it ends; at once, if it has ended."""
        if self.is_gone:
            callback()
        else:
            self._lost.append(callback)

    def lost(self, hooks: "RequestHooks | None") -> None:
        """It has ended: tell those who wait for that."""
        callbacks, self._lost = self._lost, []
        for each in callbacks:
            each()
        if hooks is not None:
            hooks.lost(self)

    # Requests

    def hold(self) -> None:
        """Begin no request of it, until as many `go_on`."""
        self._connection.begin_turns()

    def go_on(self) -> None:
        """Begin requests again, unless somebody else holds it."""
        self._connection.end_turns()

    # Responses

    def close(self, how: Literal["fin", "rst"]) -> None:
        """End it now: after the responses that are ready (`fin`), or without them, as a reset does (`rst`)."""
        if how == FIN:
            self._connection.close()
            return
        if self._transport is not None and (its_socket := self._transport.get_extra_info("socket")) is not None:
            its_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._connection.abort()

    def stall(self) -> None:
        """Withhold what is not sent yet, and all that follows, until `release`."""
        if self._transport is None or self.is_stalled:
            return
        if not self._responses.withhold(self._transport):
            self._connection.pause_writing()

    def release(self) -> None:
        """Send what was withheld."""
        if self._transport is None or not self.is_stalled:
            return
        parts = self._responses.end_withholding()
        if self.is_gone:
            return
        if not parts or self._responses.pass_on(self._transport, parts):
            self._connection.stream_ended()
        else:
            self._connection.pause_writing()

    async def let_out(self, size_bytes: int) -> int:
        """Send so many of the bytes that are withheld, or all of them if they are fewer; returns their number."""
        sent = 0
        while sent < size_bytes and self._transport is not None and not self.is_gone:
            parts = self._responses.pop_withheld()
            if not parts:
                break
            first = await _read(parts[0])
            piece = first[: size_bytes - sent]
            rest = first[len(piece) :]
            self._responses.put_back([rest, *parts[1:]] if rest else parts[1:])
            self._responses.pass_on(self._transport, [piece])
            sent += len(piece)
        return sent


async def _read(part: Buffer) -> bytes:
    """The bytes of a part of a response, also of one that is not read yet."""
    found = as_range(part)
    if found is None:
        return bytes(part)
    data = bytearray()
    while len(data) < len(found):
        data += await found.read(len(data), len(found) - len(data))
    return bytes(data)
