"""`Acceptor`: takes new connections from one listening socket, a few at a time.

asyncio's own server accepts as many connections in one turn of the loop as the kernel may hold for it, and answers a
lack of descriptors with a traceback. Always true: at most `ACCEPTS_PER_TURN` connections are accepted before everybody
else gets a turn, so a storm delays others by about a millisecond at a time; where there is no room, a connection that
asks for nothing gives its place (`Places`), and without one the new connection is accepted and closed, so that its
client hears of it; a failed accept is a pause, never the end.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from eosin.network.host import ConnectionHost
from eosin.network.places import GIVEN_PER_TURN

if TYPE_CHECKING:
    from eosin.network.limits import ConnectionLimits, Counted
    from eosin.network.unauthenticated_peers import UnauthenticatedPeer, UnauthenticatedPeers

BoundSocket: TypeAlias = socket.socket
"""For those who only hand one on."""

ACCEPTS_PER_TURN: Final = 16
"""Connections accepted before other work of the loop gets its turn."""

PAUSE_S: Final = 0.1
"""Time for which nothing is accepted after the system had no descriptor or no memory for a connection."""

_LACKING: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """Accepts on one socket that listens, until it is closed."""

    def __init__(
        self,
        bound: socket.socket,
        make: Callable[..., asyncio.BaseProtocol],
        host: ConnectionHost,
        listener: str,
        unauthenticated_peers: "UnauthenticatedPeers | None" = None,
    ) -> None:
        """`bound` listens already and does not block; it is closed with the acceptor. `listener` is its name. With
        `unauthenticated_peers`, of listeners whose peers have to prove who they are, `make` gets the
        `UnauthenticatedPeer` of the connection."""
        self._bound = bound
        self._listener = listener
        self._make = make
        self._unauthenticated_peers = unauthenticated_peers
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._addresses: dict[socket.socket, str] = {}
        """Of connections that are accepted and not made yet, where they are counted by address: the system forgets it
        when a client leaves."""
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
            if self._host.limits is not None:
                await self._wait_for_turn(admitted, self._host.limits)
            self._connecting = asyncio.gather(*[self._connect(each) for each in admitted])
            await asyncio.shield(self._connecting)  # a transport that is half made could not be closed

    def _admitted(self, first: socket.socket) -> list[socket.socket]:
        """Of this connection and of others that wait, as many as one turn may accept, those that there is room for."""
        host, admitted, refused = self._host, list[socket.socket](), list[str]()
        room = host.max_connections - host.used_places
        limits, given = host.limits, 0
        counted = None if limits is None else limits.counted(host)
        if limits is not None and counted is not None:
            room = counted.room(self._listener, most=host.max_connections, possible=limits.possible)
        for accepted in (first, *self._others()):
            if len(admitted) >= room and given < GIVEN_PER_TURN and self._is_given_place(accepted, counted):
                given += 1
                room = len(admitted) + 1
            if len(admitted) < room:
                if counted is None or self._has_room(accepted, counted):
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

    def _is_given_place(self, accepted: socket.socket, counted: "Counted | None") -> bool:
        """True if another connection goes for it."""
        if counted is not None and counted.refusal(_address(accepted), self._listener) is not None:
            return False
        return self._host.places.give(self._listener)

    def _has_room(self, accepted: socket.socket, counted: "Counted") -> bool:
        """True if its address and its listener may have one more; it is closed if not."""
        address = _address(accepted)
        reason = counted.admit(address, self._listener)
        if reason is None:
            assert self._host.limits is not None
            self._host.limits.arriving(address, self._listener)
            self._addresses[accepted] = address
            return True
        accepted.close()
        self._host.refusals.note(address, reason, peer=address, listener=self._listener)
        return False

    async def _wait_for_turn(self, admitted: list[socket.socket], limits: "ConnectionLimits") -> None:
        """Hold connections that come faster than they may. Nothing more is accepted meanwhile."""
        now_ms = self._host.clock.elapsed_ms()
        delay_ms = limits.delay_ms(self._listener, len(admitted), now_ms)
        if delay_ms <= 0:
            return
        try:
            await asyncio.sleep(delay_ms / 1000)
        except asyncio.CancelledError:
            for accepted in admitted:
                limits.arrived(self._addresses.pop(accepted), self._listener)
                accepted.close()
            self._host.arriving -= len(admitted)
            raise

    def _others(self) -> Iterator[socket.socket]:
        for _ in range(ACCEPTS_PER_TURN - 1):
            try:
                yield self._bound.accept()[0]
            except OSError:  # nothing more waits; what else it may be, the next first one meets again
                return

    async def _connect(self, accepted: socket.socket) -> None:
        unauthenticated: UnauthenticatedPeer | None = None
        limits = self._host.limits
        try:
            accepted.setblocking(False)
            if self._host.connection_delay_ms is not None and self._is_held(accepted):
                return
            make = self._make
            if self._unauthenticated_peers is not None:
                unauthenticated = self._unauthenticated_peers.admit(accepted.getpeername()[0])
                if unauthenticated is None:
                    accepted.close()
                    return
                make = partial(make, unauthenticated)
            await self._loop.connect_accepted_socket(make, accepted)
        except OSError:  # the client is gone already
            accepted.close()
            if unauthenticated is not None:
                unauthenticated.end()
        finally:
            self._host.arriving -= 1
            if limits is not None:
                limits.arrived(self._addresses.pop(accepted), self._listener)

    def _is_held(self, accepted: socket.socket) -> bool:
        """True if its address makes connections too fast: then it is held, and closed instead of served. Where too many
        are held, it is closed at once."""
        host = self._host
        assert host.connection_delay_ms is not None
        address = accepted.getpeername()[0]
        delay_ms = host.connection_delay_ms(address)
        if delay_ms <= 0:
            return False
        host.refusals.note(
            address, "connections beyond the quota of the address", peer=address, listener=self._listener
        )
        if host.refused >= host.max_refused:
            accepted.close()
            return True

        def end() -> None:
            host.refused -= 1
            accepted.close()

        host.refused += 1
        self._loop.call_later(delay_ms / 1000, end)
        return True

    async def _wait_after(self, error: OSError) -> None:
        if error.errno in _LACKING:
            reason = f"cannot accept connections for a moment, {error.strerror}: raise the limit (ulimit -n)"
            self._host.refusals.note("all", reason, peer="?", listener=self._listener)
            await asyncio.sleep(PAUSE_S)
        else:  # a client that left before it was accepted, as a rule
            await asyncio.sleep(0)


def _address(accepted: socket.socket) -> str:
    try:
        return str(accepted.getpeername()[0])
    except OSError:  # it is gone already
        return "?"


def _peer(accepted: socket.socket) -> str:
    try:
        address = accepted.getpeername()
    except OSError:
        return "?"
    return f"{address[0]}:{address[1]}"


@cache
def longest_backlog() -> int | None:
    """Largest number of connections that the kernel queues for a listener; None if it is not known."""
    try:
        return int(Path("/proc/sys/net/core/somaxconn").read_text())
    except (OSError, ValueError):
        return None
