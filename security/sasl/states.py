"""The states of a connection on a SASL listener, and the requests that are legal in each (security.md 3.2 and 3.3).

Pure: requests and outcomes go in, verdicts come out. It knows no bytes, no mechanism and no clock.

| state | what it accepts |
|---|---|
| START | ApiVersions, `MAX_API_VERSIONS` times in all; SaslHandshake |
| RAW | after SaslHandshake v0: bare tokens |
| TOKENS | after SaslHandshake v1: SaslAuthenticate |
| READY | everything; SaslHandshake begins another authentication, of a session that expires |
| FAILED | nothing |

Always true: before READY no request reaches a handler but ApiVersions, and after FAILED none does; a session that has
expired begins nothing but another authentication.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey

MAX_API_VERSIONS: Final = 4
"""ApiVersions requests before SaslHandshake. Kafka answers one; libraries that try lower versions need more."""
MAX_TOKENS: Final = 8
"""Tokens of one exchange. The longest exchange of a mechanism has two."""
LEAST_BETWEEN_MS: Final = 1000
"""Between the beginnings of two authentications of one connection (KIP-368)."""


class AuthenticationState(Enum):
    """The state of a connection's authentication."""

    START = "start"
    RAW = "raw"
    TOKENS = "tokens"
    READY = "ready"
    FAILED = "failed"


class RequestTreatment(Enum):
    """The treatment of a request."""

    PASS = "pass"
    """Its handler answers it."""
    HANDSHAKE = "handshake"
    """It chooses a mechanism: see `Authentication.handshake`."""
    TOKEN = "token"
    """It carries a token of the exchange."""
    ILLEGAL = "illegal"
    """It is answered with ILLEGAL_SASL_STATE, and the connection is closed."""
    CLOSE = "close"
    """The connection is closed without an answer."""


class Authentication:
    """The authentications of one connection, one after the other."""

    def __init__(self, enabled: Sequence[str]) -> None:
        """`enabled` are the mechanisms of the listener."""
        self.state = AuthenticationState.START
        self.mechanism: str | None = None
        """The mechanism of the exchange under way, or of the last one."""
        self.begun_ms: int | None = None
        """The start of the last exchange."""
        self._enabled: Final = enabled
        self._api_versions = 0
        self._tokens = 0
        self._session: tuple[str, str] | None = None
        """Mechanism and user of the session that a second authentication must confirm."""
        self._has_expiry = False

    def request(self, key: int, *, is_expired: bool = False) -> RequestTreatment:
        """Judge a request by its API key; in RAW, no frame has one."""
        match self.state:
            case AuthenticationState.READY if key == ApiKey.SASL_HANDSHAKE:
                return RequestTreatment.HANDSHAKE
            case AuthenticationState.READY:
                return RequestTreatment.CLOSE if is_expired else RequestTreatment.PASS
            case AuthenticationState.START if key == ApiKey.SASL_HANDSHAKE:
                return RequestTreatment.HANDSHAKE
            case AuthenticationState.START if key == ApiKey.API_VERSIONS and self._api_versions < MAX_API_VERSIONS:
                self._api_versions += 1
                return RequestTreatment.PASS
            case AuthenticationState.TOKENS if key != ApiKey.SASL_AUTHENTICATE:
                return RequestTreatment.ILLEGAL
            case AuthenticationState.TOKENS | AuthenticationState.RAW if self._tokens < MAX_TOKENS:
                self._tokens += 1
                return RequestTreatment.TOKEN
            case _:
                return RequestTreatment.CLOSE

    def handshake(self, mechanism: str, *, version: int, now_ms: int) -> ErrorCode:
        """Begin an exchange. ILLEGAL_SASL_STATE changes nothing; UNSUPPORTED_SASL_MECHANISM ends in FAILED."""
        if self.state is AuthenticationState.READY:
            too_soon = self.begun_ms is not None and now_ms - self.begun_ms < LEAST_BETWEEN_MS
            if not self._has_expiry or too_soon or version == 0:
                return ErrorCode.ILLEGAL_SASL_STATE
        if mechanism not in self._enabled:
            self.state = AuthenticationState.FAILED
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self.mechanism = mechanism
        self.begun_ms = now_ms
        self._tokens = 0
        self.state = AuthenticationState.TOKENS if version else AuthenticationState.RAW
        return ErrorCode.NONE

    @property
    def keeps_mechanism(self) -> bool:
        """True if the exchange under way uses the mechanism of the session, or is the first one. Another one fails at
        its first token."""
        return self._session is None or self._session[0] == self.mechanism

    def succeeded(self, user: str, *, has_expiry: bool) -> bool:
        """The exchange proved that the peer is `user`. Whether that is good: only the same user may come again."""
        assert self.mechanism is not None, "no exchange is under way"
        if self._session is not None and self._session != (self.mechanism, user):
            self.failed()
            return False
        self._session = self.mechanism, user
        self._has_expiry = has_expiry
        self.state = AuthenticationState.READY
        return True

    def failed(self) -> None:
        """The exchange failed, and the connection with it."""
        self.state = AuthenticationState.FAILED
