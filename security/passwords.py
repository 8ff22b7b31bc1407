"""Passwords as operators give them, and the credentials that come out of them."""

import secrets
from typing import Final

from eosin.protocol.sasl.scram_credentials import SALT_BYTES, salted_password
from eosin.protocol.sasl.steps import Mechanism
from eosin.protocol.schemas.alter_user_scram_credentials import ScramCredentialUpsertion
from eosin.security.sasl.lookup import DEFAULT_ITERATIONS, NUMBERS

PASSWORD_CHARS: Final = 24
"""Of a password that nobody has chosen: 144 random bits."""


def new_password() -> str:
    """A password that nobody has chosen."""
    return secrets.token_urlsafe(PASSWORD_CHARS * 3 // 4)


def upsertion(
    user: str,
    mechanism: Mechanism,
    password: str,
    *,
    iterations: int = DEFAULT_ITERATIONS,
    salt: bytes | None = None,
) -> ScramCredentialUpsertion:
    """The request that gives a user this password for a mechanism; without `salt` with a new one. Runs PBKDF2: tens of
    milliseconds."""
    salt = secrets.token_bytes(SALT_BYTES) if salt is None else salt
    salted = salted_password(mechanism, password, salt, iterations)
    return ScramCredentialUpsertion(user, NUMBERS[mechanism], iterations, salt, salted)
