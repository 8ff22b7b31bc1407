"""A stub broker that asks for a login: SCRAM, PLAIN or OAUTHBEARER, with TLS if a context is given.

It closes a connection on any other request before the login, as brokers do; with `lifetime_ms` sessions end.
"""

import asyncio
import ssl
from dataclasses import replace
from typing import Any, Self

from stub_broker import Answer, StubBroker

from eosin.client.addresses import Address
from eosin.protocol.keys import ApiKey
from eosin.protocol.sasl.oauthbearer import BearerLogin, read_bearer, refusal
from eosin.protocol.sasl.plain import PlainLogin, read_plain
from eosin.protocol.sasl.scram_credentials import credential_of
from eosin.protocol.sasl.scram_messages import ClientFirst, read_client_first
from eosin.protocol.sasl.scram_server import ScramServer
from eosin.protocol.sasl.steps import Failure, Mechanism, Success
from eosin.protocol.schemas.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from eosin.protocol.schemas.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

SALT = bytes(range(24))
_LOGINS = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


class _Session:
    """The state of one connection."""

    def __init__(self) -> None:
        self.mechanism: str | None = None
        self.scram: ScramServer | None = None
        self.is_refused = False
        self.is_ready = False
        self.is_renewing = False
        self.expires_at = float("inf")


class SaslStubBroker(StubBroker):
    """`users` by name, `tokens` that are good."""

    def __init__(
        self,
        *,
        users: dict[str, str] | None = None,
        tokens: tuple[str, ...] = (),
        mechanisms: tuple[str, ...] = tuple(Mechanism),
        lifetime_ms: int = 0,
        iterations: int = 4096,
        context: ssl.SSLContext | None = None,
        **how: Any,
    ) -> None:
        super().__init__(**how)
        self.users = {"alice": "pencil"} if users is None else users
        self.tokens = tokens
        self.mechanisms = mechanisms
        self.lifetime_ms = lifetime_ms
        self.iterations = iterations
        self.logins: list[str] = []
        self._context = context
        self._sessions: dict[asyncio.Task[Any] | None, _Session] = {}
        self.answers[ApiKey.SASL_HANDSHAKE] = self._handshake
        self.answers[ApiKey.SASL_AUTHENTICATE] = self._authenticate

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        self.address = Address("127.0.0.1", self._server.sockets[0].getsockname()[1])
        for key, script in list(self.answers.items()):
            if key not in _LOGINS:
                self.script(key, script)
        return self

    def script(self, key: ApiKey, script: Any) -> None:
        """Set the answer to one API, after the login."""

        def answer(request: Any, version: int) -> Answer:
            session = self._session()
            is_over = asyncio.get_running_loop().time() > session.expires_at
            if not session.is_ready or session.is_renewing or is_over:
                raise ConnectionAbortedError
            found: Answer = script(request, version)
            return found

        self.answers[key] = answer

    def _session(self) -> _Session:
        return self._sessions.setdefault(asyncio.current_task(), _Session())

    def _handshake(self, request: SaslHandshakeRequest, _: int) -> SaslHandshakeResponse:
        session = self._session()
        if request.mechanism not in self.mechanisms:
            return SaslHandshakeResponse(error_code=33, mechanisms=self.mechanisms)
        session.mechanism, session.scram, session.is_renewing = request.mechanism, None, session.is_ready
        return SaslHandshakeResponse(mechanisms=self.mechanisms)

    def _authenticate(self, request: SaslAuthenticateRequest, _: int) -> SaslAuthenticateResponse:
        session = self._session()
        token = request.auth_bytes
        match session.mechanism:
            case Mechanism.PLAIN:
                plain = read_plain(token)
                is_good = isinstance(plain, PlainLogin) and self.users.get(plain.user) == plain.password
                return self._done(session, plain.user) if is_good else _refused()  # type: ignore[union-attr]
            case Mechanism.OAUTHBEARER:
                if session.is_refused:
                    assert token == b"\x01"
                    return _refused()
                bearer = read_bearer(token)
                if isinstance(bearer, BearerLogin) and bearer.token in self.tokens:
                    return self._done(session, bearer.token)
                session.is_refused = True
                return SaslAuthenticateResponse(auth_bytes=refusal())
            case None:
                return SaslAuthenticateResponse(error_code=34)
        return self._scram(session, token)

    def _scram(self, session: _Session, token: bytes) -> SaslAuthenticateResponse:
        if session.scram is None:
            first = read_client_first(token)
            if not isinstance(first, ClientFirst):
                return _refused()
            password = self.users.get(first.user, "no password at all")
            credential = credential_of(Mechanism(session.mechanism or ""), password, SALT, 4096)
            session.scram = ScramServer(first, replace(credential, iterations=self.iterations), "server-nonce")
            return SaslAuthenticateResponse(auth_bytes=session.scram.challenge)
        step = session.scram.finish(token)
        if isinstance(step, Failure):
            return _refused()
        return self._done(session, session.scram.user, step)

    def _done(self, session: _Session, who: str, step: Success = Success()) -> SaslAuthenticateResponse:  # noqa: B008
        self.logins.append(who)
        session.is_ready, session.is_renewing = True, False
        if self.lifetime_ms:
            session.expires_at = asyncio.get_running_loop().time() + self.lifetime_ms / 1000
        return SaslAuthenticateResponse(auth_bytes=step.token, session_lifetime_ms=self.lifetime_ms)


def _refused() -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=58, error_message="Authentication failed, says the stub")
