"""`RefusalLog`: what the log says of peers that are refused. `RefusedPeers`: how long some of them are held.

A client that is refused and comes again at once must not fill the log. Always true: of one peer and one reason there is
a line when it happens first, and then at most one for each `report`, with a count; the peers that are remembered are
bounded, and those beyond are counted together.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from eosin.runtime.logging_format import fields

if TYPE_CHECKING:
    from eosin.network.connection import ServerConnection
    from eosin.network.host import ConnectionHost

log = logging.getLogger(__name__)

REPORT_INTERVAL_MS: Final = 10_000
"""Between two reports."""

MAX_KINDS: Final = 1000
"""Peers and reasons that are told apart."""

_OTHERS: Final = ("other peers", "for several reasons")


@dataclass(slots=True)
class _RefusalKind:
    more: int = 0
    """Number of times that it happened since the last line about it."""


class Refusable(Protocol):
    """A connection."""

    listener: str
    peer: str
    """HOST:PORT."""


class RefusalLog:
    """The peers that were refused since the last reports, each with the reason."""

    def __init__(self, max_kinds: int = MAX_KINDS) -> None:
        self._max_kinds = max_kinds
        self._kinds: dict[tuple[str, str], _RefusalKind] = {}

    def note(self, host: str, reason: str, *, peer: str, listener: str, detail: str = "", count: int = 1) -> bool:
        """Log, or count, that `peer` (HOST:PORT) of `host` was refused, `count` times; whether the log has a line of
        the same host and reason already. `detail` differs from one time to the next."""
        key = host, reason
        kind = self._kinds.get(key)
        if kind is None and len(self._kinds) >= self._max_kinds:
            key = _OTHERS
            kind = self._kinds.get(key)
        if kind is not None:
            kind.more += count
            return True
        self._kinds[key] = _RefusalKind(count - 1)
        why = f"{reason}: {detail}" if detail else reason
        log.warning("closing a connection: %s", why, extra=fields(peer=peer, listener=listener))
        return False

    def closing(self, connection: Refusable, reason: str, detail: str = "") -> bool:
        """`note` for a connection."""
        host = connection.peer.rpartition(":")[0]
        return self.note(host, reason, peer=connection.peer, listener=connection.listener, detail=detail)

    def report(self) -> None:
        """Tell how often it happened again since the last report, and forget what did not."""
        told, self._kinds = self._kinds, {}
        for (host, reason), kind in told.items():
            if kind.more:
                log.warning("closed more connections: %s", reason, extra=fields(peer=host, connections=kind.more))
                self._kinds[host, reason] = _RefusalKind()


class RefusedPeers:
    """The connections of peers that repeat a refused request. Such a peer would reconnect at once, so its connection is
    closed only after a delay, unless too many wait so already."""

    def __init__(self, host: "ConnectionHost") -> None:
        self._host = host
        self._ends: dict[ServerConnection, asyncio.TimerHandle] = {}

    def hold(self, connection: "ServerConnection", reason: str, detail: str) -> bool:
        """Log the refusal. Returns True if the connection is closed later, by this object."""
        host = self._host
        again = host.refusals.closing(connection, reason, detail)
        if not again or not host.refused_delay_ms or host.refused >= host.max_refused or connection.is_gone:
            return False
        if connection not in self._ends:
            host.refused += 1
            loop = asyncio.get_running_loop()
            self._ends[connection] = loop.call_later(host.refused_delay_ms / 1000, self._end, connection)
        return True

    def lost(self, connection: "ServerConnection") -> None:
        """The client is gone: nothing is to be closed any more."""
        end = self._ends.pop(connection, None)
        if end is not None:
            end.cancel()
            self._host.refused -= 1

    def _end(self, connection: "ServerConnection") -> None:
        self.lost(connection)
        connection.close()
