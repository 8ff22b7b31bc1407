"""Errors of a client: one base class, one sentence each.

Always true: whatever a peer or the network does, callers see a `ClientError`, never an OSError or a decoding error.
"""

from typing import Final

from eosin.protocol.errors import ErrorCode


class ClientError(Exception):
    """Something failed, and the message says what in one sentence."""

    retriable: bool = False
    """True if doing the same again may succeed."""


class ConnectionFailed(ClientError):
    """No connection could be made, or it was lost. A request that was on its way may or may not have been handled."""

    retriable = True


class RequestTimedOut(ClientError):
    """No response in time. The request may or may not have been handled."""

    retriable = True


class AuthenticationFailed(ClientError):
    """One side does not accept the other: a certificate, a password or a token. Trying again would not help."""


class ProtocolViolation(ClientError):
    """The peer's bytes are not Kafka's protocol."""


class ResponseTooLarge(ProtocolViolation):
    """A response is larger than the client takes."""


class UnsupportedVersion(ClientError):
    """The broker and this client have no version of an API in common, or not the one that was asked for."""


class BadData(ClientError):
    """Records that were fetched are damaged."""


class ProducerStateError(ClientError):
    """The producer was used out of turn: no transaction is open, or one must be aborted first."""


class BrokerError(ClientError):
    """A broker answered with an error code."""

    def __init__(self, code: int, doing: str, message: str | None = None) -> None:
        known = known_code(code)
        name = known.name if known is not None else f"error code {code}"
        super().__init__(f"{doing}: {name}" + (f" ({message})" if message else ""))
        self.code: Final = known if known is not None else ErrorCode.UNKNOWN_SERVER_ERROR
        """A code that this client does not know is UNKNOWN_SERVER_ERROR; the text has its number."""
        self.message: Final = message
        """The broker's own words, where the API has room for them."""
        self.retriable = self.code.retriable


def known_code(code: int) -> ErrorCode | None:
    """`code` by name; None when it is newer than this client."""
    try:
        return ErrorCode(code)
    except ValueError:
        return None


def check(code: int, doing: str, message: str | None = None) -> None:
    """Raise BrokerError unless `code` is NONE. `doing` begins the sentence."""
    if code != ErrorCode.NONE:
        raise BrokerError(code, doing, message)
