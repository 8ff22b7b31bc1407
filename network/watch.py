"""`ConnectionWatch`: what is looked for among all connections now and then, and by no timer of their own.

It closes those that are silent for `connections.max.idle.ms`, aborts those that take none of their responses or do not
end their requests, ends the waits of clients that are gone, and sees who may give a place to another.
"""

import asyncio
import logging
from typing import Final

from eosin.network.host import ConnectionHost
from eosin.network.unfinished_frames import UnfinishedFrames
from eosin.network.unread_answers import UnreadAnswers
from eosin.runtime.background import Background
from eosin.runtime.logging_format import fields
from eosin.runtime.running_time import READ_TURNS
from eosin.settings.broker import BrokerConfig

log = logging.getLogger(__name__)

IDLE_ROUNDS: Final = 4
"""A connection is closed when it was found idle this often in a row, each a part of connections.max.idle.ms apart."""

LOOK_FOR_END_MS: Final = 1000
"""How often connections that are not read are checked for clients that are gone, those that are not read by their
clients for whether these take anything, and those that have begun a request for whether it goes on."""


class ConnectionWatch:
    """The watch over one broker's connections."""

    def __init__(self, host: ConnectionHost, config: BrokerConfig) -> None:
        self._host = host
        self._idle_ms = config.connections_max_idle_ms
        unread_ms = config.eosin_connection_unread_timeout_ms
        self._unread = None
        if unread_ms >= 0:
            self._unread = UnreadAnswers(looks=max(unread_ms // LOOK_FOR_END_MS, 1), refusals=host.refusals)
        frame_ms = config.eosin_frame_timeout_ms
        self._unfinished = None
        if frame_ms >= 0:
            self._unfinished = UnfinishedFrames(looks=max(frame_ms // LOOK_FOR_END_MS, 1), refusals=host.refusals)

    def begin(self, background: Background) -> None:
        """Look from now on."""
        background.every(LOOK_FOR_END_MS, "the search for clients that have gone", self._look_for_ends)
        if self._idle_ms > 0:
            background.every(max(self._idle_ms // IDLE_ROUNDS, 1), "the search for idle clients", self._close_idle)

    def _look_for_ends(self) -> None:
        connections = list(self._host.connections)
        for connection in connections:
            connection.look_for_end()
        self._host.places.look()
        if self._unread is not None:
            self._unread.look(connections)
        if self._unfinished is not None:
            self._unfinished.look(connections)

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
