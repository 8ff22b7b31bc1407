"""`SaslGate`: stands between a connection of a SASL listener and its handlers until the peer has proved who it is.

`Authentication` decides what is legal, a `ServerExchange` judges the tokens, and the gate carries out what they say: it
answers, holds a failure back, closes, and gives the connection its session. Always true: no handler but that of
ApiVersions runs for a peer that is not authenticated; while a step waits, the connection begins nothing; whatever goes
wrong inside ends that connection (security.md 6.5.5). The peer is told one text for every cause of a failure; the log
has the cause.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from eosin.model.close_connection import CloseConnection
from eosin.model.principals import ANONYMOUS, Principal
from eosin.network import audit
from eosin.network.api import Api, RequestContext
from eosin.network.exchange import Exchange
from eosin.network.limits import close_if_too_many
from eosin.network.sasl.failure_delays import FailureDelays
from eosin.network.sasl.raw_exchange import RawExchange
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.sasl.steps import Challenge, Failure
from eosin.protocol.schemas.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from eosin.protocol.schemas.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from eosin.protocol.wire.codec import RequestHeader, decode_request, decode_request_header
from eosin.runtime.clock import Timer
from eosin.runtime.logging_format import fields, quoted, shown
from eosin.security.sasl.exchanges import Authenticated, NewExchange, ServerExchange, Step
from eosin.security.sasl.states import Authentication, AuthenticationState, RequestTreatment
from eosin.security.session import SecurityProtocol, Session

if TYPE_CHECKING:
    from eosin.network.connection import ServerConnection
    from eosin.network.host import ConnectionHost
    from eosin.network.unauthenticated_peers import UnauthenticatedPeer

log: Final = logging.getLogger(__name__)

USER: Final = "User"
"""The type of every principal that SASL proves."""
EXCHANGE_MS: Final = 10_000
"""Time that a renewal may take; a first login has the deadline of unauthenticated peers."""
LINGER_MS: Final = 30_000
"""Time for which a connection with nothing but a waiting Fetch stays open after its session has expired."""

_HANDSHAKE: Final = ApiKey.SASL_HANDSHAKE.to_bytes(2, "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslListener:
    """The shared state of one SASL listener's connections."""

    protocol: SecurityProtocol
    exchanges: Mapping[str, NewExchange]
    """The enabled mechanisms, in the order in which clients are told them."""
    failures: FailureDelays
    max_receive_bytes: int
    """The largest frame of a peer that is not authenticated."""
    max_reauth_ms: Mapping[str, int]
    """Longest time of a session, by mechanism; 0: no end of its own."""
    is_super: Callable[[Principal], bool]
    has_other_users: bool = False
    """True if somebody may log in who is not in the store."""


