"""The network between the machines of a cluster: what a process gets from `loop.create_connection`.

Bytes arrive whole and in order, each way on its own, and late: how late, a `Route` says, one for each pair of machines
and each way. A route that is cut holds what is on its way, and what is sent meanwhile, until it is healed, as TCP does;
a connection may break then. What was held goes on after a back-off of its connection's own, up to as long as it was
held: a connection that was dialled during the cut may be there long before the one that it replaces. Always true: what
one end has sent before it closed arrives before the close; what it has sent before a reset, and was not there yet,
never does.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from simulation.loop import Process, Scheduler
from simulation.network import End


class Route:
    """One way from one machine to another."""

    def __init__(self, chance: random.Random, backoff: random.Random, *, delay_ms: float) -> None:
        self._chance = chance
        self.delay_ms = delay_ms
        """How long anything takes at most."""
        self.is_cut = False
        self.backoff = backoff
        """Decides when what was held goes on."""
        self._held: list[Callable[[bool], None]] = []

    def delay(self) -> float:
        """Seconds for what is sent next."""
        return self._chance.random() * self.delay_ms / 1000

    def hold(self, again: Callable[[bool], None]) -> None:
        """Call `again` when the route is healed, with whether it goes on at once."""
        self._held.append(again)

    def heal(self, *, at_once: bool = False) -> None:
        """Everything that was held goes on; `at_once`, as if it had only been slow."""
        self.is_cut = False
        held, self._held = self._held, []
        for again in held:
            again(at_once)


class Listening(NamedTuple):
    """Who accepts connections at an address."""

    process: Process
    make: Callable[[], asyncio.BufferedProtocol]


Accept = Callable[[], Listening | None]
"""Who listens at an address now; None: the connection is refused."""


class Fabric:
    """Every machine's network. `machines` in the names of routes are hosts."""

    def __init__(self, scheduler: Scheduler, seed: str, *, delay_ms: float) -> None:
        self.process = Process(scheduler, "fabric")  # type: ignore[abstract]
        self._seed = seed
        self._delay_ms = delay_ms
        self._routes: dict[tuple[str, str], Route] = {}
        self.accepts: dict[tuple[str, int], Accept] = {}
        """By host and port."""

    def route(self, source: str, target: str) -> Route:
        """The way from one host to another."""
        route = self._routes.get((source, target))
        if route is None:
            chance, backoff = (random.Random(f"{self._seed}/{source}/{target}{of}") for of in ("", "/backoff"))
            route = self._routes[source, target] = Route(chance, backoff, delay_ms=self._delay_ms)
        return route

    def heal(self) -> None:
        """Every route is as at the beginning."""
        for route in self._routes.values():
            route.delay_ms = self._delay_ms
            route.heal()

    async def connect(
        self, process: "HostProcess", make: Callable[[], asyncio.BufferedProtocol], host: str, port: int
    ) -> tuple[End, asyncio.BufferedProtocol]:
        """What `create_connection` does for a process. Raises OSError."""
        wire = Wire(self, process, make, host, port)
        try:
            end = await wire.connected
        except asyncio.CancelledError:
            wire.take_back()
            raise
        return end, wire.protocol


class Flow:
    """One direction of a connection: things to do at the other end, in order."""

    def __init__(self, fabric: Fabric, route: Route) -> None:
        self._process = fabric.process
        self._route = route
        self._last = 0.0
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()
        """With when each is due."""
        self._held_since: float | None = None

    def send(self, arrived: Callable[[], None]) -> None:
        """Call `arrived` when this has come over."""
        self._last = max(self._last, self._process.time() + self._route.delay())
        self._waiting.append((self._last, arrived))
        self._process.call_at(self._last, self._arrive)

    def reset(self, arrived: Callable[[], None]) -> None:
        """Forget what has not come over, and call `arrived` when this has."""
        self._waiting.clear()
        self.send(arrived)

    def _arrive(self) -> None:
        if self._held_since is not None:
            return
        if self._route.is_cut:
            self._held_since = self._process.time()
            self._route.hold(self._back_off)
        elif self._waiting and self._waiting[0][0] <= self._process.time():
            self._waiting.popleft()[1]()

    def _back_off(self, at_once: bool) -> None:
        """The route is healed, which nobody tells the sender: it tries again after ever longer pauses."""
        assert self._held_since is not None
        held_s = self._process.time() - self._held_since
        pause_s = self._route.delay() if at_once else self._route.backoff.random() * held_s
        self._process.call_later(pause_s, self._go_on)

    def _go_on(self) -> None:
        if self._route.is_cut:
            self._route.hold(self._back_off)
            return
        self._held_since = None
        now = self._process.time()
        for due, _ in self._waiting:
            if due <= now:  # one after the other: who reads has read all of it when it hears of the end
                self._process.call_at(now, self._arrive)


