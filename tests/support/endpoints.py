"""Ways to a broker without a socket, for `Node.alone` and `Node.joined`."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from eosin.network.connection import ServerConnection
from eosin.node.running import RunningNode
from eosin.node.sockets import BoundListener
from eosin.settings.broker import BrokerConfig
from eosin.settings.listeners import Listener

if TYPE_CHECKING:
    from virtual_time import VirtualLoop

HOST = "127.0.0.1"


class NoSockets:
    """`Endpoints` of a broker whose connections the test makes: it tells clients one address, where nobody listens."""

    def __init__(self, listener: Listener, listening: Callable[[RunningNode], None] = lambda _: None) -> None:
        """`listening` is called with the broker when it may have connections."""
        self._listener = listener
        self._listening = listening

    async def bind(self) -> Sequence[BoundListener]:
        return [BoundListener(self._listener, HOST)]

    def listen(self, broker: RunningNode) -> None:
        self._listening(broker)

    def release(self, name: str) -> None:
        """Nobody is held."""

    async def close(self) -> None:
        """Nobody listens."""


class VirtualEndpoints:
    """`Endpoints` in the virtual network of a test's loop, for the only listener of `config`."""

    def __init__(self, config: BrokerConfig, loop: "VirtualLoop") -> None:
        (listener,) = config.bound_listeners
        self._loop = loop
        self._listener = Listener(listener.name, HOST, listener.port or loop.network.free_port())

    async def bind(self) -> Sequence[BoundListener]:
        return [BoundListener(self._listener, HOST)]

    def listen(self, broker: RunningNode) -> None:
        loop, name = self._loop, self._listener.name

        def accept() -> "tuple[VirtualLoop, asyncio.BaseProtocol]":
            return loop, ServerConnection(broker.host, name, loop)

        loop.network.listen(HOST, self._listener.port, accept)

    def release(self, name: str) -> None:
        """Nobody is held."""

    async def close(self) -> None:
        self._loop.network.refuse(HOST, self._listener.port)
