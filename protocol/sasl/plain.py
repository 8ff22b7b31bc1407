"""PLAIN: the user and the password in one message (RFC 4616; security.md 3.5). A reader of the wire has both."""

from dataclasses import dataclass
from typing import Final

from eosin.protocol.sasl.steps import Failure

MAX_USER_CHARS: Final = 255
MAX_PASSWORD_BYTES: Final = 1024
_MAX_MESSAGE_BYTES: Final = 2 * 4 * MAX_USER_CHARS + MAX_PASSWORD_BYTES + 2


@dataclass(frozen=True, slots=True)
class PlainLogin:
    """A client's claims about itself. Not yet checked by anybody."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"PlainLogin({self.user!r}, [hidden])"


def plain_message(user: str, password: str) -> bytes:
    """The only message of a client."""
    return f"\0{user}\0{password}".encode()


def read_plain(message: bytes) -> PlainLogin | Failure:
    """Read `[authzid] NUL user NUL password`. Acting as another user is refused."""
    if len(message) > _MAX_MESSAGE_BYTES:
        return Failure("the message is too long")
    try:
        parts = message.decode("utf-8").split("\0")
    except UnicodeDecodeError:
        return Failure("the message is no UTF-8")
    if len(parts) != 3:
        return Failure("the message does not have three parts")
    authzid, user, password = parts
    if not user or not password:
        return Failure("the user or the password is empty")
    if len(user) > MAX_USER_CHARS or len(password.encode("utf-8")) > MAX_PASSWORD_BYTES:
        return Failure("the user or the password is too long")
    if authzid not in ("", user):
        return Failure("the client wants to act as another user")
    return PlainLogin(user, password)
