"""The sockets of a broker, bound before anything else: one that no client could reach never touches its data."""

import asyncio
import os
import socket

from eosin.settings.broker import BrokerConfig
from eosin.settings.listeners import Listener
from eosin.settings.start_error import cannot_listen


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


def told_to_others(listener: Listener) -> Listener:
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
