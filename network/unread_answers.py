"""`UnreadAnswers`: clients that take no byte of their responses for so long that they are given up (security.md 6.2).

Such a client holds what was prepared for it, and nothing of its own makes it let go. Time is counted in looks, so a
pause of the broker costs nobody a connection; and whoever takes a byte now and then stays, however slow it is.
"""

from collections.abc import Iterable
from typing import Protocol

from eosin.network.refusal_log import RefusalLog


class Reader(Protocol):
    """A connection, as far as it reads."""

    listener: str
    peer: str

    def unread(self) -> object | None:
        """What it has not taken, as a value that changes with each byte; None for nothing."""

    def abort(self) -> None:
        """Close it, and drop what is unsent."""


class UnreadAnswers:
    """Looks at all connections now and then."""

    def __init__(self, *, looks: int, refusals: RefusalLog) -> None:
        """A connection is given up when so many looks in a row found the same bytes waiting."""
        self._most = looks
        self._refusals = refusals
        self._seen: dict[Reader, tuple[object, int]] = {}
        """Connections with something unread, what that was, and how many looks have found the same."""

    def look(self, connections: Iterable[Reader]) -> None:
        """Look once, at all of them."""
        before, self._seen = self._seen, {}
        for connection in connections:
            unread = connection.unread()
            if unread is None:
                continue
            last, looks = before.get(connection, (None, 0))
            looks = looks + 1 if unread == last else 0
            if looks < self._most:
                self._seen[connection] = unread, looks
                continue
            self._refusals.closing(connection, "the client does not read its responses")
            connection.abort()
