"""`Principal`: who somebody is, as ACLs, quotas and the log name them (security.md 4.3.7)."""

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """A user or a group of them; two are equal when type and name are, byte for byte (security.md 4.3.7)."""

    kind: str
    """`User` for everybody that Eosin authenticates."""
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""The user of a listener that asks for no proof."""
