"""The next step of an exchange: every mechanism, on either side, answers a message of its peer with one `Step`."""

from dataclasses import dataclass
from enum import StrEnum


class Mechanism(StrEnum):
    """A SASL mechanism by the name that it has in SaslHandshake; names are compared exactly."""

    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    PLAIN = "PLAIN"
    OAUTHBEARER = "OAUTHBEARER"


@dataclass(frozen=True, slots=True)
class Challenge:
    """The exchange goes on: send the token, and wait for the peer's next one."""

    token: bytes


@dataclass(frozen=True, slots=True)
class Success:
    """The exchange is over, and good. A server sends the token, which may be empty; a client has nothing to send."""

    token: bytes = b""


@dataclass(frozen=True, slots=True)
class Failure:
    """The exchange is over, and has failed."""

    reason: str
    """For our own log, without what the peer sent. A server's peer is told one text for all (security.md 3.2)."""


Step = Challenge | Success | Failure
