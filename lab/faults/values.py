"""Values about rules that travel between processes."""

from typing import Any

import msgspec


class RuleSeen(msgspec.Struct, frozen=True):
    """A rule as it is now."""

    id: str
    words: str
    """A sentence about it, for reports."""
    point: str
    matched: int
    fired: int
    held: int
    """Requests and answers that it holds."""
    complaint: str | None
    """A sentence if it should have fired, and has not."""
    rule: dict[str, Any]
    """As it was armed."""
    occurrences: dict[str, tuple[int, ...]] = {}
    """The matches of each client id at which it fired, counted from 1."""
