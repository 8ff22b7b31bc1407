"""`AclEntries`: the access control entries of a cluster, and how to change them (security.md 4.2)."""

from collections.abc import Callable, Sequence
from typing import Protocol

from eosin.model.acls import Acl, AclFilter
from eosin.model.cluster import Outcome

Follower = Callable[[Sequence[Acl], Sequence[Acl]], None]
"""Called with the entries that came and those that went."""


class AclEntries(Protocol):
    """The entries of a cluster."""

    def follow(self, follower: Follower) -> None:
        """Tell `follower` of the entries there are, now, and of every change from now on."""

    async def found(self, wanted: AclFilter) -> list[Acl]:
        """The entries that a filter means; it takes turns with everybody else's work."""

    async def create(self, acls: Sequence[Acl]) -> list[Outcome]:
        """Add entries, all at once; the outcome of each. One that is there already is there."""

    async def delete(self, filters: Sequence[AclFilter]) -> list[list[Acl]] | Outcome:
        """Remove what the filters find, all at once: the entries that each has found, or why nothing was removed."""
