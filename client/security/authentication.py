"""Logging in: the SASL exchange on a connection, before its first request and again before its session ends.

Always true: a login that was refused is an `AuthenticationFailed` with the broker's own words, and is never tried again
by itself; a broker that cannot prove that it knows the password is refused, too.
"""

import asyncio
import base64
import os
from typing import Final

from eosin.client.connection import Connection
from eosin.client.errors import AuthenticationFailed, BrokerError, ConnectionFailed, UnsupportedVersion, check
from eosin.client.security.settings import Login
from eosin.client.security.tokens import token_of
from eosin.client.versions import negotiate
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.sasl.oauthbearer import BearerClient
from eosin.protocol.sasl.plain import plain_message
from eosin.protocol.sasl.scram_client import ScramClient
from eosin.protocol.sasl.scram_server import NONCE_BYTES
from eosin.protocol.sasl.steps import Challenge, Failure, Mechanism, Step, Success
from eosin.protocol.schemas.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from eosin.protocol.schemas.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

_MOST_ROUNDS: Final = 8


class _PlainClient:
    """PLAIN's exchange: one message, and an answer without content."""

    def __init__(self, login: Login) -> None:
        self.first: Final = plain_message(login.user, login.password)

    def step(self, token: bytes) -> Step:
        return Success() if not token else Failure("the server answers PLAIN with a token")


async def log_in(connection: Connection, login: Login) -> int:
    """Authenticate; returns how long the session lasts, in ms, 0 for without end. Raises a ClientError."""
    try:
        versions = await negotiate(connection)
        await _shake_hands(connection, login, versions.pick(ApiKey.SASL_HANDSHAKE))
        exchange = await _exchange(login)
        token, step = exchange.first, Failure("the server does not come to an end")
        for _ in range(_MOST_ROUNDS):
            request = SaslAuthenticateRequest(token)
            version = versions.pick(ApiKey.SASL_AUTHENTICATE)
            response: SaslAuthenticateResponse = await connection.request(
                ApiKey.SASL_AUTHENTICATE, request, version=version
            )
            check(response.error_code, "logging in", response.error_message)
            # PBKDF2 takes up to a second; the loop has other connections to serve.
            next_step = await asyncio.to_thread(exchange.step, response.auth_bytes)
            if isinstance(next_step, Success):
                return response.session_lifetime_ms
            if isinstance(next_step, Failure):
                step = next_step
                break
            assert isinstance(next_step, Challenge)
            token = next_step.token
    except UnsupportedVersion as error:
        raise AuthenticationFailed(f"{connection.address} does not know SASL: {error}") from error
    except BrokerError as error:
        if error.code is not ErrorCode.SASL_AUTHENTICATION_FAILED:
            raise AuthenticationFailed(f"cannot log in to {connection.address}: {error}") from error
        said = f": {error.message}" if error.message else ""
        raise AuthenticationFailed(f"{connection.address} refuses {login.who} with {login.mechanism}{said}") from error
    except ConnectionFailed as error:
        raise ConnectionFailed(f"{error} (while logging in)") from error
    raise AuthenticationFailed(f"{connection.address} did not authenticate itself: {step.reason}")


async def _shake_hands(connection: Connection, login: Login, version: int) -> None:
    if version < 1:
        raise UnsupportedVersion("brokers before Kafka 1.0 have no SaslAuthenticate")
    request = SaslHandshakeRequest(login.mechanism)
    response: SaslHandshakeResponse = await connection.request(ApiKey.SASL_HANDSHAKE, request, version=version)
    if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise AuthenticationFailed(
            f"{connection.address} does not offer {login.mechanism}, but {', '.join(response.mechanisms) or 'nothing'}"
        )
    if response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise AuthenticationFailed(
            f"{connection.address} is a listener without login: security.protocol is PLAINTEXT or SSL there"
        )
    check(response.error_code, "shaking hands")


async def _exchange(login: Login) -> ScramClient | BearerClient | _PlainClient:
    if login.mechanism is Mechanism.PLAIN:
        return _PlainClient(login)
    if login.mechanism is Mechanism.OAUTHBEARER:
        return BearerClient(await asyncio.to_thread(token_of, login))
    nonce = base64.urlsafe_b64encode(os.urandom(NONCE_BYTES)).decode()
    return ScramClient(login.mechanism, login.user, login.password, nonce)
