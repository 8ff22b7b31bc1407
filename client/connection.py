"""One connection to one broker: frames out, answers in, matched by correlation id.

Owns the socket and the requests on their way. Always true: requests leave in the order in which they were submitted and
are answered in that order, anything else closes the connection; when it closes, every request on its way fails with a
`ClientError`. Nothing here chooses a version or retries: this is raw access, `client.py` has the rest.
"""

import asyncio
import os
import ssl
from collections import deque
from typing import Any, Final, NamedTuple, Self, cast

from eosin.client.addresses import Address
from eosin.client.errors import (
    ClientError,
    ConnectionFailed,
    ProtocolViolation,
    RequestTimedOut,
    UnsupportedVersion,
)
from eosin.protocol.codec import DecodeError, EncodeError, decode_response, encode_request
from eosin.protocol.errors import ErrorCode
from eosin.protocol.frames import FrameDecoder, FrameError
from eosin.protocol.headers import SIZE_BYTES
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas import schema_of
from eosin.protocol.schemas.api_versions import ApiVersionsResponse
from eosin.protocol.types import Message

CLIENT_ID: Final = "eosin"
CONNECT_TIMEOUT_MS: Final = 10_000
REQUEST_TIMEOUT_MS: Final = 30_000
MAX_IN_FLIGHT: Final = 64
"""Requests on their way at once; as many as a broker of ours has in work for one connection."""
MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
_CLOSE_TIMEOUT_S: Final = 1.0
_MAX_CORRELATION_ID: Final = 2**31 - 1


class _Pending(NamedTuple):
    correlation_id: int
    key: ApiKey
    version: int
    answer: asyncio.Future[Any]


class Connection:
    """An open connection. Make one with `await Connection.open(address)`, or `async with` that."""

    def __init__(self, address: Address, *, client_id: str | None, request_timeout_ms: int, max_in_flight: int) -> None:
        """Not connected yet: use `open`."""
        self.address: Final = address
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._max_in_flight = max_in_flight
        self._slots = asyncio.Semaphore(max_in_flight)
        self._stream = _Stream(address)
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
        tls: ssl.SSLContext | None = None,
    ) -> Self:
        """Connect, or raise ConnectionFailed."""
        connection = cls(
            address, client_id=client_id, request_timeout_ms=request_timeout_ms, max_in_flight=max_in_flight
        )
        stream = connection._stream
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(connect_timeout_ms / 1000):
                await loop.create_connection(lambda: stream, address.host, address.port, ssl=tls)
        except TimeoutError as error:
            raise ConnectionFailed(f"cannot connect to {address}: no answer in {connect_timeout_ms} ms") from error
        except (OSError, UnicodeError) as error:  # UnicodeError: a host name that IDNA cannot spell
            raise ConnectionFailed(f"cannot connect to {address}: {_reason(error)}") from error
        return connection

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._stream.failure is None

    @property
    def in_flight(self) -> int:
        """Requests that were sent and not answered yet."""
        return len(self._stream.pending)

    async def request(self, key: ApiKey, message: Message, *, version: int, timeout_ms: int | None = None) -> Any:
        """Send one request at exactly `version` and wait for its answer, at most `timeout_ms` in all.

        Requests of several tasks are pipelined; one that finds too many on their way waits. Raises a ClientError.
        """
        limit_ms = self._request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000), self._slots:
                await self._stream.drained()
                return await self.submit(key, message, version=version)
        except TimeoutError as error:
            raise RequestTimedOut(f"{self.address} did not answer {key.name} in {limit_ms} ms") from error

    def submit(self, key: ApiKey, message: Message, *, version: int) -> asyncio.Future[Any]:
        """Send one request now; the future is its answer, without a timeout. For pipelining in a chosen order."""
        if len(self._stream.pending) >= self._max_in_flight:
            raise ClientError(f"{len(self._stream.pending)} requests to {self.address} are on their way already")
        correlation_id = self._write(key, message, version)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._stream.pending.append(_Pending(correlation_id, key, version, answer))
        return answer

    def send_unanswered(self, key: ApiKey, message: Message, *, version: int) -> None:
        """Send a request that the broker does not answer: Produce with acks 0."""
        self._write(key, message, version)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes that need not be a request, for tests of a broker's manners."""
        self._stream.write([data])

    async def wait_closed(self) -> ClientError:
        """Wait until the connection is closed, by whomever; answers why."""
        await asyncio.shield(self._stream.closed)
        assert self._stream.failure is not None
        return self._stream.failure

    async def close(self) -> None:
        """Close; requests on their way fail. Harmless when already closed."""
        self._stream.close(ConnectionFailed(f"the connection to {self.address} was closed by this client"))
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await asyncio.shield(self._stream.closed)
        except TimeoutError:
            self._stream.abort()

    def _write(self, key: ApiKey, message: Message, version: int) -> int:
        schema = schema_of(key)
        if schema is None or version not in schema.versions:
            raise UnsupportedVersion(f"{key.name} version {version} is not one that this client can encode")
        correlation_id = self._last_correlation_id % _MAX_CORRELATION_ID + 1
        try:
            frame = encode_request(key, version, correlation_id, self._client_id, message)
        except EncodeError as error:
            raise ClientError(f"{key.name} version {version} cannot say this: {error}") from error
        self._stream.write(frame)
        self._last_correlation_id = correlation_id
        return correlation_id


