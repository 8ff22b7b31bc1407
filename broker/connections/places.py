"""`Places`: which connection gives its place to one that comes when the broker is full.

A client with two connections holds one while it asks for the other, so a broker that is full of clients that ask for
nothing would refuse everybody else for good. Apache Kafka closes the connection of another listener that was used least
recently (KIP-402), and otherwise lets those that come wait.

Always true: only a connection that was served for a while goes, and nothing of it is lost: it has no request in flight,
or nothing but a Fetch that waits for records. Connections that ask for nothing go before those that wait, those of the
address with the most connections before others, and then those that are there longest. Nothing is noted while there
is room for many.
"""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from eosin.broker.security.unauthenticated_peers import address_group

if TYPE_CHECKING:
    from eosin.broker.connections.connection import Connection
    from eosin.broker.connections.host import ConnectionHost

QUIET_LOOKS: Final = 2
"""A connection that asked for nothing since so many looks gives its place: for one to two seconds."""

WAITING_LOOKS: Final = 6
"""One that waits for records gives its place at so many looks, after five to six seconds."""

GIVEN_PER_TURN: Final = 4
"""Places given in one turn of the loop: a descriptor is free only when its connection has been told to go."""


@dataclass(slots=True)
class _Seen:
    requests: int
    """As of the last look."""
    looks: int = 1
    quiet: int = 1
    """Looks in a row with as many requests."""


class Places:
    """The places of one broker's connections."""

    def __init__(self, host: "ConnectionHost") -> None:
        self._host = host
        self._seen: dict[Connection, _Seen] = {}
        self._order: dict[Connection, None] | None = None
        """Who may go, first those that go first; None before somebody asks for a place after a look."""
        self._why = f"it asked for nothing and others come, {host.why_full}"

    def look(self) -> None:
        """Note who asks for something; call it each second."""
        connections, before = self._host.connections, self._seen
        self._seen, self._order = {}, None
        if len(connections) < self._host.max_connections * 3 // 4:
            return
        for connection in connections:
            seen, requests = before.get(connection), connection.requests
            if seen is None:
                seen = _Seen(requests)
            else:
                seen.looks += 1
                seen.quiet = seen.quiet + 1 if requests == seen.requests else 1
                seen.requests = requests
            self._seen[connection] = seen

    def give(self, listener: str) -> bool:
        """Close a connection for one that comes by `listener`, if any may go."""
        if self._order is None:
            self._order = self._who_may_go()
        for connection in self._order:
            if self._may_go_for(connection, listener):
                del self._order[connection], self._seen[connection]
                connection.close_idle()
                self._host.refusals.note("all", self._why, peer=connection.peer, listener=connection.listener)
                return True
        return False

    def _who_may_go(self) -> "dict[Connection, None]":
        of_address = Counter(map(_address, self._host.connections))
        quiet: list[Connection] = []
        waiting: list[Connection] = []
        for connection, seen in self._seen.items():
            if seen.quiet >= QUIET_LOOKS and not connection.in_flight:
                quiet.append(connection)
            elif seen.looks >= WAITING_LOOKS:
                waiting.append(connection)
        for each in quiet, waiting:
            each.sort(key=lambda one: -of_address[_address(one)])  # keeps the oldest first among equals
        return dict.fromkeys(quiet + waiting)

    def _may_go_for(self, connection: "Connection", listener: str) -> bool:
        """Whether it still asks for nothing. One of a listener that has places of its own goes for its like only."""
        limits = self._host.limits
        if connection not in self._host.connections or not connection.asks_for_nothing:
            return False
        if not connection.in_flight and connection.requests != self._seen[connection].requests:
            return False
        return limits is None or connection.listener not in limits.limits.spared or connection.listener == listener


def _address(connection: "Connection") -> str:
    return address_group(connection.session.host)
