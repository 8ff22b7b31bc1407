"""`ConnectionWatch`: what is looked for among all connections now and then, and by no timer of their own.

It closes those that are silent for `connections.max.idle.ms`, aborts those that take none of their responses or do not
end their requests, ends the waits of clients that are gone, and sees who may give a place to another.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final, Protocol

from eosin.network.host import ConnectionHost
from eosin.network.refusal_log import RefusalLog
from eosin.runtime.background import Background
from eosin.runtime.logging_format import fields
from eosin.runtime.running_time import READ_TURNS
from eosin.settings.broker import BrokerConfig

log = logging.getLogger(__name__)

IDLE_ROUNDS: Final = 4
"""A connection is closed when it was found idle this often in a row, each a part of connections.max.idle.ms apart."""

END_CHECK_MS: Final = 1000
"""Interval between checks of connections: is a client gone whose connection is not read, does a client take anything
of its responses, and does a request that has begun go on."""
PROGRESS_BYTES: Final = 65_536
"""Number of bytes of a frame that must come within the time, or its end: 2 KiB a second by default."""


class ConnectionWatch:
    """The watch over one broker's connections."""

    def __init__(self, host: ConnectionHost, config: BrokerConfig) -> None:
        self._host = host
        self._idle_ms = config.connections_max_idle_ms
        unread_ms = config.eosin_connection_unread_timeout_ms
        self._unread = None
        if unread_ms >= 0:
            self._unread = UnreadResponses(looks=max(unread_ms // END_CHECK_MS, 1), refusals=host.refusals)
        frame_ms = config.eosin_frame_timeout_ms
        self._unfinished = None
        if frame_ms >= 0:
            self._unfinished = UnfinishedFrames(looks=max(frame_ms // END_CHECK_MS, 1), refusals=host.refusals)

    def begin(self, background: Background) -> None:
        """Look from now on."""
        clock = self._host.clock
        background.every(
            END_CHECK_MS,
            "the search for clients that have gone",
            self._check_for_ends,
            clock=clock,
            rest=self._host.without_clients,
        )
        if self._idle_ms > 0:
            interval_ms = max(self._idle_ms // IDLE_ROUNDS, 1)
            background.every(interval_ms, "the search for idle clients", self._close_idle, clock=clock)

    def _check_for_ends(self) -> None:
        connections = list(self._host.connections)
        for connection in connections:
            connection.check_for_end()
        self._host.places.sample()
        if self._unread is not None:
            self._unread.check(connections)
        if self._unfinished is not None:
            self._unfinished.check(connections)

    async def _close_idle(self) -> None:
        for _ in range(READ_TURNS):  # a broker that paused has not read yet what came meanwhile
            await asyncio.sleep(0)
        idle = []
        for connection in list(self._host.connections):
            connection.idle_rounds = connection.idle_rounds + 1 if connection.is_idle() else 0
            if connection.idle_rounds > IDLE_ROUNDS:
                idle.append(connection.peer)
                connection.close_idle()
        if idle:
            log.info("closing idle connections", extra=fields(connections=len(idle), peer=idle[0]))


class Sender(Protocol):
    """A connection, as far as it sends."""

    listener: str
    peer: str

    def unfinished(self) -> tuple[int, int] | None:
        """The frame that it has begun: its number, and how many bytes of it came; None between two frames."""

    def abort(self) -> None:
        """Close it."""


class UnfinishedFrames:
    """Clients that begin a request and do not end it, byte by byte or not at all (security.md 6.2).

    Such a client holds the memory of its frame. Time is counted in looks, as in `UnreadResponses`, so a pause of the
    broker costs nobody a connection; and only while the connection is read, so one that has to wait is not blamed for
    it.
    """

    def __init__(self, *, looks: int, refusals: RefusalLog) -> None:
        """A connection is given up when so many looks in a row found the same frame, without enough progress."""
        self._most = looks
        self._refusals = refusals
        self._seen: dict[Sender, tuple[int, int, int]] = {}
        """Connections in the middle of a frame, its number, how much of it there was when it last made progress, and
        how many looks ago that was."""

    def check(self, connections: Iterable[Sender]) -> None:
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


class Reader(Protocol):
    """A connection, as far as it reads."""

    listener: str
    peer: str

    def unread(self) -> object | None:
        """The unread part of its responses, as a value that changes with each byte; None for nothing."""

    def abort(self) -> None:
        """Close it, and drop what is unsent."""


class UnreadResponses:
    """Clients that take no byte of their responses for so long that they are given up (security.md 6.2).

    Such a client holds what was prepared for it, and nothing of its own makes it let go. Time is counted in looks, so a
    pause of the broker costs nobody a connection; and whoever takes a byte now and then stays, however slow it is.
    """

    def __init__(self, *, looks: int, refusals: RefusalLog) -> None:
        """A connection is given up when so many looks in a row found the same bytes waiting."""
        self._most = looks
        self._refusals = refusals
        self._seen: dict[Reader, tuple[object, int]] = {}
        """Connections with something unread, what that was, and how many looks have found the same."""

    def check(self, connections: Iterable[Reader]) -> None:
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