class _Stream(asyncio.BufferedProtocol):
    """The socket's side: bytes to answers, and the end of the connection to failures."""

    def __init__(self, address: Address) -> None:
        self.pending: deque[_Pending] = deque()
        self.failure: ClientError | None = ConnectionFailed(f"not connected to {address}")
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._address = address
        self._decoder = FrameDecoder(MAX_ANSWER_BYTES)
        self._transport: asyncio.Transport | None = None
        self._writable: asyncio.Future[None] | None = None
        """Unfinished while the transport has more to send than it likes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.failure = None

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._decoder.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._decoder.received(nbytes):
                self._answer(frame)
        except (FrameError, DecodeError) as error:
            self.close(ProtocolViolation(f"{self._address} does not speak Kafka's protocol: {error}"))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        because = f": {_reason(exc)}" if exc is not None else ""
        self._fail(ConnectionFailed(f"{self._address} closed the connection{because}"))
        if not self.closed.done():
            self.closed.set_result(None)

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        self._release_writers()

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
        if self._transport is not None:
            self._transport.close()
        elif not self.closed.done():
            self.closed.set_result(None)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _answer(self, frame: memoryview) -> None:
        if not self.pending:
            raise DecodeError("an answer to nothing")
        correlation_id = int.from_bytes(frame[:SIZE_BYTES], "big", signed=True)
        asked = self.pending[0]
        if correlation_id != asked.correlation_id:
            raise DecodeError(f"the answer to request {correlation_id} came, {asked.correlation_id} was next")
        message = _refused_version(asked, frame)
        if message is None:
            _, message = decode_response(asked.key, asked.version, frame)
        self.pending.popleft()
        if not asked.answer.done():
            asked.answer.set_result(message)

    def _fail(self, failure: ClientError) -> None:
        """Let every request on its way, and every later one, fail. The first reason stands."""
        if self.failure is None:
            self.failure = failure
        while self.pending:
            answer = self.pending.popleft().answer
            if not answer.done():
                answer.set_exception(self.failure)
        self._release_writers()

    def _release_writers(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None


def _refused_version(asked: _Pending, frame: memoryview) -> ApiVersionsResponse | None:
    """The answer to an ApiVersions request whose version the broker does not know: in version 0, whatever was asked
    (KIP-511). Some brokers get what follows the error code wrong; then it is left out. None for any other answer."""
    refusal = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
    if asked.key is not ApiKey.API_VERSIONS or frame[SIZE_BYTES : SIZE_BYTES + 2] != refusal:
        return None
    try:
        response = decode_response(asked.key, 0, frame)[1]
    except DecodeError:
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    assert isinstance(response, ApiVersionsResponse)
    return response


def _reason(error: BaseException) -> str:
    """An error of the operating system in its own words, without its number."""
    if isinstance(error, ConnectionError) and error.errno is not None:
        return os.strerror(error.errno)
    text = getattr(error, "strerror", None) or str(error)
    if text.startswith("Multiple exceptions:"):  # asyncio's, when a name has several addresses
        return "refused at each of its addresses"
    return text or type(error).__name__
