"""`LabEndpoints`: the sockets of a broker that comes back to its ports.

Always true: between two lives of a broker nobody listens at its ports, and nobody else gets them: they stay bound.
"""

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from eosin.node.sockets import BoundListener, Sockets, bound_socket
from eosin.settings.broker import BrokerConfig
from eosin.settings.listeners import Listener
from eosin.settings.start_error import StartError

if TYPE_CHECKING:
    from eosin.network.acceptor import Acceptor
    from eosin.network.host import ConnectionHost
    from eosin.node.running import Entrance, RunningNode

RETRY_S: Final = 2.0
"""For so long a port that somebody else has is tried again."""
_PAUSE_S: Final = 0.02


class Ports:
    """The ports that one broker keeps from life to life."""

    def __init__(self) -> None:
        self.is_kept = False
        """True if the broker comes back."""
        self._bound: dict[str, Listener] = {}
        self._held: list[socket.socket] = []

    def wanted(self, listener: Listener) -> Listener:
        """The listener with the port that it had."""
        return self._bound.get(listener.name, listener)

    def keep(self, listener: Listener) -> None:
        """Remember a port."""
        self._bound[listener.name] = listener

    def has_had(self, listener: Listener) -> bool:
        """True if this listener had its port in an earlier life."""
        return listener in self._bound.values()

    def hold(self, addresses: Sequence[tuple[int, tuple[str, int]]]) -> None:
        """Keep others from these addresses (family, address), if the broker comes back, without listening there."""
        for family, address in addresses if self.is_kept else ():
            held = socket.socket(family, socket.SOCK_STREAM)
            self._held.append(held)
            with suppress(OSError):  # somebody was faster: the next start tries for a while
                if os.name == "posix":
                    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                held.bind(address)

    def release(self) -> None:
        """Let them be bound again, or go."""
        self.is_kept = False
        for each in self._held:
            each.close()
        self._held.clear()


class LabEndpoints(Sockets):
    """`Endpoints` of one life of a broker."""

    def __init__(self, config: BrokerConfig, ports: Ports, closed: frozenset[str] = frozenset()) -> None:
        """At the listeners in `closed` nobody listens until `listen_again`: their ports are held."""
        super().__init__(config)
        self._ports: Final = ports
        self._closed: Final = set(closed)
        self._accepting: Final[dict[str, Acceptor]] = {}

    async def bind(self) -> Sequence[BoundListener]:
        """Take the addresses. Raises `StartError`."""
        self._ports.release()
        for listener in self._config.bound_listeners:
            found = await self._bound_again(self._ports.wanted(listener))
            self._ports.keep(found[0])
            self._bound.append(found)
        return [BoundListener(listener, bound.getsockname()[0]) for listener, bound in self._bound]

    async def _bound_again(self, listener: Listener) -> tuple[Listener, socket.socket]:
        """The socket; for a port that it had before, which somebody else may have for a moment, after some tries."""
        loop = asyncio.get_running_loop()
        until = loop.time() + RETRY_S
        while True:
            try:
                return await bound_socket(listener, self._config)
            except StartError:
                if not self._ports.has_had(listener) or loop.time() >= until:
                    raise
            await asyncio.sleep(_PAUSE_S)

    def listen(self, broker: "RunningNode") -> None:
        """Accept connections from now on. Raises `StartError`."""
        every = self._bound
        self._bound = [each for each in every if each[0].name not in self._closed]
        super().listen(broker)
        self._bound = every

    def _accept(self, bound: socket.socket, entrance: "Entrance", host: "ConnectionHost", name: str) -> None:
        super()._accept(bound, entrance, host, name)
        self._accepting[name] = self._acceptors[-1]

    async def end_listening(self, name: str) -> None:
        """Listen no more at one listener, and hold its port."""
        acceptor = self._accepting.pop(name, None)
        self._closed.add(name)
        if acceptor is None:
            return
        self._acceptors.remove(acceptor)
        number = next(number for number, (listener, _) in enumerate(self._bound) if listener.name == name)
        listener, bound = self._bound[number]
        family, address = bound.family, bound.getsockname()
        await acceptor.close()
        held = socket.socket(family, socket.SOCK_STREAM)
        held.setblocking(False)
        if os.name == "posix":
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(address)
        self._bound[number] = listener, held

    def listen_again(self, name: str, broker: "RunningNode") -> None:
        """Accept connections there again. Raises `StartError`."""
        if name not in self._closed:
            return
        self._closed.discard(name)
        every = self._bound
        self._bound = [each for each in every if each[0].name == name]
        super().listen(broker)
        self._bound = every

    def abandon(self) -> None:
        """Close what listens, at once, and hold the ports: the process is gone."""
        loop, addresses = asyncio.get_running_loop(), []
        for _, bound in self._bound:
            if bound.fileno() >= 0:
                addresses.append((bound.family, bound.getsockname()))
                loop.remove_reader(bound)
                bound.close()
        self._ports.hold(addresses)

    async def close(self) -> None:
        """Accept no more, and hold the ports."""
        addresses = [(bound.family, bound.getsockname()) for _, bound in self._bound if bound.fileno() >= 0]
        await super().close()
        self._ports.hold(addresses)
