"""`Places`: which connection gives its place to one that comes when the broker is full.

A client with two connections holds one while it asks for the other, so a broker that is full of clients that ask for
nothing would refuse everybody else for good. Apache Kafka closes the connection of another listener that was used least
recently (KIP-402), and otherwise lets those that come wait.

Always true: only a connection that was served for a while goes, and nothing of it is lost: it has no request in flight,
or nothing but a Fetch that waits for records. Connections that ask for nothing go before those that wait, those of the
user with the most connections before others, where nobody has to prove who he is those of the address with the most,
and then those that are there longest. Nothing is noted of them while there is room for many.

A user whose connections all ask for something gives none of them. So the last places are left to others than one who
has more than half of all: its login is good, and its connection is closed.
"""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from eosin.model.address_group import address_group
from eosin.model.principals import ANONYMOUS, Principal

if TYPE_CHECKING:
    from eosin.network.connection import ServerConnection
    from eosin.network.host import ConnectionHost

QUIET_CHECKS: Final = 2
"""A connection gives its place when so many looks in a row find no new request of it, after one to two seconds."""

WAITING_CHECKS: Final = 6
"""A connection whose Fetch waits for records gives its place after so many looks, five to six seconds."""

GIVEN_PER_TURN: Final = 4
"""Places given in one turn of the loop: a connection that is closed keeps its descriptor until the next turn."""

LAST: Final = 20
"""One of so many places is left to others than a user with more than half of all."""


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
        self._seen: dict[ServerConnection, _Seen] = {}
        self._order: list[ServerConnection] | None = None
        """Connections that may be closed, best candidate last; None until needed."""
        self._of_user: Counter[Principal] = Counter()
        """Connections as of the last look, and those that were made since."""
        self._why = f"it asked for nothing and others come, {host.why_full}"

    def sample(self) -> None:
        """Note who asks for something; call it each second."""
        connections, before = self._host.connections, self._seen
        self._seen, self._order = {}, None
        self._of_user.clear()
        if self._host.used_places < self._host.max_connections * 3 // 4:
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
            self._of_user[connection.session.principal] += 1

    def has_its_share(self, user: Principal) -> bool:
        """Count one more connection of a user that has logged in; whether it has to leave its place to others."""
        self._of_user[user] += 1
        most = self._host.max_connections
        return self._host.used_places > most - most // LAST and 2 * self._of_user[user] > most

    def give(self, listener: str) -> bool:
        """Close a connection for one that comes by `listener`, if any may go."""
        if self._order is None:
            self._order = self._who_may_go()
        limits, put_back = self._host.limits, []
        gone: ServerConnection | None = None
        while self._order and gone is None:
            connection = self._order.pop()
            if limits is not None and connection.listener in limits.limits.spared - {listener}:
                put_back.append(connection)  # it goes for its like only
            elif connection in self._host.connections and self._may_still_be_closed(connection):
                gone = connection
        self._order += reversed(put_back)
        if gone is None:
            return False
        gone.close_idle()
        self._host.refusals.note("all", self._why, peer=gone.peer, listener=gone.listener)
        return True

    def _who_may_go(self) -> "list[ServerConnection]":
        of_address = Counter(map(_address, self._host.connections))
        of_holder = Counter(map(_holder, self._host.connections))
        quiet: list[ServerConnection] = []
        waiting: list[ServerConnection] = []
        for connection, seen in self._seen.items():
            if not connection.in_flight:
                if seen.quiet >= QUIET_CHECKS:
                    quiet.append(connection)
            elif seen.looks >= WAITING_CHECKS:
                waiting.append(connection)
        for each in quiet, waiting:
            # Keeps the oldest first among equals.
            each.sort(key=lambda one: (-of_holder[_holder(one)], -of_address[_address(one)]))
        return [*reversed(waiting), *reversed(quiet)]

    def _may_still_be_closed(self, connection: "ServerConnection") -> bool:
        is_quiet = connection.requests == self._seen[connection].requests
        return connection.may_be_closed and (is_quiet or connection.in_flight > 0)


def _holder(connection: "ServerConnection") -> str | Principal:
    principal = connection.session.principal
    return _address(connection) if principal == ANONYMOUS else principal


def _address(connection: "ServerConnection") -> str:
    return address_group(connection.session.host)
