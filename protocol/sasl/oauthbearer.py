"""OAUTHBEARER: a token in one message, and a round for the refusal (RFC 7628, KIP-255; security.md 3.6).

A server that refuses a token answers with JSON, the client acknowledges with one byte, and only then the server fails
the exchange. Nothing here looks into a token.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from eosin.protocol.sasl.steps import Challenge, Failure, Step, Success

MAX_TOKEN_CHARS: Final = 64 * 1024
MAX_EXTENSIONS_CHARS: Final = 16 * 1024
MAX_REFUSAL_BYTES: Final = 16 * 1024
ACKNOWLEDGEMENT: Final = b"\x01"
"""A client's response to a refusal."""

_SEPARATOR: Final = "\x01"
_EXTENSION: Final = re.compile(r"([A-Za-z]+)=([\x20-\x7e\t\r\n]+)")
_AUTHORIZATION: Final = re.compile(r"bearer +([-._~+/A-Za-z0-9]+=*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class BearerLogin:
    """A client's claims about itself. Not yet checked by anybody."""

    token: str
    authzid: str
    """The user to act as; must be empty or the token's principal, which the reader of the token compares."""
    extensions: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return "BearerLogin([hidden])"


def bearer_message(token: str, extensions: Mapping[str, str] | None = None) -> bytes:
    """The first message of a client."""
    pairs = [f"auth=Bearer {token}", *(f"{name}={value}" for name, value in (extensions or {}).items())]
    return ("n,," + "".join(_SEPARATOR + each for each in pairs) + _SEPARATOR * 2).encode()


def read_bearer(message: bytes) -> BearerLogin | Failure:
    """Read `n,[a=authzid],^A` and `key=value^A` until `^A`; exactly one key is `auth`."""
    if len(message) > MAX_TOKEN_CHARS + MAX_EXTENSIONS_CHARS:
        return Failure("the message is too long")
    try:
        text = message.decode("utf-8")
    except UnicodeDecodeError:
        return Failure("the message is no UTF-8")
    header, *pairs = text.split(_SEPARATOR)
    flag, *rest = header.split(",")
    if flag != "n" or len(rest) != 2 or rest[1] or not (rest[0] == "" or rest[0].startswith("a=")):
        return Failure("the message has no GS2 header")
    if len(pairs) < 3 or pairs[-2:] != ["", ""]:
        return Failure("the message does not end as it must")
    found: dict[str, str] = {}
    for each in pairs[:-2]:
        pair = _EXTENSION.fullmatch(each)
        if pair is None or pair[1] in found:
            return Failure("the message has a malformed or repeated pair")
        found[pair[1]] = pair[2]
    authorization = _AUTHORIZATION.fullmatch(found.pop("auth", ""))
    if authorization is None or len(authorization[1]) > MAX_TOKEN_CHARS:
        return Failure("the message has no bearer token")
    return BearerLogin(authorization[1], rest[0][2:].replace("=2C", ",").replace("=3D", "="), found)


def refusal(*, scope: str | None = None, openid_configuration: str | None = None) -> bytes:
    """A server's response to a token that it does not accept."""
    said = {"status": "invalid_token", "scope": scope, "openid-configuration": openid_configuration}
    return json.dumps(
        {name: value for name, value in said.items() if value is not None}, separators=(",", ":")
    ).encode()


class BearerClient:
    """The client's side: `first` is the first message to send; each token of the server goes into `step`."""

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        self.first: Final = bearer_message(token, extensions)
        self.refusal: str | None = None
        """The status with which the server has refused the token; the failure follows."""

    def step(self, token: bytes) -> Step:
        """Answer the server: nothing from it is success, JSON a refusal to acknowledge."""
        if self.refusal is not None:
            return Failure(f"the server refuses the token: {self.refusal}")
        if not token:
            return Success()
        self.refusal = _status(token)
        return Challenge(ACKNOWLEDGEMENT)


def _status(message: bytes) -> str:
    try:
        said = json.loads(message[:MAX_REFUSAL_BYTES])
    except (ValueError, RecursionError):  # a thousand brackets
        said = None
    status = said.get("status") if isinstance(said, dict) else None
    return status if isinstance(status, str) and status.isprintable() and len(status) <= 255 else "no reason given"
