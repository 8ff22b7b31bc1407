"""`TlsLayer`: TLS between a socket's transport and a `Connection` (security.md 2.3).

To the raw transport it is a protocol, to the connection a transport. Why it is ours and not the loop's:
docs/adr/0037-tls-below-the-connection.md. Always true:
- A peer that does not greet with TLS gets no byte: a Java client would read an alert as the size of a response
  (KAFKA-4090). The connection above is made when the handshake is done, so it meets no such peer.
- What is received is decrypted straight into the connection's own memory; the layer keeps none of its own while it is
  idle. While the connection does not read, the raw transport does not either.
- What is not encrypted yet is the only queue. Nothing is encrypted while the raw transport is full, so at most
  `RAW_BYTES` and one piece of ciphertext are held, and other connections get their turn after `TURN_BYTES`.
- A close flushes, sends one close_notify, and waits for no answer. An end without close_notify is an ordinary end:
  frames have sizes, so what was cut off is never taken for a request.
"""

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from eosin.model.address_group import network_of
from eosin.network.refusal_log import RefusalLog
from eosin.network.tls.handshakes import Handshakes
from eosin.network.unauthenticated_peers import UnauthenticatedPeer
from eosin.protocol.types import Buffer

if TYPE_CHECKING:
    from eosin.network.host import Handshaking

SCRATCH_BYTES: Final = 65_536
GREETING_BYTES: Final = 65_536
"""Beyond this a peer is not read before a step of its handshake, which then has to be the last: what came behind the
end of a handshake is no part of it."""
FEED_BYTES: Final = 16_384
"""Decrypted in one go: OpenSSL keeps memory for as much, and works through all of it without a pause."""
BARREN_BYTES: Final = 20_480
"""Ciphertext, more than a record, in which no request is: changes of keys, say, which cost much and say nothing."""
WORTH: Final = 32
"""Bytes of ciphertext that a byte of a request may take."""
RECORD_BYTES: Final = 16_384
PIECE_BYTES: Final = 131_072
"""Encrypted in one call."""
TURN_BYTES: Final = 1_048_576
"""Encrypted before others get their turn."""
RAW_BYTES: Final = 131_072
"""Ciphertext in the raw transport at which nothing more is encrypted."""

_HELLO: Final = b"\x16\x03"
"""The first bytes of every client of TLS."""
_HELLO_BYTES: Final = len(_HELLO)

_NO_TRUST: Final = frozenset(
    {
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
        "SSLV3_ALERT_BAD_CERTIFICATE",
        "TLSV1_ALERT_UNKNOWN_CA",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED",
    }
)
_LEFT: Final = "the client left in the middle of the handshake: does it trust our certificate?"
_REASONS: Final = {
    "UNSUPPORTED_PROTOCOL": "the client speaks no version of TLS that is served",
    "NO_SHARED_CIPHER": "the client has no cipher suite that is served",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has shown no certificate",
}


class ApplicationProtocol(Protocol):
    """The connection above a layer, an `asyncio.BufferedProtocol`."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is done."""

    def get_buffer(self, sizehint: int) -> memoryview:
        """The memory for the next bytes."""

    def buffer_updated(self, nbytes: int) -> None:
        """They came."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer is gone."""

    def pause_writing(self) -> None:
        """Too much is unsent."""

    def resume_writing(self) -> None:
        """It has been sent."""


class PeerRefused(Exception):
    """The certificate is genuine and its holder is not let in: why, and what differs from one time to the next."""


@dataclass(slots=True)
class TlsHost:
    """The shared state of one listener's layers."""

    name: str
    """The listener's."""
    context: ssl.SSLContext
    """For new connections; replaced when certificates are."""
    connect: "Callable[[TlsLayer], ApplicationProtocol]"
    """The connection for a peer whose handshake is done, told of its transport. Raises PeerRefused."""
    refusals: RefusalLog
    handshakes: Handshakes
    scratch: memoryview
    """The memory in which ciphertext is received; a loop asks for memory and fills it in one step, so one piece serves
    all."""
    layers: "dict[Handshaking, None]"
    """The layers whose handshake is not done."""


