"""`Acl`: one access control entry, and the filters that find entries (security.md 4.3, 4.5).

Values without behaviour of their own but for matching; nothing here decides.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from eosin.model.resources import Operation, ResourceType

WILDCARD: Final = "*"
"""As a resource's name (literal) every name, as a host every host."""
EVERYBODY: Final = "User:*"
"""The principal that matches every principal, those of other types too."""


class PatternType(IntEnum):
    """The way an entry's resource name is compared; the first three only in filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """The effect of an entry; the first two only in filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One entry: who may, or may not, do what from where. Entries are equal when all of it is."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    """`TYPE:NAME`, compared byte for byte (security.md 4.3.7)."""
    host: str
    """An address or `*`; anything else matches no peer."""
    operation: int
    permission: int

    def covers(self, name: str) -> bool:
        """True if the entry covers a resource named `name`; its type is not checked."""
        own = self.resource_name
        if self.pattern_type == PatternType.PREFIXED:
            return name.startswith(own)
        return own in (name, WILDCARD)

    def __str__(self) -> str:
        permission, operation = Permission(self.permission).name, _name_of(Operation, self.operation)
        kind, pattern = _name_of(ResourceType, self.resource_type), _name_of(PatternType, self.pattern_type)
        return f"{permission} {self.principal} {operation} on {pattern} {kind} {self.resource_name} from {self.host}"


def _name_of(kind: type[IntEnum], number: int) -> str:
    try:
        return kind(number).name
    except ValueError:
        return str(number)


class AclFilter(NamedTuple):
    """Selects entries; None or ANY accepts any value of the entry (security.md 4.5.5)."""

    resource_type: int = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission: int = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        """True if the filter selects `acl`."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_pattern(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        pattern, name = self.pattern_type, self.resource_name
        if pattern not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if name is None:
            return True
        return acl.covers(name) if pattern == PatternType.MATCH else acl.resource_name == name


def found(acls: Iterable[Acl], wanted: AclFilter) -> list[Acl]:
    """The entries of `acls` that match."""
    return [acl for acl in acls if wanted.matches(acl)]