class Wire:
    """One connection between two processes."""

    def __init__(
        self,
        fabric: Fabric,
        process: "HostProcess",
        make: Callable[[], asyncio.BufferedProtocol],
        host: str,
        port: int,
    ) -> None:
        self._process = process
        self._make = make
        self._there = Flow(fabric, fabric.route(process.host, host))
        self._back = Flow(fabric, fabric.route(host, process.host))
        self._accept = fabric.accepts.get((host, port))
        self._address = f"{host}:{port}"
        self.connected: asyncio.Future[End] = process.create_future()
        self.protocol: asyncio.BufferedProtocol
        self._client_end: End | None = None
        self._server_end: End | None = None
        process.on_kill(self.give_up)
        self._there.send(self._arrived)

    def give_up(self) -> None:
        """The end that dialled is gone, and what it sent is on its way."""
        self._there.send(lambda: _lose(self._server_end))

    def take_back(self) -> None:
        """The end that dialled has reset the connection, or waits for it no longer."""
        self._there.reset(lambda: _lose(self._server_end))

    def _arrived(self) -> None:
        listening = None if self._accept is None else self._accept()
        if listening is None or not self._process.is_alive:
            self._back.send(self._refused)
            return
        end = self._server_end = End(
            listening.process,
            listening.make(),
            send=lambda data: self._back.send(lambda: _feed(self._client_end, data)),
            hang_up=self._server_gone,
        )
        assert isinstance(end.process, HostProcess)
        end.process.on_kill(self._server_gone)
        self._back.send(self._accepted)

    def _server_gone(self) -> None:
        self._back.send(lambda: _lose(self._client_end))

    def _refused(self) -> None:
        if not self.connected.done():
            self.connected.set_exception(ConnectionRefusedError(111, f"nobody listens at {self._address}"))

    def _accepted(self) -> None:
        if self.connected.done() or not self._process.is_alive:
            return
        self.protocol = self._make()
        self._client_end = End(
            self._process,
            self.protocol,
            send=lambda data: self._there.send(lambda: _feed(self._server_end, data)),
            hang_up=self.give_up,
            reset=self.take_back,
        )
        self.connected.set_result(self._client_end)


def _feed(end: End | None, data: bytes) -> None:
    if end is not None and end.process.is_alive and not end.is_closing():
        end.feed(data)


def _lose(end: End | None) -> None:
    if end is not None:
        end.lost()


class HostProcess(Process):
    """A process on a machine that has a network."""

    def __init__(self, scheduler: Scheduler, name: str, *, host: str, fabric: Fabric) -> None:
        super().__init__(scheduler, name)
        self.host = host
        self._fabric = fabric
        self._last_words: list[Callable[[], None]] = []

    def on_kill(self, tell: Callable[[], None]) -> None:
        """Call `tell` when the process ends: the other ends of its connections hear of it."""
        self._last_words.append(tell)

    def kill(self) -> None:
        if not self.is_alive:
            return
        super().kill()
        words, self._last_words = self._last_words, []
        for tell in words:
            tell()

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BufferedProtocol],
        host: str,
        port: int,
        **_: Any,
    ) -> tuple[End, asyncio.BufferedProtocol]:
        return await self._fabric.connect(self, protocol_factory, host, port)
