"""`Acceptor`: takes new connections from one listening socket, a few at a time.

asyncio's own server accepts as many connections in one turn of the loop as the kernel may hold for it, and answers a
lack of descriptors with a traceback. Always true: at most `ACCEPTS_PER_TURN` connections are accepted before everybody
else gets a turn, so a storm delays others by about a millisecond at a time; a connection that there is no room for is
accepted and closed, so that its client hears of it; a failed accept is a pause, never the end.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from eosin.broker.connection import Connection, ConnectionHost
from eosin.broker.logs import fields

log = logging.getLogger(__name__)

ACCEPTS_PER_TURN: Final = 16
"""Connections accepted before other work of the loop gets its turn."""

PAUSE_S: Final = 0.1
"""How long nothing is accepted after the system had no descriptor or no memory for a connection."""

_LACKING: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """Accepts on one socket that listens, until it is closed."""

    def __init__(self, bound: socket.socket, make: Callable[[], Connection], host: ConnectionHost) -> None:
        """`bound` listens already and does not block; it is closed with the acceptor."""
        self._bound = bound
        self._make = make
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._connecting: asyncio.Future[list[None]] | None = None
        self._task = self._loop.create_task(self._run())

    async def close(self) -> None:
        """Accept no more. Connections that are open stay."""
        self._task.cancel()
        await asyncio.wait((self._task,))
        if self._connecting is not None:
            await self._connecting
        self._bound.close()

    async def _run(self) -> None:
        while True:
            try:
                first, _ = await self._loop.sock_accept(self._bound)
                accepted = [first, *self._accept_more()]
            except OSError as error:
                await self._wait_after(error)
                continue
            self._connecting = asyncio.gather(*[self._connect(each) for each in accepted])
            await asyncio.shield(self._connecting)  # a transport that is half made could not be closed

    def _accept_more(self) -> list[socket.socket]:
        """What else waits, up to the limit of one turn."""
        accepted: list[socket.socket] = []
        try:
            while len(accepted) < ACCEPTS_PER_TURN - 1:
                accepted.append(self._bound.accept()[0])
        except OSError:
            pass  # nothing more waits; what else it may be, the next first one meets again
        return accepted

    async def _connect(self, accepted: socket.socket) -> None:
        host = self._host
        if len(host.connections) + host.arriving >= host.max_connections:
            peer = _peer(accepted)
            accepted.close()
            log.warning("closing a connection: too many connections", extra=fields(peer=peer))
            return
        host.arriving += 1
        try:
            accepted.setblocking(False)
            await self._loop.connect_accepted_socket(self._make, accepted)
        except OSError:  # the client is gone already
            accepted.close()
        finally:
            host.arriving -= 1

    async def _wait_after(self, error: OSError) -> None:
        if error.errno in _LACKING:
            log.warning("cannot accept connections for a moment: %s; raise the limit (ulimit -n)", error.strerror)
            await asyncio.sleep(PAUSE_S)
        else:  # a client that left before it was accepted, as a rule
            await asyncio.sleep(0)


def _peer(accepted: socket.socket) -> str:
    try:
        address = accepted.getpeername()
    except OSError:
        return "?"
    return f"{address[0]}:{address[1]}"


def longest_backlog() -> int | None:
    """How many connections the kernel holds for a listener at most; None if it does not tell."""
    try:
        return int(Path("/proc/sys/net/core/somaxconn").read_text())
    except (OSError, ValueError):
        return None
