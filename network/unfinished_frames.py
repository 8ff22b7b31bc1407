"""`UnfinishedFrames`: clients that begin a request and do not end it, byte by byte or not at all (security.md 6.2).

Such a client holds the memory of its frame. Time is counted in looks, as in `unread_answers`, so a pause of the broker
costs nobody a connection; and only while the connection is read, so one that has to wait is not blamed for it.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from eosin.network.refusal_log import RefusalLog

PROGRESS_BYTES: Final = 65_536
"""What must come of a frame within the time, or its end: 2 KiB a second by default."""


class Sender(Protocol):
    """A connection, as far as it sends."""

    listener: str
    peer: str

    def unfinished(self) -> tuple[int, int] | None:
        """The frame that it has begun: its number, and how many bytes of it came; None between two frames."""

    def abort(self) -> None:
        """Close it."""


class UnfinishedFrames:
    """Looks at all connections now and then."""

    def __init__(self, *, looks: int, refusals: RefusalLog) -> None:
        """A connection is given up when so many looks in a row found the same frame, without enough progress."""
        self._most = looks
        self._refusals = refusals
        self._seen: dict[Sender, tuple[int, int, int]] = {}
        """Connections in the middle of a frame, its number, how much of it there was when it last made progress, and
        how many looks ago that was."""

    def look(self, connections: Iterable[Sender]) -> None:
        """Look once, at all of them."""
        before, self._seen = self._seen, {}
        for connection in connections:
            unfinished = connection.unfinished()
            if unfinished is None:
                continue
            number, size = unfinished
            last_number, last_size, looks = before.get(connection, (-1, 0, 0))
            if number != last_number or size - last_size >= PROGRESS_BYTES:
                self._seen[connection] = number, size, 0
            elif looks + 1 < self._most:
                self._seen[connection] = number, last_size, looks + 1
            else:
                self._refusals.closing(connection, "the client does not end the request that it has begun")
                connection.abort()
