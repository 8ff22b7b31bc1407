"""The sockets of a broker, bound before anything else: one that no client could reach never touches its data."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from eosin.network.acceptor import Acceptor, longest_backlog
from eosin.settings.broker import BrokerConfig
from eosin.settings.listeners import Listener
from eosin.settings.start_error import cannot_listen

if TYPE_CHECKING:
    from eosin.network.host import ConnectionHost
    from eosin.node.running import Entrance, RunningNode

log = logging.getLogger(__name__)


class BoundListener(NamedTuple):
    """A listener at which nobody else can listen any more."""

    listener: Listener
    """With the port that it got."""
    address: str
    """The IP address, as the system tells it."""


class Endpoints(Protocol):
    """The way from clients to one broker: sockets, unless whoever stands it up has another."""

    async def bind(self) -> Sequence[BoundListener]:
        """Take the addresses of the listeners. Raises `StartError`."""

    def listen(self, broker: "RunningNode") -> None:
        """Accept connections from now on. Raises `StartError`."""

    def release(self, name: str) -> None:
        """Begin to answer at that listener, if its connections have been held until now."""

    async def close(self) -> None:
        """Accept no more, whether or not it was begun. Connections that are open stay."""


class Sockets:
    """`Endpoints` of the listeners in the settings."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._bound: list[tuple[Listener, socket.socket]] = []
        self._acceptors: list[Acceptor] = []
        self._held: dict[str, Callable[[], None]] = {}
        """Ways to begin, by the names of listeners whose connections the system keeps meanwhile: a client that is too
        early is connected, and waits for its first answer."""

    async def bind(self) -> Sequence[BoundListener]:
        for listener in self._config.bound_listeners:
            self._bound.append(await bound_socket(listener, self._config))
        return [BoundListener(listener, bound.getsockname()[0]) for listener, bound in self._bound]

    def listen(self, broker: "RunningNode") -> None:
        backlog = self._config.socket_listen_backlog_size
        entrances = broker.entrances(asyncio.get_running_loop())
        for listener, bound in self._bound:
            try:
                bound.listen(backlog)
            except OSError as error:  # somebody else bound the address at the same time, and was first here
                raise cannot_listen(listener, error) from error
            accept = partial(self._accept, bound, entrances[listener.name], broker.host, listener.name)
            if listener.name in self._config.held_listeners:
                self._held[listener.name] = accept
                log.info("clients of listener %s wait until PUT /api/v1/advertise tells their address", listener.name)
            else:
                accept()
        most = longest_backlog()
        if most is not None and most < backlog:
            log.info(
                "the kernel holds at most %d connections that wait to be accepted, not the %d of"
                " socket.listen.backlog.size: raise net.core.somaxconn if many clients connect at once",
                most,
                backlog,
            )

    def release(self, name: str) -> None:
        if accept := self._held.pop(name, None):
            accept()

    def _accept(self, bound: socket.socket, entrance: "Entrance", host: "ConnectionHost", name: str) -> None:
        self._acceptors.append(Acceptor(bound, entrance.connect, host, name, entrance.unauthenticated_peers))

    async def close(self) -> None:
        self._held.clear()
        for acceptor in self._acceptors:
            await acceptor.close()
        for _, bound in self._bound:
            bound.close()


async def bound_socket(listener: Listener, config: BrokerConfig) -> tuple[Listener, socket.socket]:
    """A socket bound to the listener's address, and the listener with the port it got. Raises `StartError`."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(
            listener.host or "0.0.0.0", listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except socket.gaierror as error:
        raise cannot_listen(listener, error) from error
    # One socket per listener, and IPv4 first: clients resolve a name with addresses of both kinds likewise.
    family, kind, protocol, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setblocking(False)
        _set_options(bound, config)
        if os.name == "posix":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise cannot_listen(listener, error) from error
    return Listener(listener.name, listener.host, bound.getsockname()[1]), bound


def announced_to_others(listener: Listener) -> Listener:
    """The listener as other machines reach it, which cannot dial "every address of this machine"."""
    return Listener(listener.name, socket.getfqdn(), listener.port) if listener.is_wildcard else listener


def _set_options(bound: socket.socket, config: BrokerConfig) -> None:
    """Connections inherit the options of the socket that accepts them. With keepalive, as in Kafka, the system finds
    silent clients that are gone: the Fetch of such a client would wait for ever."""
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sizes = (
        (socket.SO_SNDBUF, config.socket_send_buffer_bytes),
        (socket.SO_RCVBUF, config.socket_receive_buffer_bytes),
    )
    for option, size in sizes:
        if size > 0:
            bound.setsockopt(socket.SOL_SOCKET, option, size)
