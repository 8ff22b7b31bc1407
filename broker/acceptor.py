"""`Acceptor`: takes new connections from one listening socket, a few at a time.

asyncio's own server accepts as many connections in one turn of the loop as the kernel may hold for it, and answers a
lack of descriptors with a traceback. Always true: at most `ACCEPTS_PER_TURN` connections are accepted before everybody
else gets a turn, so a storm delays others by about a millisecond at a time; a connection that there is no room for is
accepted and closed, so that its client hears of it; a failed accept is a pause, never the end.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from eosin.broker.connection import Connection, ConnectionHost

ACCEPTS_PER_TURN: Final = 16
"""Connections accepted before other work of the loop gets its turn."""

PAUSE_S: Final = 0.1
"""How long nothing is accepted after the system had no descriptor or no memory for a connection."""

_LACKING: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """Accepts on one socket that listens, until it is closed."""

    def __init__(
        self, bound: socket.socket, make: Callable[[], Connection], host: ConnectionHost, listener: str
    ) -> None:
        """`bound` listens already and does not block; it is closed with the acceptor. `listener` is its name."""
        self._bound = bound
        self._listener = listener
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
            except OSError as error:
                await self._wait_after(error)
                continue
            admitted = self._admitted(first)
            self._connecting = asyncio.gather(*[self._connect(each) for each in admitted])
            await asyncio.shield(self._connecting)  # a transport that is half made could not be closed

    def _admitted(self, first: socket.socket) -> list[socket.socket]:
        """Of this connection and of others that wait, as many as one turn may accept, those that there is room for."""
        host, admitted, refused = self._host, list[socket.socket](), list[str]()
        room = host.max_connections - len(host.connections) - host.arriving
        for accepted in (first, *self._others()):
            if len(admitted) < room:
                admitted.append(accepted)
            else:
                refused.append(_peer(accepted))
                accepted.close()  # before another one is accepted: there may be no descriptor left
        if refused:
            reason = f"too many connections, {host.why_full}"
            host.refusals.note("all", reason, peer=refused[0], listener=self._listener, count=len(refused))
        host.arriving += len(admitted)
        host.connections_changed(len(host.connections) + host.arriving)
        return admitted

    def _others(self) -> Iterator[socket.socket]:
        for _ in range(ACCEPTS_PER_TURN - 1):
            try:
                yield self._bound.accept()[0]
            except OSError:  # nothing more waits; what else it may be, the next first one meets again
                return

    async def _connect(self, accepted: socket.socket) -> None:
        try:
            accepted.setblocking(False)
            await self._loop.connect_accepted_socket(self._make, accepted)
        except OSError:  # the client is gone already
            accepted.close()
        finally:
            self._host.arriving -= 1

    async def _wait_after(self, error: OSError) -> None:
        if error.errno in _LACKING:
            reason = f"cannot accept connections for a moment, {error.strerror}: raise the limit (ulimit -n)"
            self._host.refusals.note("all", reason, peer="?", listener=self._listener)
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
