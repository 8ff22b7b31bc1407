"""OAUTHBEARER on the broker's side: a token, and a round for its refusal (RFC 7628, KIP-255, security.md 3.6)."""

from typing import Final

from eosin.protocol.sasl.oauthbearer import read_bearer, refusal
from eosin.protocol.sasl.steps import Challenge, Failure
from eosin.runtime.clock import Clock
from eosin.security.sasl.bearer_tokens import TokenReader
from eosin.security.sasl.exchanges import Authenticated, Step


class BearerExchange:
    """One exchange. A token that is not accepted is answered with JSON, which clients expect to acknowledge before the
    exchange fails; whatever they send instead, it fails."""

    def __init__(self, reader: TokenReader, clock: Clock) -> None:
        self._reader: Final = reader
        self._clock: Final = clock
        self._refused: Failure | None = None

    async def step(self, token: bytes) -> Step:
        """Judge the token."""
        if self._refused is not None:
            return self._refused
        login = read_bearer(token)
        if isinstance(login, Failure):
            return login
        found = self._reader.read(login.token)
        if isinstance(found, Failure):
            self._refused = found
            return Challenge(refusal())
        if login.authzid not in ("", found.user):
            return Failure("the client wants to act as another user")
        expires_in_ms = round(found.expires_s * 1000) - self._clock.now_ms()
        return Authenticated(found.user, expires_in_ms=max(1, expires_in_ms))
