"""`eosin serve --add-scram`: users for a store that has none, in the syntax of `kafka-storage format` (security.md
4.1.4).

    SCRAM-SHA-512=[name=admin,password=secret]
    SCRAM-SHA-256=[name=admin,iterations=8192,salt=BASE64,saltedpassword=BASE64]
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from eosin.broker.security.user_changes import decide
from eosin.model.credentials import CredentialChange, Credentials
from eosin.protocol.errors import ErrorCode
from eosin.protocol.sasl.steps import Mechanism
from eosin.protocol.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from eosin.security.passwords import upsertion
from eosin.security.sasl.lookup import DEFAULT_ITERATIONS, NUMBERS
from eosin.settings.settings import SettingError

if TYPE_CHECKING:
    from eosin.model.cluster import Cluster

_WRITTEN: Final = re.compile(r"(SCRAM-SHA-256|SCRAM-SHA-512)=\[(.*)\]")
_KEYS: Final = ("name", "password", "saltedpassword", "salt", "iterations")


@dataclass(frozen=True, slots=True)
class FirstUser:
    """One user as an operator wrote him."""

    mechanism: Mechanism
    name: str
    iterations: int
    password: str | None
    salt: bytes | None
    salted_password: bytes | None

    def __repr__(self) -> str:
        return f"FirstUser({self.name!r}, {self.mechanism}, [hidden])"

    def upsertion(self) -> ScramCredentialUpsertion:
        """The request that makes him. Runs PBKDF2 for a password."""
        if self.password is not None:
            return upsertion(self.name, self.mechanism, self.password, iterations=self.iterations, salt=self.salt)
        assert self.salt is not None
        assert self.salted_password is not None
        return ScramCredentialUpsertion(
            self.name, NUMBERS[self.mechanism], self.iterations, self.salt, self.salted_password
        )


def parse_first_user(text: str, *, key: str) -> FirstUser:
    """Read one user. Raises SettingError, which never repeats a password."""
    found = _WRITTEN.fullmatch(text.strip())
    if found is None:
        raise SettingError(f"{key} takes SCRAM-SHA-512=[name=NAME,password=...] or the same with SCRAM-SHA-256")
    values: dict[str, str] = {}
    for part in found[2].split(","):
        name, equals, value = part.partition("=")
        name = name.strip()
        if not equals or name not in _KEYS or name in values:
            raise SettingError(f"{key} takes {', '.join(_KEYS)}, each once as KEY=VALUE with commas between them")
        quoted = len(value) >= 2 and value[0] == value[-1] == '"'
        values[name] = value[1:-1] if quoted else value
    iterations = values.get("iterations", str(DEFAULT_ITERATIONS))
    if not iterations.isdecimal():
        raise SettingError(f"{key}: iterations must be a number, not {iterations!r}")
    user = FirstUser(
        Mechanism(found[1]),
        values.get("name", ""),
        int(iterations),
        values.get("password"),
        _bytes(values, "salt", key),
        _bytes(values, "saltedpassword", key),
    )
    _check(user, key)
    return user


def users_in_file(path: str, *, key: str) -> list[FirstUser]:
    """The users of a file, one a line; blank lines and those that begin with # say nothing. Raises SettingError."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SettingError(f"{key} cannot be read: {path}: {why}") from None
    return [parse_first_user(line, key=key) for line in lines if line.strip() and not line.lstrip().startswith("#")]


async def add_first_users(cluster: "Cluster", users: Sequence[FirstUser]) -> bool:
    """Store these users, all or none, if the store has none; whether it had none. Raises OSError."""
    was_empty = False

    def changes(credentials: Credentials) -> Sequence[CredentialChange]:
        nonlocal was_empty
        was_empty = not credentials
        if not was_empty:
            return ()
        made = [decide(AlterUserScramCredentialsRequest(upsertions=(each.upsertion(),)), credentials) for each in users]
        return [change for decision in made for change in decision.changes]

    outcome = await cluster.alter_credentials(changes)
    if outcome.error is not ErrorCode.NONE:
        raise OSError(outcome.message or "cannot write cluster metadata")
    return was_empty


def _bytes(values: Mapping[str, str], name: str, key: str) -> bytes | None:
    text = values.get(name)
    if text is None:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SettingError(f"{key}: {name} must be base64") from None


def _check(user: FirstUser, key: str) -> None:
    if (user.password is None) == (user.salted_password is None):
        raise SettingError(f"{key} needs one of password and saltedpassword")
    if user.salted_password is not None and user.salt is None:
        raise SettingError(f"{key} needs the salt of a saltedpassword")
    if user.password == "":
        raise SettingError(f"{key}: the password is empty")
    sample = user.upsertion() if user.password is None else _with_any_password(user)
    refusal = decide(AlterUserScramCredentialsRequest(upsertions=(sample,)), Credentials()).answers[user.name]
    if refusal is not None:
        raise SettingError(f"{key}: {refusal.message}")


def _with_any_password(user: FirstUser) -> ScramCredentialUpsertion:
    """A request that is right where that of the user is, made without PBKDF2."""
    from eosin.protocol.sasl.scram_credentials import digest_bytes

    salt = user.salt if user.salt is not None else bytes(24)
    salted = bytes(digest_bytes(user.mechanism))
    return ScramCredentialUpsertion(user.name, NUMBERS[user.mechanism], user.iterations, salt, salted)
