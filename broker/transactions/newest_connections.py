"""`NewestConnections`: which connection of each peer is its newest, for requests that may come late.

A peer that gives a request up sends it again on another connection. What the network delivers on the older one after
that would count a second time, in the next transaction: before transaction version 2 nothing in the request tells.
Always true: once something of a peer was taken from a connection, nothing of it is taken from one that was accepted
before.
"""

from collections.abc import Hashable


class NewestConnections:
    """The newest connection of each peer."""

    __slots__ = ("_most", "_newest")

    def __init__(self, most: int) -> None:
        """So many peers are remembered; beyond them the one that was silent longest is forgotten."""
        self._most = most
        self._newest: dict[Hashable, int] = {}

    def accepts(self, peer: Hashable, number: int) -> bool:
        """True if a request of `peer` counts that comes on the connection of this number; a newer connection has a
        higher one."""
        newest = self._newest.pop(peer, number)
        if len(self._newest) >= self._most:
            del self._newest[next(iter(self._newest))]
        self._newest[peer] = max(newest, number)
        return number >= newest
