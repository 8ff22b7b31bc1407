"""`Credentials`: the users of a cluster, as the records of its metadata tell of their passwords (security.md 4.1).

A user exists as long as there is a credential of that name for some mechanism. Nothing here changes the store: records
that became durable do, and those who care are told in the same step.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

SECRET_BYTES: Final = 32
"""Of the secret behind the credentials of users who are not there."""
SECRET_SETTING: Final = "eosin.scram.secret"
"""The setting in which a cluster of several machines keeps that secret. No broker shows it. It is a setting of all
brokers, since the quorum has no record for it (security.md 3.4.9)."""


def secret_text(secret: bytes) -> str:
    """The secret as that setting."""
    return secret.hex()


def secret_of(text: str) -> bytes:
    """The secret in that setting: as another broker wrote it, or whatever somebody else did."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return text.encode()


class StoredCredential(NamedTuple):
    """The stored form of one user's password for one mechanism."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"StoredCredential(iterations={self.iterations}, [hidden])"


class CredentialChange(NamedTuple):
    """One credential to be set or deleted."""

    user: str
    mechanism: int
    credential: StoredCredential | None
    """None deletes it."""


_NONE: Final[Mapping[int, StoredCredential]] = MappingProxyType({})


class Credentials:
    """The stored credentials, and the callbacks for the removal of a user. Mechanisms have their numbers on the wire: 1
    for SCRAM-SHA-256, 2 for SCRAM-SHA-512."""

    def __init__(self) -> None:
        self.secret: bytes | None = None
        """Random bytes of this cluster; None until a broker with SASL has written them."""
        self.on_removed: Final[list[Callable[[str], None]]] = []
        """Called with the name of a user whose last credential is gone."""
        self._by_user: Final[dict[str, dict[int, StoredCredential]]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_user)

    def of(self, user: str) -> Mapping[int, StoredCredential]:
        """The credentials of a user, by mechanism; none for a user who is not there."""
        return self._by_user.get(user, _NONE)

    def users(self) -> Iterator[str]:
        """The names of all users, in order."""
        return iter(sorted(self._by_user))

    def put(self, user: str, mechanism: int, credential: StoredCredential) -> None:
        """A record said so."""
        self._by_user.setdefault(user, {})[mechanism] = credential

    def remove(self, user: str, mechanism: int) -> None:
        """A tombstone said so."""
        held = self._by_user.get(user, {})
        if held.pop(mechanism, None) is not None and not held:
            del self._by_user[user]
            for tell in self.on_removed:
                tell(user)
