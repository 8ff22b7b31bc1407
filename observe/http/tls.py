"""TLS under the HTTP listener: asyncio's own TLS protocol, made for each connection, so that a new certificate is a new
context for new connections and nothing else (console.md 6).

Always true: at most `MOST_HANDSHAKES` connections are between their first byte and the end of their handshake, the
oldest gives up its place; a client that speaks plain HTTP is told so in plain HTTP.
"""

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from typing import Any, Final

MOST_HANDSHAKES: Final = 64
HANDSHAKE_SECONDS: Final = 10
_HANDSHAKE: Final = 0x16
"""The first byte of a client's greeting in TLS: the type of its record."""
_PLAIN: Final = b"plain HTTP was sent to a port that speaks TLS: ask with https://\n"
ANSWER: Final = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"
    % (len(_PLAIN), _PLAIN)
)


class TlsPort:
    """The connections of one listener, as long as their handshake takes."""

    def __init__(self, context: Callable[[], ssl.SSLContext], make: Callable[[], asyncio.Protocol]) -> None:
        """`context` is asked for each connection; `make` makes what speaks HTTP above it."""
        self._context = context
        self._make = make
        self._greeting: dict[_TlsConnection, None] = {}
        """Oldest first."""

    def protocol(self) -> "_TlsConnection":
        """Make the protocol of a connection that was just accepted."""
        return _TlsConnection(self, asyncio.get_running_loop(), self._make(), self._context())

    def came(self, connection: "_TlsConnection") -> None:
        """Count it, and make room for it."""
        self._greeting[connection] = None
        if len(self._greeting) > MOST_HANDSHAKES:
            oldest = next(iter(self._greeting))
            del self._greeting[oldest]
            oldest.abort()

    def passed(self, connection: "_TlsConnection") -> None:
        """Its handshake is over, or the connection is."""
        self._greeting.pop(connection, None)


class _TlsConnection(SSLProtocol):
    """One connection."""

    def __init__(
        self, port: TlsPort, loop: asyncio.AbstractEventLoop, above: asyncio.Protocol, context: ssl.SSLContext
    ) -> None:
        waiter: Any = None  # nobody waits for the handshake
        super().__init__(loop, above, context, waiter, True, ssl_handshake_timeout=HANDSHAKE_SECONDS)
        self._port = port
        self._above = above
        self._below: Any = None
        self._buffer: Any = None
        """The buffer for the first bytes; None once they were looked at."""
        self._is_greeted = False

    def connection_made(self, transport: Any) -> None:
        """The connection is accepted."""
        self._below = transport
        self._port.came(self)
        super().connection_made(transport)

    def get_buffer(self, n: int) -> Any:
        """The buffer for the next bytes."""
        self._buffer = super().get_buffer(n)
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Look at the first byte, then it is TLS's."""
        if not self._is_greeted:
            self._is_greeted = True
            if self._buffer[0] != _HANDSHAKE:
                self._below.write(ANSWER)
                self._below.close()
                return
        elif self._below.is_closing():
            return
        super().buffer_updated(nbytes)
        if self._above_is_made:
            self._port.passed(self)

    @property
    def _above_is_made(self) -> bool:
        return getattr(self._above, "transport", None) is not None

    def connection_lost(self, exc: BaseException | None) -> None:
        """It is gone."""
        self._port.passed(self)
        super().connection_lost(exc)

    def abort(self) -> None:
        """End it without a word."""
        self._below.abort()
