"""`Session`: what the broker knows of a connection's peer, and what that peer may do (security.md 1).

A session never changes, but for its cache of decisions: who authenticates again gets another one, and `Connection`
then forgets every context that carries the old one. What a peer merely says of itself (client id, software) is no part
of a session, so no decision of security can depend on it (security.md 1.4).

Handlers ask `context.session.may(...)` and its kin. Without an authorizer `EVERYBODY_MAY` refuses nothing; what would
ask it for each of many names, or for each request on the path of a transaction, tests for it instead.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final, Protocol

from eosin.model.address_group import address_group
from eosin.model.principals import ANONYMOUS, Principal
from eosin.model.resources import Operation, ResourceType
from eosin.security.authorized_operations import OF_RESOURCE


class SecurityProtocol(IntEnum):
    """The protocol that secures a listener's connections, by Kafka's names and numbers."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def is_encrypted(self) -> bool:
        """True if it begins with a TLS handshake."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """True if a SASL exchange comes before any other request."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class Authorizer(Protocol):
    """Decides what sessions may do (security.md 4.3). Its answers are final and immediate: nothing here waits."""

    def may(self, session: "Session", operation: Operation, kind: ResourceType, name: str, *, quiet: bool) -> bool:
        """True if `session` may do this to the resource `name`. `quiet`: a denial is not logged."""

    def may_any(self, session: "Session", operation: Operation, kind: ResourceType, *, quiet: bool) -> bool:
        """True if `session` may do this to at least one resource of the kind (security.md 4.3.5)."""


class _EverybodyMay:
    """The authorizer of a broker without one."""

    def may(self, session: "Session", operation: Operation, kind: ResourceType, name: str, *, quiet: bool) -> bool:
        return True

    def may_any(self, session: "Session", operation: Operation, kind: ResourceType, *, quiet: bool) -> bool:
        return True


EVERYBODY_MAY: Final[Authorizer] = _EverybodyMay()
"""Of brokers where every peer may do everything."""


@dataclass(slots=True, eq=False, kw_only=True, weakref_slot=True)
class Session:
    """The peer of one connection from one authentication to the next."""

    principal: Principal = ANONYMOUS
    listener: str = "PLAINTEXT"
    """Name of the listener that it came in on."""
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    host: str = "?"
    """The peer's address as text, without a slash."""
    mechanism: str | None = None
    """The SASL mechanism by which it proved itself; None where there was none."""
    expires_at_ms: int | None = None
    """By `Clock.elapsed_ms`; None: it never expires (security.md 3.3)."""
    is_super: bool = False
    """True if `super.users` names it."""
    authorizer: Authorizer = EVERYBODY_MAY
    decisions: Any = field(default=None, init=False)
    """The authorizer's own memory of what it answered (security.md 4.4.2); nobody else touches it, and a session made
    of another one does not inherit it."""
    api: str = ""
    """The API that is being asked for, and the client id: for the log, and never for a decision (security.md 1.4)."""
    client_id: str | None = None

    @property
    def owner(self) -> Principal | str:
        """On whose account the peer has work done, and frames: its user, or the addresses that one who proved nothing
        has as a rule (`address_group`)."""
        return address_group(self.host) if self.principal == ANONYMOUS else self.principal

    def asking(self, api: str, client_id: str | None) -> "Session":
        """The session as the log of decisions sees it in requests of one API."""
        return self if self.authorizer is EVERYBODY_MAY else replace(self, api=api, client_id=client_id)

    def may(self, operation: Operation, kind: ResourceType, name: str, *, quiet: bool = False) -> bool:
        """True if the peer may do this to the resource `name`. `quiet`: a denial is not logged."""
        return self.authorizer.may(self, operation, kind, name, quiet=quiet)

    def may_any(self, operation: Operation, kind: ResourceType, *, quiet: bool = False) -> bool:
        """True if the peer may do this to at least one resource of the kind."""
        return self.authorizer.may_any(self, operation, kind, quiet=quiet)

    def filter(self, operation: Operation, kind: ResourceType, names: Collection[str]) -> Collection[str]:
        """The members of `names` that the peer may do this to, in their order. Denials are not logged."""
        authorizer = self.authorizer
        if authorizer is EVERYBODY_MAY:
            return names
        return [name for name in names if authorizer.may(self, operation, kind, name, quiet=True)]

    def operations(self, kind: ResourceType, name: str) -> int:
        """The operations that the peer may do on the resource, as the set of bits of KIP-430. Denials are not
        logged."""
        known, authorizer = OF_RESOURCE[kind], self.authorizer
        if authorizer is EVERYBODY_MAY:
            return known
        return sum(
            1 << operation
            for operation in Operation
            if known >> operation & 1 and authorizer.may(self, operation, kind, name, quiet=True)
        )


NOBODY: Final = Session()
"""Of contexts that no connection made."""
