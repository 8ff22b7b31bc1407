"""`ServerExchange`: the broker's side of one mechanism's exchange, from the client's first token to the outcome."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from eosin.model.credentials import Credentials
from eosin.protocol.sasl.scram_messages import read_client_first
from eosin.protocol.sasl.scram_server import NONCE_BYTES, ScramServer
from eosin.protocol.sasl.steps import Challenge, Failure, Mechanism, Success
from eosin.security.sasl.lookup import find_or_fake

DELETED: Final = "the user was deleted during the login"


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The exchange is over, and good."""

    user: str
    token: bytes = b""
    """The last token for the client."""
    expires_in_ms: int | None = None
    """The time for which the proof holds; None: without an end."""


Step = Challenge | Authenticated | Failure


class ServerExchange(Protocol):
    """One exchange. It is fed one token at a time, and no more after an outcome."""

    async def step(self, token: bytes) -> Step:
        """The next answer. Waits only where the mechanism needs a thread or another machine."""


NewExchange = Callable[[str], ServerExchange]
"""Begins an exchange of one mechanism with a peer at this address."""


class ScramExchange:
    """SCRAM (RFC 5802, security.md 3.4). A user without a credential of this mechanism gets an exchange like any other,
    which fails at its end: names cannot be tried out. The credential is that of the first token; a user who is deleted
    meanwhile does not get in, for nobody would close that session any more (security.md 3.3.6)."""

    def __init__(self, mechanism: Mechanism, credentials: Credentials) -> None:
        self._mechanism: Final = mechanism
        self._credentials: Final = credentials
        self._server: ScramServer | None = None

    async def step(self, token: bytes) -> Step:
        """Answer the first token with a challenge, and judge the proof in the second."""
        if self._server is None:
            first = read_client_first(token)
            if isinstance(first, Failure):
                return first
            credential = find_or_fake(self._credentials, first.user, self._mechanism)
            self._server = ScramServer(first, credential, secrets.token_urlsafe(NONCE_BYTES))
            return Challenge(self._server.challenge)
        outcome = self._server.finish(token)
        if not isinstance(outcome, Success):
            return outcome
        user = self._server.user
        return Authenticated(user, outcome.token) if self._credentials.of(user) else Failure(DELETED)