class SaslGate:
    """The gate of one connection, for all its authentications."""

    __slots__ = (
        "_connection",
        "_deadline",
        "_exchange",
        "_expiry",
        "_host",
        "_listener",
        "_states",
        "_tokens_api",
        "_unauthenticated",
    )

    def __init__(
        self,
        listener: SaslListener,
        connection: "ServerConnection",
        host: "ConnectionHost",
        unauthenticated: "UnauthenticatedPeer",
    ) -> None:
        """`unauthenticated` counts the peer, and its time, until it is known."""
        self._listener = listener
        self._connection = connection
        self._host = host
        self._states = Authentication(tuple(listener.exchanges))
        self._exchange: ServerExchange | None = None
        """The exchange under way."""
        self._unauthenticated = unauthenticated
        self._expiry: Timer | None = None
        """Looks at the connection after its session has expired."""
        self._deadline: Timer | None = None
        """Of a renewal under way."""

    # Called by the connection

    def opened(self) -> None:
        """The peer is connected, and unknown."""
        self._connection.limit_frames(self._listener.max_receive_bytes, self._unauthenticated.memory)
        self._unauthenticated.served_by(self._connection, "sasl")

    def closed(self) -> None:
        """The connection is gone."""
        self._unauthenticated.end()
        self._forget_expiry()
        self._forget_deadline()
        self._exchange = None

    def admits(self, frame: memoryview) -> bool:
        """True if the connection shall begin this request as usual; otherwise the gate has dealt with it. Raises
        DecodeError and CloseConnection."""
        states = self._states
        if states.state is AuthenticationState.READY and frame[:2] != _HANDSHAKE and not self._has_expired():
            return True
        if states.state is AuthenticationState.RAW:
            self._accept_raw(frame)
            return False
        header = decode_request_header(frame)
        match states.request(header.api_key, is_expired=self._has_expired()):
            case RequestTreatment.PASS:
                return True
            case RequestTreatment.HANDSHAKE:
                self._begin(frame, header, self._own(ApiKey.SASL_HANDSHAKE, respond=self._handshake))
            case RequestTreatment.TOKEN:
                self._begin(frame, header, self._own(ApiKey.SASL_AUTHENTICATE, handle=self._authenticate))
            case RequestTreatment.ILLEGAL:
                self._begin(frame, header, self._refusing(header))
                self._connection.end_after_responses()
            case RequestTreatment.CLOSE:
                self._refuse(header)
        return False

    # Steps

    def _accept_raw(self, frame: memoryview) -> None:
        if self._states.request(ApiKey.SASL_AUTHENTICATE) is not RequestTreatment.TOKEN:
            self._connection.refuse_peer("too many SASL tokens")
            return
        api = self._own(ApiKey.SASL_AUTHENTICATE, handle=self._authenticate)
        context = self._connection.context(api, 0, None)
        request = SaslAuthenticateRequest(auth_bytes=bytes(frame))
        self._connection.hold()  # its task begins with a later turn of the loop
        self._connection.begin_exchange(RawExchange(api, context, 0, request), len(frame))

    def _begin(self, frame: memoryview, header: RequestHeader, api: Api | None) -> None:
        """Answer a request by an API of the gate's own."""
        if api is None or header.api_version not in api.versions:
            self._refuse(header)
            return
        decode = (
            decode_request
            if api.key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
            else self._host.decode_request
        )
        request = decode(api.key, header.api_version, frame, header.body_offset)
        context = self._connection.context(api, header.api_version, header.client_id)
        self._connection.begin_exchange(Exchange(api, context, header.correlation_id, request), len(frame))

    def _handshake(
        self, request: SaslHandshakeRequest, context: RequestContext, services: Any
    ) -> SaslHandshakeResponse:
        clock = self._host.clock
        is_renewal = self._states.state is AuthenticationState.READY
        error = self._states.handshake(request.mechanism, version=context.api_version, now_ms=clock.elapsed_ms())
        if error is ErrorCode.ILLEGAL_SASL_STATE:
            return SaslHandshakeResponse(error_code=error)
        if error is ErrorCode.NONE:
            self._exchange = self._listener.exchanges[request.mechanism](self._connection.session.host)
            self._unauthenticated.stage = request.mechanism
            if is_renewal:
                self._deadline = clock.call_later(EXCHANGE_MS, self._renewal_is_late)
        else:
            self._note("a SASL mechanism that is not enabled", quoted(shown(request.mechanism)))
            self._connection.end_after_responses()
        return SaslHandshakeResponse(error_code=error, mechanisms=tuple(self._listener.exchanges))

    async def _authenticate(
        self, request: SaslAuthenticateRequest, context: RequestContext, services: Any
    ) -> SaslAuthenticateResponse:
        exchange, connection = self._exchange, self._connection
        if exchange is None:  # the peer has left since it sent a bare token
            return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        if not self._states.keeps_mechanism:
            return await self._failed("another mechanism than that of the session")
        connection.hold()
        answer: SaslAuthenticateResponse | None = None
        try:
            match await self._step(exchange, request.auth_bytes):
                case Challenge() as step:
                    answer = SaslAuthenticateResponse(auth_bytes=step.token)
                case Authenticated() as step:
                    answer = await self._succeeded(step)
                case Failure() as step:
                    answer = await self._failed(step.reason)
            return answer
        finally:
            if answer is None:  # whatever is broken inside, nobody gets in by it
                self._states.failed()
                connection.end_after_responses()
            connection.release()

    async def _step(self, exchange: ServerExchange, token: bytes) -> Step:
        """The outcome of a step. A fault of the broker is a failed login like any other, delayed and counted: whoever
        has found one must not repeat it a thousand times a second."""
        try:
            return await exchange.step(token)
        except CloseConnection:
            raise
        except Exception:
            connection = self._connection
            facts = fields(mechanism=self._states.mechanism, peer=connection.peer, listener=connection.listener)
            log.exception("a login failed by a fault of the broker", extra=facts)
            return Failure("a fault of the broker, see above")

    async def _succeeded(self, proof: Authenticated) -> SaslAuthenticateResponse:
        states, listener, connection = self._states, self._listener, self._connection
        mechanism = states.mechanism
        assert mechanism is not None
        ends = [each for each in (listener.max_reauth_ms.get(mechanism, 0), proof.expires_in_ms) if each]
        lifetime_ms = min(ends, default=0)
        principal = Principal(USER, proof.user)
        if principal == ANONYMOUS:
            return await self._failed("a user who is called as those who prove nothing")
        if not states.succeeded(proof.user, has_expiry=bool(lifetime_ms)):
            return await self._failed("another user than that of the session")
        self._exchange = None
        self._forget_deadline()
        clock, is_first = self._host.clock, connection.session.principal == ANONYMOUS
        session = Session(
            principal=principal,
            listener=connection.listener,
            security_protocol=listener.protocol,
            host=connection.session.host,
            mechanism=mechanism,
            expires_at_ms=clock.elapsed_ms() + lifetime_ms if lifetime_ms else None,
            is_super=listener.is_super(principal),
            authorizer=self._host.authorizer,
        )
        connection.adopt(session)
        connection.limit_frames(self._host.max_frame_bytes, self._host.spare_buffers.memory)
        self._unauthenticated.is_proved()
        if is_first:
            close_if_too_many(self._host, connection)
        self._forget_expiry()
        if lifetime_ms:
            self._expiry = clock.call_later(lifetime_ms + LINGER_MS, self._check_the_end)
        audit.log.debug(
            "authenticated",
            extra=fields(
                principal=shown(principal),
                mechanism=mechanism,
                peer=connection.peer,
                listener=connection.listener,
            ),
        )
        return SaslAuthenticateResponse(auth_bytes=proof.token, session_lifetime_ms=lifetime_ms)

    async def _failed(self, reason: str) -> SaslAuthenticateResponse:
        """Hold the answer back, then send it and close (KAFKA-10798: to delay the close alone was not enough)."""
        mechanism, connection = self._states.mechanism, self._connection
        self._states.failed()
        self._exchange = None
        self._forget_deadline()
        self._unauthenticated.hold()
        self._note(f"authentication failed with {mechanism}", reason)
        delay_ms = self._listener.failures.failed(connection.session.host)
        if delay_ms:
            connection.hold()
            await self._host.clock.sleep(delay_ms)
        connection.end_after_responses()
        return SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
            error_message=f"Authentication failed with SASL mechanism {mechanism}",
        )

    # Ends

    def _has_expired(self) -> bool:
        expires_at_ms = self._connection.session.expires_at_ms
        return expires_at_ms is not None and self._host.clock.elapsed_ms() >= expires_at_ms

    def _refuse(self, header: RequestHeader) -> None:
        if self._states.state is AuthenticationState.READY:
            self._connection.refuse_peer("a request after the end of its session")
        else:
            detail = f"API key {header.api_key}"
            self._connection.refuse_peer("a request before authentication: the client speaks without SASL", detail)

    def _note(self, reason: str, detail: str) -> None:
        connection = self._connection
        host = connection.session.host
        self._host.refusals.note(host, reason, peer=connection.peer, listener=connection.listener, detail=detail)

    def _check_the_end(self) -> None:
        """The session has expired a while ago, and no request came that would have shown it."""
        self._expiry = None
        connection = self._connection
        if self._has_expired():
            (connection.close if connection.waits_for_records else connection.end_after_responses)()

    def _renewal_is_late(self) -> None:
        self._deadline = None
        self._note("a renewal of its session was begun and not finished", "")
        self._states.failed()
        self._connection.close()

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _forget_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    # APIs of the gate's own

    def _own(self, key: int, **handlers: Any) -> Api:
        api = self._host.apis[key]
        return Api(key=api.key, versions=api.versions, refuse=api.refuse, **handlers)

    def _refusing(self, header: RequestHeader) -> Api | None:
        """The API of a request, as one that answers ILLEGAL_SASL_STATE."""
        api = self._host.apis.get(header.api_key)
        if api is None:
            return None
        refuse = api.refuse
        return self._own(
            api.key, respond=lambda request, context, _: refuse(request, context, ErrorCode.ILLEGAL_SASL_STATE)
        )
