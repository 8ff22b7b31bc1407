"""`ConnectionSurvey`: who is connected, and what each connection waits for (console.md 5.2).

Always true: a look takes at most `PER_TURN` connections in a turn of the event loop, and shows at most `MOST_SHOWN`.
"""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from eosin.observe.survey.slices import SLICE, in_slices
from eosin.runtime.clock import NS_PER_MS, Clock, stopwatch_ns

if TYPE_CHECKING:
    from eosin.network.connection import ServerConnection

MOST_SHOWN: Final = 2000
PER_TURN: Final = 100
MOST_REQUESTS: Final = 8
MOST_SOFTWARE: Final = 20
LONGEST: Final = 300
"""Characters of what clients say of themselves."""


class RequestSeen(msgspec.Struct):
    """A request without a response yet."""

    api: str
    ms: int
    """Since it was begun; -1 where that is not known."""


class ConnectionSeen(msgspec.Struct):
    """One connection."""

    key: str
    peer: str
    listener: str
    principal: str
    protocol: str
    client_id: str
    software: str
    in_flight: int
    requests: list[RequestSeen]
    """The first of them, the oldest first."""


class SoftwareSeen(msgspec.Struct):
    """Connections of one client library at one version."""

    software: str
    connections: int


class ConnectionsAnswer(msgspec.Struct):
    """All, or the first of them."""

    now_ms: int
    open: int
    left_out: int
    connections: list[ConnectionSeen]
    software: list[SoftwareSeen]
    """Of all that match, the most frequent ones first."""


class ConnectionSurvey:
    """Looks at the connections of one broker."""

    def __init__(self, connections: "Callable[[], list[ServerConnection]]", clock: Clock) -> None:
        self._connections = connections
        self._clock = clock

    async def find(self, text: str) -> ConnectionsAnswer:
        """The connections of which a name or an address contains `text`, in either case."""
        text = text.lower()
        everyone = self._connections()
        found: list[ConnectionSeen] = []
        left_out = 0
        counts: Counter[str] = Counter()
        async for some in in_slices(everyone, SLICE // PER_TURN):
            for each in some:
                named = (each.peer, each.listener, str(each.session.principal), each.client_id or "", *each.software)
                if text and not any(text in part.lower() for part in named):
                    continue
                counts[_software(each)] += 1
                if len(found) >= MOST_SHOWN:
                    left_out += 1
                    continue
                found.append(_row(each))
        software = [SoftwareSeen(*each) for each in counts.most_common(MOST_SOFTWARE)]
        return ConnectionsAnswer(self._clock.now_ms(), len(everyone), left_out, found, software)


def _software(connection: "ServerConnection") -> str:
    return " ".join(part for part in connection.software if part)[:LONGEST]


def _row(connection: "ServerConnection") -> ConnectionSeen:
    now_ns = stopwatch_ns()
    begun = connection.begun
    session = connection.session
    return ConnectionSeen(
        f"{connection.listener} {connection.peer}",
        connection.peer,
        connection.listener,
        str(session.principal)[:LONGEST],
        session.security_protocol.name,
        (connection.client_id or "")[:LONGEST],
        _software(connection),
        len(begun),
        [
            RequestSeen(api.name, -1 if not begun_ns else (now_ns - begun_ns) // NS_PER_MS)
            for api, begun_ns in begun[:MOST_REQUESTS]
        ],
    )
