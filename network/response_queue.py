"""`ResponseQueue`: the responses of one connection on their way to its client, in order.

Those of one turn of the loop leave in one piece. A large one, and whatever follows before it is sent, goes through an
`ResponseStream`, which is made for the first one: an idle connection has none.
"""

import asyncio
from typing import TYPE_CHECKING

from eosin.network.host import ConnectionHost
from eosin.network.response_stream import ResponseStream
from eosin.protocol.wire.codec import Buffer

if TYPE_CHECKING:
    from eosin.network.connection import ServerConnection


class ResponseQueue:
    """Responses that are ready and not handed to the transport yet, and the stream of those that the client takes
    first."""

    __slots__ = ("_host", "_loop", "_owner", "_ready", "_stream", "_streams_next", "_withheld", "ready_bytes")

    def __init__(self, host: ConnectionHost, loop: asyncio.AbstractEventLoop, owner: "ServerConnection") -> None:
        self._host = host
        self._loop = loop
        self._owner: ServerConnection | None = owner
        """None once it is gone."""
        self._ready: list[Buffer] = []
        self.ready_bytes = 0
        """Of responses that `send` has not seen."""
        self._stream: ResponseStream | None = None
        self._streams_next = False
        """True if a large response is among those that are ready, and while responses are withheld."""
        self._withheld: list[Buffer] | None = None

    @property
    def is_withheld(self) -> bool:
        """True if nothing is sent, since a hook wants it so."""
        return self._withheld is not None

    @property
    def is_streaming(self) -> bool:
        """True if the client has to take large responses first."""
        return self._stream is not None and self._stream.is_busy

    @property
    def left(self) -> tuple[int, int] | None:
        """The position in the large responses, as a value that changes with each byte; None if there were none."""
        return None if self._stream is None else self._stream.left

    def add(self, buffers: list[Buffer]) -> int:
        """Take the response that is the next in order; its size."""
        if len(buffers) == 1:
            size = len(buffers[0])
        else:
            size = sum(map(len, buffers))
            self._streams_next = self._streams_next or bool(buffers)
        self._ready += buffers
        self.ready_bytes += size
        return size

    def send(self, transport: asyncio.Transport) -> bool:
        """Hand over what is ready, in one piece. False when the client has to take it first; the owner hears when it
        has."""
        ready = self._ready
        self._ready = []
        self.ready_bytes = 0
        if self._streams_next or (self._stream is not None and self._stream.is_busy):
            if self._withheld is not None:
                self._withheld += ready
                return sum(map(len, self._withheld)) <= self._host.write_buffer_bytes
            self._streams_next = False
            return self._stream_on(transport).send(ready)
        if len(ready) == 1:
            transport.write(ready[0])
        else:
            transport.writelines(ready)
        return True

    def withhold(self, transport: asyncio.Transport) -> bool:
        """Keep what is added from now on. False when the client has to take first what was ready."""
        ready = self._ready
        self._ready = []
        self.ready_bytes = 0
        self._withheld = []
        self._streams_next = True
        return not ready or self.pass_on(transport, ready)

    def end_withholding(self) -> list[Buffer]:
        """Keep nothing more. Returns what was kept, for `pass_on`."""
        kept, self._withheld = self._withheld or [], None
        return kept

    def pop_withheld(self) -> list[Buffer]:
        """All that is kept, for who puts the rest of it back."""
        if self._withheld is None:
            return []
        kept = self._withheld + self._ready
        self._withheld = []
        self._ready = []
        self.ready_bytes = 0
        return kept

    def put_back(self, parts: list[Buffer]) -> None:
        """Keep these before what was added since they were taken."""
        if self._withheld is not None:
            self._withheld = parts + self._withheld

    def pass_on(self, transport: asyncio.Transport, parts: list[Buffer]) -> bool:
        """Send these, whatever is withheld. False when the client has to take them first."""
        if self._owner is None:
            return True
        return self._stream_on(transport).send(parts)

    def _stream_on(self, transport: asyncio.Transport) -> ResponseStream:
        if self._stream is None:
            assert self._owner is not None
            host = self._host
            self._stream = ResponseStream(
                transport,
                self._loop,
                host.response_memory,
                self._owner,
                write_buffer_bytes=host.write_buffer_bytes,
            )
        return self._stream

    def go_on(self) -> None:
        """The transport has room again for large responses."""
        if self._stream is not None:
            self._stream.go_on()

    def drop(self) -> None:
        """The client is gone. Nothing here refers to its connection any more."""
        self._ready.clear()
        self._withheld = self._owner = None
        if self._stream is not None:
            self._stream.drop()
            self._stream = None
