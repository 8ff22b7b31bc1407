"""`Peer`: one connection that sends any bytes, from any address of loopback, with TLS and a login if wanted.

It takes no care of what it is told: answers are frames that nobody need decode.
"""

import asyncio
import base64
import contextlib
import os
import ssl
from typing import Any, Final, Self

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.sasl.scram_client import ScramClient
from eosin.protocol.sasl.steps import Challenge, Mechanism, Success
from eosin.protocol.schemas.sasl_authenticate import SaslAuthenticateRequest
from eosin.protocol.schemas.sasl_handshake import SaslHandshakeRequest
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import decode_response, encode_request
from eosin.protocol.wire.headers import SIZE_BYTES

GONE: Final = (OSError, EOFError)
"""Raised where the broker has closed the connection, or does not take one."""
_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 2


class Refused(OSError):
    """The broker did not let a user in."""


def frame_of(key: ApiKey, version: int, message: Message, *, client_id: str = "peer") -> bytes:
    """A request as it goes over the wire, its size in front."""
    return b"".join(encode_request(key, version, 1, client_id, message))


def handshake(mechanism: str) -> bytes:
    """The request that names a mechanism."""
    return frame_of(ApiKey.SASL_HANDSHAKE, _HANDSHAKE_VERSION, SaslHandshakeRequest(mechanism))


def token(content: bytes) -> bytes:
    """The request that carries a message of a mechanism."""
    return frame_of(ApiKey.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, SaslAuthenticateRequest(content))


def scram(user: str, password: str) -> ScramClient:
    """A login by the tutorial's mechanism that has sent nothing yet."""
    return ScramClient(Mechanism.SCRAM_SHA_512, user, password, base64.urlsafe_b64encode(os.urandom(24)).decode())


class Peer:
    """An open connection. Whoever is done with it drops it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int, tls: ssl.SSLContext | None, source: str = "127.0.0.1") -> Self:
        """Connect to a port of loopback from an address of it. Raises one of `GONE`."""
        named = {"ssl": tls, "server_hostname": "localhost"} if tls is not None else {}
        return cls(*await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0), **named))  # type: ignore[arg-type]

    def drop(self) -> None:
        """End the connection without a word."""
        self._writer.transport.abort()

    async def send(self, *pieces: bytes) -> None:
        """Send bytes as they are."""
        self._writer.writelines(pieces)
        await self._writer.drain()

    async def answer(self) -> bytes:
        """The next frame that comes, without its size."""
        size = int.from_bytes(await self._reader.readexactly(SIZE_BYTES), "big")
        return await self._reader.readexactly(size)

    async def ask(self, *frames: bytes) -> bytes:
        """Send requests in one packet; the last of their answers."""
        await self.send(*frames)
        answer = b""
        for _ in frames:
            answer = await self.answer()
        return answer

    async def until_closed(self) -> None:
        """Take what comes until the broker ends the connection."""
        while await self._reader.read(65_536):
            pass

    async def heard(self, within_s: float) -> bytes:
        """Read the bytes that come within this time; empty if none do."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):  # wait_for may swallow the end of the attack
                return await self._reader.read(65_536)
        return b""

    async def log_in(self, user: str, password: str) -> None:
        """Log in as the tutorial does it. Raises Refused."""
        await self.ask(handshake(Mechanism.SCRAM_SHA_512))
        exchange = scram(user, password)
        step: Any = Challenge(exchange.first)
        while isinstance(step, Challenge):
            frame = await self.ask(token(step.token))
            _, answer = decode_response(ApiKey.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, frame)
            if answer.error_code != ErrorCode.NONE:
                raise Refused(f"{user}: {answer.error_message}")
            step = exchange.step(answer.auth_bytes)
        if not isinstance(step, Success):
            raise Refused(f"{user}: the broker did not prove itself")
