"""`CoordinatorConnections`: which connection of each broker that coordinates transactions is its newest (cluster.md
6.11).

A coordinator that gives up a WriteTxnMarkers request sends its markers again on another connection; when that one is
answered, the producer may begin its next transaction. What comes on the older connection after that would end the next
one: before transaction version 2 nothing in a marker tells the two apart. Always true: once markers of a broker were
taken from a connection, none is taken from one that was accepted before it.

A broker is known by the client id of its marker sender: `broker-N` of Eosin, `broker-N-txn-marker-sender` of Apache
Kafka. Both use one connection at a time. Operators, who call themselves anything else, are not kept in order.
"""

import re
from typing import Final

from eosin.broker.transactions.newest_connections import NewestConnections

MAX_BROKERS: Final = 1000
"""Brokers that are remembered; beyond them the one that was silent longest is forgotten."""

_SENDER: Final = re.compile(r"broker-\d{1,10}(-txn-marker-sender)?")


class CoordinatorConnections:
    """The newest connection of each coordinating broker."""

    def __init__(self) -> None:
        self._newest = NewestConnections(MAX_BROKERS)

    def accepts(self, client_id: str | None, number: int) -> bool:
        """True if markers count that come from `client_id` on the connection of this number; a newer connection has a
        higher one."""
        if client_id is None or _SENDER.fullmatch(client_id) is None:
            return True
        return self._newest.accepts(client_id, number)
