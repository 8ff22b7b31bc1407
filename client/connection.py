"""One connection to one broker: frames out, responses in, matched by correlation id.

Owns the socket and the requests on their way. Always true: requests leave in the order in which they were submitted and
are answered in that order, anything else closes the connection; when it closes, every request on its way fails with a
`ClientError`; with a login, only that is sent before it has succeeded, and while it is renewed (KIP-368). Nothing here
chooses a version or retries: this is raw access, `client.py` has the rest.

A link is a connection between nodes of a cluster. Always true of it: a request that is given up ends it, and whatever
ends it, be it the death of this process, takes back what the peer's system does not have yet (cluster.md 6.11).
"""

import asyncio
import contextlib
import os
import socket
import ssl
import struct
from collections import deque
from typing import Any, Final, NamedTuple, Protocol, Self, cast

from eosin.client import connection_failures
from eosin.client.addresses import Address
from eosin.client.connection_failures import Stage
from eosin.client.errors import (
    ClientError,
    ConnectionFailed,
    ProtocolViolation,
    RequestTimedOut,
    ResponseTooLarge,
    UnsupportedVersion,
)
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas import schema_of
from eosin.protocol.schemas.api_versions import ApiVersionsResponse
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import DecodeError, EncodeError, decode_response, encode_request
from eosin.protocol.wire.frames import FrameDecoder, FrameError, FrameTooLarge, HttpAnswer, TlsAlert
from eosin.protocol.wire.headers import SIZE_BYTES

