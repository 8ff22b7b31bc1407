"""`HttpConnections`: who keeps a place on the HTTP listener when more clients come than it has places, and whose
request is read next (console.md 6).

Always true: a client that waits for nothing from the broker, whether it sends nothing, sends its request slowly or does
not read, gives up its place to one that comes; and the address with the most connections gives first, so that nobody
can keep the checks of the broker's health out. In each turn of the event loop one connection's bytes are read as HTTP,
which takes some milliseconds at most: more headers than anybody needs are refused unread.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from eosin.model.address_group import address_group

SAID_ONCE_IN_SECONDS: Final = 10
"""uvicorn tells of each request that is malformed, or one too many."""
LONGEST_HEADERS: Final = 16 * 1024
"""Bytes of the headers of a request."""
MOST_HEADERS: Final = 200
"""Lines of the headers of a request: each takes some 5 us."""
_END_OF_HEADERS: Final = b"\r\n\r\n"


class HttpConnections:
    """The connections of one listener."""

    def __init__(self, most: int) -> None:
        """`most` is how many have a place."""
        self._most = most
        self._unread: deque[_Connection] = deque()

    def protocol(self) -> Callable[..., asyncio.Protocol]:
        """The factory that uvicorn calls for each connection."""
        return partial(_Connection, self)

    def came(self, connection: "_Connection") -> None:
        """Make room for a connection, if there is none."""
        others: set[Any] = connection.connections
        if len(others) < self._most:
            return
        waiting = [each for each in others if each is not connection and _is_idle(each)]
        if not waiting:
            return  # it is told to come back
        of_address = Counter(map(_address, others))
        gone = min(waiting, key=lambda each: (-of_address[_address(each)], each.idle_since))
        others.discard(gone)
        if gone.flow.write_paused:
            gone.transport.abort()  # what it does not read would be waited for
        else:
            gone.transport.close()

    def add_unread(self, connection: "_Connection") -> None:
        """Bytes came: `connection` reads them in one of the next turns of the loop."""
        self._unread.append(connection)
        if len(self._unread) == 1:
            connection.loop.call_soon(self._read_one)

    def _read_one(self) -> None:
        connection = self._unread.popleft()
        if self._unread:
            connection.loop.call_soon(self._read_one)
        connection.read_received()


class _Connection(H11Protocol):
    """One connection, which makes room for itself."""

    def __init__(self, crowd: HttpConnections, config: uvicorn.Config, *given: Any, **named: Any) -> None:
        super().__init__(config, *given, **named)
        self._crowd = crowd
        self._received: list[bytes] = []
        """Bytes of the next turn; the transport does not read meanwhile."""
        self._header_lines = 0
        """Lines of the request that comes, as long as its headers are not whole."""
        self._last_bytes = b""
        """Of those headers; their end may come in two pieces."""
        self.idle_since = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._crowd.came(self)

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        self._received.append(data)
        if len(self._received) == 1:
            self.transport.pause_reading()
            self._crowd.add_unread(self)

    def read_received(self) -> None:
        """Read as HTTP what has come."""
        data, self._received = b"".join(self._received), []
        if self.transport.is_closing():
            return
        if self._has_too_long_headers(data):
            self.send_400_response(f"more than {MOST_HEADERS} headers, or {LONGEST_HEADERS} bytes of them")
            return
        super().data_received(data)
        if not (self.flow.read_paused or self.transport.is_closing()):
            self.transport.resume_reading()

    def on_response_complete(self) -> None:
        self.idle_since = self.loop.time()
        self._header_lines, self._last_bytes = 0, b""
        super().on_response_complete()

    def _has_too_long_headers(self, data: bytes) -> bool:
        """True if a request begins, and what `data` holds of its headers makes them too many. h11 itself bounds only
        headers whose end has not come."""
        if self.conn.their_state is not h11.IDLE:
            return False
        seen = self._last_bytes + data
        self._last_bytes = seen[1 - len(_END_OF_HEADERS) :]
        end = seen.find(_END_OF_HEADERS)
        size = len(seen) if end < 0 else end
        self._header_lines += seen.count(b"\n", 0, size)
        return size > LONGEST_HEADERS or self._header_lines > MOST_HEADERS


def lacks_the_rest(connection: Any) -> bool:
    """True if a connection has sent no request yet, or a part of one: between two requests uvicorn's own timer runs."""
    return getattr(connection, "cycle", None) is None or connection.conn.their_state is h11.SEND_BODY


def _is_idle(connection: "_Connection") -> bool:
    """True if the connection waits for nothing."""
    cycle = connection.cycle
    return cycle is None or cycle.response_complete or cycle.more_body or connection.flow.write_paused


def _address(connection: "_Connection") -> str:
    return address_group(connection.client[0]) if connection.client is not None else ""


class Seldom(logging.Filter):
    """Lets the same line pass once in a while: whoever reaches the listener can have uvicorn write it."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self._now = now
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """True if a line is written."""
        text, now = str(record.msg), self._now()
        if record.levelno >= logging.ERROR:
            return True
        if now - self._said.get(text, now - SAID_ONCE_IN_SECONDS) < SAID_ONCE_IN_SECONDS:
            return False
        self._said[text] = now  # uvicorn's warnings are a few texts without values
        return True