class TlsLayer(asyncio.Transport, asyncio.BufferedProtocol):
    """One peer."""

    __slots__ = (
        "_address",
        "_application",
        "_barren",
        "_closing",
        "_engine",
        "_greeting",
        "_has_paused",
        "_has_slot",
        "_high",
        "_host",
        "_incoming",
        "_is_held",
        "_later",
        "_loop",
        "_low",
        "_outgoing",
        "_paused",
        "_queue",
        "_queued",
        "_raw",
        "_raw_paused",
        "has_replied",
        "unauthenticated",
    )

    def __init__(self, host: TlsHost, unauthenticated: UnauthenticatedPeer, loop: asyncio.AbstractEventLoop) -> None:
        self.unauthenticated: UnauthenticatedPeer | None = unauthenticated
        """Until the peer is known."""
        self._host = host
        self._loop = loop
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._engine: ssl.SSLObject | None = None
        """Made when the first bytes have come."""
        self._raw: asyncio.Transport | None = None
        self._address: tuple[str, int] = ("?", 0)
        self._application: ApplicationProtocol | None = None
        self._greeting = 0
        """Bytes received before the handshake was done."""
        self._is_held = False
        """True if it is not read before the next step of its handshake."""
        self._barren = 0
        """Bytes received since the last request, about."""
        self._has_slot = False
        self.has_replied = False
        """True if a step of the handshake was done: the client's greeting was read."""
        self._queue: deque[memoryview] | None = None
        """Not encrypted yet; made for the first answer that has to wait."""
        self._queued = 0
        """Bytes of it."""
        self._high = self._low = RAW_BYTES
        self._raw_paused = False
        self._paused = False
        """True if the connection does not want to read."""
        self._has_paused = False
        """True if the connection was told to write no more."""
        self._closing = False
        self._later: asyncio.Handle | None = None

    @property
    def address(self) -> str:
        """The peer's address, without its port."""
        return self._address[0]

    @property
    def network(self) -> str:
        """The network of the peer's address."""
        return network_of(self.address)

    @property
    def has_received(self) -> bool:
        """True if a byte came before the handshake was done."""
        return self._greeting > 0

    @property
    def listener(self) -> str:
        """Name of the listener that the peer came by."""
        return self._host.name

    # Called by the raw transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is connected; the peer has not said anything."""
        self._raw = cast(asyncio.Transport, transport)
        self._address = (transport.get_extra_info("peername") or self._address)[:2]
        self._host.layers[self] = None
        assert self.unauthenticated is not None
        self.unauthenticated.served_by(self, "tls")

    def get_buffer(self, sizehint: int) -> memoryview:
        """The memory for the next ciphertext."""
        return self._host.scratch

    def buffer_updated(self, nbytes: int) -> None:
        """Ciphertext came."""
        if self._closing:
            return
        scratch = self._host.scratch
        if self._application is None:
            self._incoming.write(scratch[:nbytes])
            self._greeted(nbytes)
            return
        for start in range(0, nbytes, FEED_BYTES):
            end = min(start + FEED_BYTES, nbytes)
            self._incoming.write(scratch[start:end])
            if self._closing or self._paused:
                continue
            self._barren = max(0, self._barren + end - start - WORTH * self._read())
            if self._barren > BARREN_BYTES and not self._closing:
                self._refuse("the client sends records of TLS without requests")

    def eof_received(self) -> bool:
        """The peer sends no more: its end, with or without close_notify."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        if self.has_replied and self._has_slot and self._incoming.pending:
            self.step()  # its last words, which often say why: it does not trust our certificate
        if self._greeting and self._application is None and not self._closing:
            self._refuse(_LEFT)
        self._closing = True
        self._raw = None
        self._leave_handshake()
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._queue is not None:
            self._queue.clear()
        if self.unauthenticated is not None:
            self.unauthenticated.end()
            self.unauthenticated = None
        application, self._application = self._application, None
        if application is not None:
            application.connection_lost(exc)

    def pause_writing(self) -> None:
        """The raw transport is full."""
        self._raw_paused = True

    def resume_writing(self) -> None:
        """The raw transport has room again."""
        self._raw_paused = False
        self._drain()

    # The handshake

    def _greeted(self, nbytes: int) -> None:
        first, self._greeting = self._greeting, self._greeting + nbytes
        if self._engine is None and not self._begin_handshake(first):
            return
        if self._greeting > GREETING_BYTES and not self._is_held and self._raw is not None:
            self._is_held = True
            self._raw.pause_reading()
        if self._has_slot:
            self._host.handshakes.ready(self)

    def _begin_handshake(self, before: int) -> bool:
        """Look at the first two bytes, of which `before` have been looked at; whether a handshake may begin now."""
        start = bytes(self._host.scratch[: min(self._greeting, _HELLO_BYTES) - before])
        if not _HELLO.startswith(start, before):
            self._refuse(f"a plain client on TLS listener {self._host.name}")
            return False
        if self._greeting < _HELLO_BYTES:
            return False
        self._engine = self._host.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._has_slot = self._host.handshakes.begin(self)
        if not self._has_slot:
            self.pause_reading()
        return self._has_slot

    def admitted(self) -> None:
        """There is room for this handshake, which had to wait."""
        self._has_slot = True
        self.resume_reading()

    def give_way(self) -> None:
        """Others wait for their handshake, and this one takes long: close at once."""
        self._note("the client takes long for its TLS handshake, and others wait for theirs")
        self._leave_handshake()
        self.abort()

    def step(self) -> None:
        """Advance the handshake."""
        engine = self._engine
        if self._closing or engine is None:
            return
        self.has_replied = True
        try:
            engine.do_handshake()
        except ssl.SSLWantReadError:
            if self._is_held:
                self._refuse("the client's greeting is too long")
            self._send_outgoing()
        except ssl.SSLError as error:
            self._refuse(*_explained(error))
        else:
            self._send_outgoing()
            if self._is_held and self._raw is not None and not self._raw.is_closing():
                self._raw.resume_reading()
            self._finish_handshake()

    def _finish_handshake(self) -> None:
        self._leave_handshake()
        try:
            self._application = self._host.connect(self)
        except PeerRefused as refused:
            self._refuse(*refused.args)
            return
        self._read()

    def _leave_handshake(self) -> None:
        if self in self._host.layers:
            del self._host.layers[self]
            self._has_slot = False
            self._host.handshakes.leave(self)

    # Reading

    def _read(self) -> int:
        """Decrypt what has come into the connection's memory, as long as it reads; how much it was."""
        engine, incoming, total = self._engine, self._incoming, 0
        assert engine is not None
        while incoming.pending or engine.pending():
            application = self._application
            if self._paused or self._closing or application is None:
                return total
            view = application.get_buffer(-1)
            room, got, is_over, is_empty = len(view), 0, False, False
            try:
                while got < room:
                    into = view[got:] if got else view
                    count: int = engine.read(room - got, into)  # type: ignore[assignment]  # with a buffer, how many
                    got += count
                    if not count:
                        is_over = True
                        break
                    if not incoming.pending and not engine.pending():
                        break
            except ssl.SSLWantReadError:
                is_empty = not got
            except ssl.SSLError as error:
                self._refuse(*_explained(error))
                return total
            if got:
                total += got
                application.buffer_updated(got)
            if is_over:
                self.close()
            if is_empty:
                break
        if self._outgoing.pending:  # an answer to a change of keys
            self._send_outgoing()
            self._pause_if_full()
        return total

    def pause_reading(self) -> None:
        """Receive nothing until `resume_reading`."""
        self._paused = True
        if self._raw is not None and not self._closing and not self._raw.is_closing():
            self._raw.pause_reading()

    def resume_reading(self) -> None:
        """Receive again, first what has been received and not decrypted."""
        self._paused = False
        if self._raw is None or self._closing or self._raw.is_closing():
            return
        self._raw.resume_reading()
        if self._later is None:
            self._later = self._loop.call_soon(self._go_on)

    def is_reading(self) -> bool:
        """True if something is received."""
        return not self._paused and not self._closing

    # Writing

    def write(self, data: Buffer) -> None:
        """Send `data` behind what waits."""
        if self._closing:
            return
        if self._queued or self._raw_paused or len(data) > PIECE_BYTES:
            self._enqueue(data)
            self._drain()
        elif self._encrypt(data):
            self._send_outgoing()
        self._pause_if_full()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Send all of them: small ones in one record."""
        parts = list(list_of_data)
        if sum(map(len, parts)) <= RECORD_BYTES:
            self.write(b"".join(parts))
            return
        if self._closing:
            return
        for part in parts:
            self._enqueue(part)
        self._drain()
        self._pause_if_full()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Sets the limits at which the connection has to stop writing, and may go on."""
        self._high = RAW_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low
        if self._raw is not None:
            # Below the connection's own limit, or it would never hear that there is room again.
            raw = min(RAW_BYTES, self._low)
            self._raw.set_write_buffer_limits(high=raw, low=raw // 4)
        self._pause_if_full()

    def get_write_buffer_size(self) -> int:
        """Bytes that the socket has not taken."""
        return self._queued + (0 if self._raw is None else self._raw.get_write_buffer_size())

    def _enqueue(self, data: Buffer) -> None:
        if self._queue is None:
            self._queue = deque()
        view = memoryview(data)
        self._queue.append(view)
        self._queued += len(view)

    def _drain(self) -> None:
        """Encrypt what waits, as far as the raw transport and this turn allow it."""
        queue, left = self._queue, TURN_BYTES
        while queue and not self._raw_paused and self._raw is not None:
            if left <= 0:
                if self._later is None:
                    self._later = self._loop.call_soon(self._go_on)
                return
            piece = self._next_piece(queue)
            self._queued -= len(piece)
            left -= len(piece)
            if not self._encrypt(piece):
                return
            self._send_outgoing()
        if self._queued:
            return
        if self._closing:
            self._shut_down()
        elif self._has_paused and self.get_write_buffer_size() <= self._low and self._application is not None:
            self._has_paused = False
            self._application.resume_writing()

    @staticmethod
    def _next_piece(queue: "deque[memoryview]") -> Buffer:
        """The bytes to encrypt in one call: part of a large response, or as many small ones as fit a record."""
        first = queue.popleft()
        if len(first) > PIECE_BYTES:
            queue.appendleft(first[PIECE_BYTES:])
            return first[:PIECE_BYTES]
        size = len(first)
        if not queue or size + len(queue[0]) > RECORD_BYTES:
            return first
        parts = [first]
        while queue and size + len(queue[0]) <= RECORD_BYTES:
            size += len(queue[0])
            parts.append(queue.popleft())
        return b"".join(parts)

    def _encrypt(self, data: Buffer) -> bool:
        """Encrypt into the outgoing memory; False when the connection has come to an end."""
        engine, size = self._engine, len(data)
        assert engine is not None
        try:
            sent = engine.write(data)
            while sent < size:
                sent += engine.write(memoryview(data)[sent:])
        except ssl.SSLError as error:
            self._refuse(*_explained(error))
            return False
        return True

    def _send_outgoing(self) -> None:
        if self._outgoing.pending and self._raw is not None and not self._raw.is_closing():
            self._raw.write(self._outgoing.read())

    def _pause_if_full(self) -> None:
        """Stop the connection when too much is unsent."""
        if not self._has_paused and self._application is not None and self.get_write_buffer_size() > self._high:
            self._has_paused = True
            self._application.pause_writing()

    def _go_on(self) -> None:
        """In a turn of its own: what the last one left."""
        self._later = None
        if self._raw is None:
            return
        if not self._closing and not self._paused:
            if self._application is not None:
                self._read()
            elif self._has_slot:
                self._host.handshakes.ready(self)
        self._drain()

    # The end

    def _refuse(self, reason: str, detail: str = "") -> None:
        """Log why, and close. An alert that says so leaves first."""
        self._note(reason, detail)
        self._closing = True
        if self._queue is not None:
            self._queue.clear()
            self._queued = 0
        self._send_outgoing()
        if self._raw is not None:
            self._raw.close()

    def _note(self, reason: str, detail: str = "") -> None:
        host, port = self._address
        self._host.refusals.note(host, reason, peer=f"{host}:{port}", listener=self._host.name, detail=detail)

    def _shut_down(self) -> None:
        engine, self._engine = self._engine, None
        if self._raw is None:
            return
        if engine is not None and self._application is not None:
            with contextlib.suppress(ssl.SSLError):  # it waits for the peer's close_notify, which we do not
                engine.unwrap()
            self._send_outgoing()
        self._raw.close()

    def close(self) -> None:
        """Send what waits, then close_notify, and close."""
        if self._closing:
            return
        self._closing = True
        if self._raw is not None and not self._raw.is_closing() and not self._paused:
            self._raw.pause_reading()
        self._drain()

    def abort(self) -> None:
        """Close now, and send nothing."""
        self._closing = True
        if self._raw is not None:
            self._raw.abort()

    def is_closing(self) -> bool:
        """True if it is closed, or about to be."""
        return self._closing or self._raw is None or self._raw.is_closing()

    # What the connection may ask

    @property
    def raw(self) -> asyncio.Transport | None:
        """The socket's transport; None once that is closed."""
        return self._raw

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """`sslcontext`, `ssl_object`, or what the raw transport knows."""
        if name == "ssl_object":
            return self._engine
        if name == "sslcontext":
            return None if self._engine is None else self._engine.context
        return default if self._raw is None else self._raw.get_extra_info(name, default)


def _explained(error: ssl.SSLError) -> tuple[str, str]:
    """The reason for the end of a connection, as the log says it, and the part that differs from one time to the
    next."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return "the client's certificate is not accepted", error.verify_message
    reason = error.reason or "no reason given"
    if reason in _NO_TRUST:
        return "the client does not trust our certificate", reason.lower().replace("_", " ")
    return _REASONS.get(reason, "TLS fails"), "" if reason in _REASONS else reason.lower().replace("_", " ")