CLIENT_ID: Final = "eosin"
CONNECT_TIMEOUT_MS: Final = 10_000
REQUEST_TIMEOUT_MS: Final = 30_000
MAX_IN_FLIGHT: Final = 64
"""Requests on their way at once; as many as a broker of ours has in work for one connection."""
MAX_RESPONSE_BYTES: Final = 256 * 1024 * 1024
_CLOSE_TIMEOUT_S: Final = 1.0
_MAX_CORRELATION_ID: Final = 2**31 - 1
_LEAST_RENEWAL_S: Final = 1.0
"""A broker takes no two logins of one connection within a second."""
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER of no time: the system drops what it has not sent, and resets the connection."""
_REFUSAL: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
_OF_LOGIN: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})


class Security(Protocol):
    """The steps of a connection before its first request: `ConnectionSecurity` implements them."""

    @property
    def tls(self) -> ssl.SSLContext | None:
        """Encrypts the connection; None leaves it plain."""

    async def authenticate(self, connection: "Connection") -> int:
        """Log in. Returns how long the session lasts in ms, 0 for without end. Raises a ClientError."""


def _time_out(response: asyncio.Future[Any]) -> None:
    """The time is up."""
    if not response.done():
        response.set_exception(TimeoutError())


class _SentRequest(NamedTuple):
    correlation_id: int
    key: ApiKey
    version: int
    response: asyncio.Future[Any]


class Connection:
    """An open connection. Make one with `await Connection.open(address)`, or `async with` that."""

    def __init__(
        self,
        address: Address,
        *,
        client_id: str | None,
        request_timeout_ms: int,
        max_in_flight: int,
        security: Security | None,
        link_timeout_ms: int | None,
        max_response_bytes: int,
    ) -> None:
        """Not connected yet: use `open`."""
        self.address: Final = address
        self.api_versions: ApiVersionsResponse | None = None
        """The versions that the broker serves, as it told on this connection; None when nobody has asked yet."""
        self._security = security
        self._renewing: asyncio.Task[None] | None = None
        self._held: list[tuple[_SentRequest | None, list[Any]]] | None = None
        """Requests that wait until the login is renewed; None while it is not being renewed."""
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._max_in_flight = max_in_flight
        self._slots = asyncio.Semaphore(max_in_flight)
        self._is_link = link_timeout_ms is not None
        self._stream = _SocketStream(address, security, link_timeout_ms, max_response_bytes)
        self._last_correlation_id = 0

    @classmethod
    async def open(
        cls,
        address: Address,
        *,
        client_id: str | None = CLIENT_ID,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        max_in_flight: int = MAX_IN_FLIGHT,
        security: Security | None = None,
        link_timeout_ms: int | None = None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> Self:
        """Connect and log in, each within `connect_timeout_ms`. With `link_timeout_ms` it is a link between nodes, and
        the system ends it when the peer's acknowledges nothing for so long. A larger response than
        `max_response_bytes` ends it. Raises ConnectionFailed, which may pass, or another ClientError."""
        connection = cls(
            address,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            max_in_flight=max_in_flight,
            security=security,
            link_timeout_ms=link_timeout_ms,
            max_response_bytes=max_response_bytes,
        )
        stream = connection._stream
        tls = security.tls if security is not None else None
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(connect_timeout_ms / 1000):
                await loop.create_connection(lambda: stream, address.host, address.port, ssl=tls)
        except TimeoutError as error:
            raise ConnectionFailed(f"cannot connect to {address}: no answer in {connect_timeout_ms} ms") from error
        except (OSError, EOFError, UnicodeError) as error:  # UnicodeError: a host name that IDNA cannot spell
            raise connection_failures.failed_to_connect(address, error, has_tls=tls is not None) from error
        if security is not None:
            try:
                await connection._log_in(security, connect_timeout_ms)
            except BaseException:
                await connection.close()
                raise
        return connection

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def is_open(self) -> bool:
        """True if requests can be sent."""
        return self._stream.failure is None

    @property
    def in_flight(self) -> int:
        """Requests that were submitted and not answered yet."""
        return len(self._stream.pending) + len(self._held or ())

    async def request(self, key: ApiKey, message: Message, *, version: int, timeout_ms: int | None = None) -> Any:
        """Send one request at exactly `version` and wait for its response, at most `timeout_ms` in all.

        Requests of several tasks are pipelined; one that finds too many on their way waits. Raises a ClientError.
        """
        limit_ms = self._request_timeout_ms if timeout_ms is None else timeout_ms
        # A login that is renewed must not wait for requests that wait for it.
        slot = contextlib.nullcontext() if key in _OF_LOGIN else self._slots
        try:
            if slot is self._slots and not slot.locked() and self._stream.is_writable:
                async with slot:
                    return await self._response_of(self.submit(key, message, version=version), limit_ms)
            async with asyncio.timeout(limit_ms / 1000), slot:
                await self._stream.drained()
                return await self._response_of(self.submit(key, message, version=version))
        except TimeoutError as error:
            raise RequestTimedOut(f"{self.address} did not answer {key.name} in {limit_ms} ms") from error

    async def _response_of(self, response: asyncio.Future[Any], limit_ms: int | None = None) -> Any:
        """Wait for a response; on a link, giving it up ends the link. `limit_ms`: the time that this may take, for
        requests that were sent at once. `asyncio.timeout` costs more than all the rest of waiting. Raises
        TimeoutError."""
        timer = None
        if limit_ms is not None:
            timer = response.get_loop().call_later(limit_ms / 1000, _time_out, response)
        try:
            return await response
        except (asyncio.CancelledError, TimeoutError):
            if self._is_link:
                self._end(ConnectionFailed(f"a request to {self.address} was given up"))
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def submit(self, key: ApiKey, message: Message, *, version: int) -> asyncio.Future[Any]:
        """Send one request now; the future is its response, without a timeout. For pipelining in a chosen order."""
        limit = self._max_in_flight + (self._held is not None)  # a login that is renewed has one of its own
        if self.in_flight >= limit and key not in _OF_LOGIN:
            raise ClientError(f"{self.in_flight} requests to {self.address} are on their way already")
        correlation_id, frame = self._encoded(key, message, version)
        response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._send(_SentRequest(correlation_id, key, version, response), frame)
        return response

    def send_without_response(self, key: ApiKey, message: Message, *, version: int) -> None:
        """Send a request that the broker does not answer: Produce with acks 0."""
        self._send(None, self._encoded(key, message, version)[1])

    def send_bytes(self, data: bytes) -> None:
        """Send bytes that need not be a request, for tests of a broker's manners."""
        self._stream.write([data])

    async def wait_closed(self) -> ClientError:
        """Wait until the connection is closed, by whomever; returns why."""
        await asyncio.shield(self._stream.closed)
        assert self._stream.failure is not None
        return self._stream.failure

    async def close(self) -> None:
        """Close; requests on their way fail. Harmless when already closed."""
        if self._renewing is not None:
            self._renewing.cancel()
        self._end(ConnectionFailed(f"the connection to {self.address} was closed by this client"))
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await asyncio.shield(self._stream.closed)
        except TimeoutError:
            self._stream.abort()

    def _encoded(self, key: ApiKey, message: Message, version: int) -> tuple[int, list[Any]]:
        """The correlation id and the bytes of a request."""
        schema = schema_of(key)
        if schema is None or version not in schema.versions:
            raise UnsupportedVersion(f"{key.name} version {version} is not one that this client can encode")
        correlation_id = self._last_correlation_id % _MAX_CORRELATION_ID + 1
        try:
            frame = encode_request(key, version, correlation_id, self._client_id, message)
        except EncodeError as error:
            if isinstance(error.__cause__, UnicodeEncodeError):
                raise ClientError(f"{error.__cause__.object!a} is not UTF-8, as all names in Kafka are") from error
            raise ClientError(f"{key.name} version {version} cannot say this: {error}") from error
        self._last_correlation_id = correlation_id
        return correlation_id, frame

    def _send(self, pending: _SentRequest | None, frame: list[Any]) -> None:
        if self._held is not None and not (pending is not None and pending.key in _OF_LOGIN):
            if self._stream.failure is not None:
                raise self._stream.failure
            self._held.append((pending, frame))
            return
        self._stream.write(frame)
        if pending is not None:
            self._stream.pending.append(pending)

    async def _log_in(self, security: Security, timeout_ms: int) -> None:
        """Log in now, and again before the session ends."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                lifetime_ms = await security.authenticate(self)
        except TimeoutError as error:
            raise RequestTimedOut(f"{self.address} did not end the login in {timeout_ms} ms") from error
        if lifetime_ms > 0:
            # Between 85 and 95 % of it, so that the connections of a client do not log in all at once.
            in_s = lifetime_ms / 1000 * (0.85 + os.urandom(1)[0] / 2550)
            self._renewing = asyncio.create_task(self._renew(security, max(in_s, _LEAST_RENEWAL_S), timeout_ms))

    async def _renew(self, security: Security, in_s: float, timeout_ms: int) -> None:
        """Log in again on the same connection. Other requests wait meanwhile: a broker takes none between."""
        await asyncio.sleep(in_s)
        if not self.is_open:
            return
        self._held = []
        try:
            # Its responses come behind those of requests that are on their way, some of which wait long.
            await self._log_in(security, timeout_ms + self._request_timeout_ms)
        except ClientError as error:
            self._end(error)
            return
        if self._stream.failure is not None:
            self._end(self._stream.failure)
            return
        held, self._held = self._held, None
        for pending, frame in held:
            if pending is None or not pending.response.done():
                self._send(pending, frame)

    def _end(self, failure: ClientError) -> None:
        """Close, and let what was held fail with what is on its way."""
        self._stream.pending.extend(pending for pending, _ in self._held or () if pending is not None)
        self._held = None
        self._stream.close(failure)


class _SocketStream(asyncio.BufferedProtocol):
    """The socket's side: bytes to responses, and the end of the connection to failures."""

    def __init__(
        self, address: Address, security: Security | None, link_timeout_ms: int | None, max_response_bytes: int
    ) -> None:
        self.pending: deque[_SentRequest] = deque()
        self.failure: ClientError | None = ConnectionFailed(f"not connected to {address}")
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._address = address
        self._link_timeout_ms = link_timeout_ms
        self._stage = Stage.PLAIN_UNPROVED
        if security is not None:
            self._stage = Stage.TLS_UNANSWERED if security.tls is not None else Stage.IN_USE
        self._decoder = FrameDecoder(max_response_bytes)
        self._transport: asyncio.Transport | None = None
        self._writable: asyncio.Future[None] | None = None
        """Unfinished while the transport has more to send than it likes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._link_timeout_ms is not None:
            _make_link(transport.get_extra_info("socket"), self._link_timeout_ms)
        self.failure = None

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._decoder.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._decoder.received(nbytes):
                self._handle_response(frame)
        except TlsAlert:
            self.close(connection_failures.speaks_tls(self._address))
        except HttpAnswer:
            self.close(connection_failures.speaks_http(self._address))
        except (FrameError, DecodeError) as error:
            kind = ResponseTooLarge if isinstance(error, FrameTooLarge) else ProtocolViolation
            self.close(kind(f"{self._address} does not speak Kafka's protocol: {error}"))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        stage = self._stage if self.pending else Stage.IN_USE
        self._fail(connection_failures.lost(self._address, exc, stage))
        if not self.closed.done():
            self.closed.set_result(None)

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        self._release_writers()

    @property
    def is_writable(self) -> bool:
        """True if the transport takes more to send."""
        return self._writable is None

    async def drained(self) -> None:
        """Wait while the transport has too much to send."""
        if self._writable is not None:
            await asyncio.shield(self._writable)

    def write(self, buffers: list[Any]) -> None:
        if self.failure is not None:
            raise self.failure
        assert self._transport is not None
        self._transport.writelines(buffers)

    def close(self, failure: ClientError) -> None:
        self._fail(failure)
        if self._transport is None:
            if not self.closed.done():
                self.closed.set_result(None)
        elif self._link_timeout_ms is not None:
            self._transport.abort()
        else:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _handle_response(self, frame: memoryview) -> None:
        if not self.pending:
            raise DecodeError("a response to nothing")
        correlation_id = int.from_bytes(frame[:SIZE_BYTES], "big", signed=True)
        asked = self.pending[0]
        if correlation_id != asked.correlation_id:
            raise DecodeError(f"the response to request {correlation_id} came, {asked.correlation_id} was next")
        message = _refused_version(asked, frame)
        if message is None:
            _, message = decode_response(asked.key, asked.version, frame)
        self.pending.popleft()
        if asked.key is not ApiKey.API_VERSIONS:
            self._stage = Stage.IN_USE
        elif self._stage is Stage.TLS_UNANSWERED:
            self._stage = Stage.TLS_UNPROVED
        if not asked.response.done():
            asked.response.set_result(message)

    def _fail(self, failure: ClientError) -> None:
        """Let every request on its way, and every later one, fail. The first reason stands."""
        if self.failure is None:
            self.failure = failure
        while self.pending:
            response = self.pending.popleft().response
            if not response.done():
                response.set_exception(self.failure)
        self._release_writers()

    def _release_writers(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None


def _make_link(options: socket.socket | None, timeout_ms: int) -> None:
    """Have the system end a silent connection, and reset it whenever it is closed."""
    if options is None:  # a network that is not the system's
        return
    options.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        options.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)


def _refused_version(asked: _SentRequest, frame: memoryview) -> ApiVersionsResponse | None:
    """The response to an ApiVersions request whose version the broker does not know: in version 0, whatever was asked
    (KIP-511). Some brokers get what follows the error code wrong; then it is left out. None for any other response."""
    if asked.key is not ApiKey.API_VERSIONS or frame[SIZE_BYTES : SIZE_BYTES + 2] != _REFUSAL:
        return None
    try:
        response = decode_response(asked.key, 0, frame)[1]
    except DecodeError:
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    assert isinstance(response, ApiVersionsResponse)
    return response
