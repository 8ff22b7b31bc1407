"""`LabNetwork`: the way between clients and one broker, in all of its lives, and `NetworkHooks`, by which it acts.

Always true: bytes of a connection arrive in their order, late or never; a client that is cut off is neither answered
nor closed, until it gives up or the network heals, and then everything arrives that was under way.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from eosin.lab.common.errors import LabError, unknown
from eosin.lab.common.patterns import fit_patterns
from eosin.model.close_connection import CloseConnection
from eosin.network.link import RST
from eosin.network.request_hooks import ObservedRequest, RequestHooks, RequestVerdict

if TYPE_CHECKING:
    from eosin.network.link import ClientLink

_MS: Final = 1000


class LinkMatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Clients, by patterns; what is absent means any."""

    client_id: str | None = None
    software: str | None = None
    peer: str | None = None
    """HOST:PORT of the client."""
    listener: str | None = None

    def fits(self, link: "ClientLink") -> bool:
        """True for a connection of these clients."""
        pairs = (
            (self.client_id, link.client_id),
            (self.software, link.software[0]),
            (self.peer, link.peer),
            (self.listener, link.listener),
        )
        return fit_patterns(pairs)


def link_match(fields: dict[str, Any]) -> LinkMatch:
    """The match that a test has written. Raises LabError."""
    for name in fields:
        if name not in LinkMatch.__struct_fields__:
            raise unknown("fact of a connection", name, LinkMatch.__struct_fields__)
    try:
        return msgspec.convert(fields, LinkMatch)
    except msgspec.ValidationError as wrong:
        raise LabError(f"a connection is not matched so: {wrong}") from None


class _Cut(msgspec.Struct):
    """Clients that are cut off."""

    match: LinkMatch
    refuse: bool
    is_pause: bool = False
    """True for a node that stands still: the network is whole."""


class LabNetwork:
    """The state of the network."""

    def __init__(self, luck: Callable[[], float]) -> None:
        """`luck` is a number from 0 to 1 each time."""
        self._luck: Final = luck
        self._cuts: list[_Cut] = []
        self._latency_ms = 0.0
        self._jitter_ms = 0.0
        self._bytes_per_ms: float | None = None
        self._links: dict[ClientLink, _Way] = {}

    # What a test does to it

    def partition(self, match: LinkMatch, *, refuse: bool) -> int:
        """Cut clients off; the number of connections that this is about now. New ones are accepted and never
        answered, or with `refuse` reset."""
        return self._cut(_Cut(match, refuse))

    def _cut(self, cut: _Cut) -> int:
        self._cuts.append(cut)
        ways = [way for link, way in self._links.items() if cut.match.fits(link)]
        for way in ways:
            way.cut()
        return len(ways)

    def heal(self) -> None:
        """End all cuts: what was under way arrives."""
        self._keep([each for each in self._cuts if each.is_pause])

    def pause(self, listener: str) -> None:
        """Have nobody answer at a listener, whatever heals."""
        self._cut(_Cut(LinkMatch(listener=listener), refuse=False, is_pause=True))

    def go_on(self, listener: str) -> None:
        """End that."""
        self._keep([each for each in self._cuts if not (each.is_pause and each.match.listener == listener)])

    def _keep(self, cuts: list[_Cut]) -> None:
        self._cuts = cuts
        for link, way in list(self._links.items()):
            if not any(each.match.fits(link) for each in cuts):
                way.heal()

    def slow(self, latency_ms: float, jitter_ms: float) -> None:
        """Have each request arrive so much later. Raises LabError."""
        if latency_ms < 0 or jitter_ms < 0:
            raise LabError(f"ms and jitter are 0 or more, not {latency_ms:g} and {jitter_ms:g}")
        self._latency_ms, self._jitter_ms = latency_ms, jitter_ms

    def narrow(self, bytes_per_s: float | None) -> None:
        """Let so many bytes pass in each direction of each connection; None for any number. Raises LabError."""
        if bytes_per_s is not None and bytes_per_s <= 0:
            raise LabError(f"bytes_per_s is above 0, or None for any number, not {bytes_per_s:g}")
        self._bytes_per_ms = None if bytes_per_s is None else bytes_per_s / _MS

    def reset_all(self) -> int:
        """Reset all connections; their number."""
        links = list(self._links)
        for each in links:
            each.close(RST)
        return len(links)

    # What hooks do with it

    def begin_life(self) -> None:
        """The broker starts: nobody is connected."""
        self._links.clear()

    def connected(self, link: "ClientLink") -> None:
        """A client is connected."""
        self._links[link] = _Way(link)

    def lost(self, link: "ClientLink") -> None:
        """A connection has ended."""
        way = self._links.pop(link, None)
        if way is not None:
            way.end()

    @property
    def is_plain(self) -> bool:
        """True while everything passes as it is."""
        return not self._cuts and not self._latency_ms and not self._jitter_ms and self._bytes_per_ms is None

    def passes(self, link: "ClientLink") -> bool:
        """True while a request of the connection arrives as it is sent: nothing holds it up, nor one before it."""
        way = self._links.get(link)
        return self.is_plain and (way is None or way.last is None)

    async def arrive(self, link: "ClientLink", size_bytes: int) -> None:
        """Wait until a request of this size has arrived, which it does behind those that were sent before it. Raises
        CloseConnection if it never does."""
        way = self._links.get(link)
        if way is None:
            return
        before, way.last = way.last, asyncio.get_running_loop().create_future()
        last = way.last
        try:
            await self._travel(way, link, size_bytes)
            if before is not None:
                await asyncio.shield(before)
        finally:
            last.set_result(None)
            if way.last is last:
                way.last = None
        if way.is_over:
            raise CloseConnection

    async def _travel(self, way: "_Way", link: "ClientLink", size_bytes: int) -> None:
        """Wait for as long as a request is under way by itself."""
        cut = next((each for each in self._cuts if each.match.fits(link)), None)
        if cut is not None and cut.refuse and not way.is_cut:
            link.close(RST)
            raise CloseConnection
        if cut is not None:
            way.cut()
            await way.healed()
        now_ms = asyncio.get_running_loop().time() * _MS
        late_ms = self._latency_ms + self._jitter_ms * self._luck()
        passing_ms = 0.0 if self._bytes_per_ms is None else size_bytes / self._bytes_per_ms
        await way.wait_until(max(now_ms + late_ms, way.in_until_ms) + passing_ms)

    def leave(self, link: "ClientLink", size_bytes: int) -> None:
        """Withhold an answer of this size for the time that it takes."""
        way = self._links.get(link)
        if way is not None and self._bytes_per_ms is not None:
            way.narrow(size_bytes / self._bytes_per_ms)


class _Way:
    """One connection."""

    def __init__(self, link: "ClientLink") -> None:
        self._link: Final = link
        self._healed: asyncio.Future[None] | None = None
        self._waits: set[asyncio.Future[None]] = set()
        self.in_until_ms = 0.0
        """The time at which the last request has arrived, by the event loop's clock."""
        self.last: asyncio.Future[None] | None = None
        """The arrival of the last request; None if all have arrived. A timer alone keeps no order: two for one time
        fire as they like, and one that is late is overtaken."""
        self.is_over = False
        """True if the client has gone."""
        self._out_until_ms = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_cut(self) -> bool:
        """True while nothing passes."""
        return self._healed is not None

    def cut(self) -> None:
        """Let nothing pass any more."""
        if self._healed is None:
            self._healed = asyncio.get_running_loop().create_future()
            self._link.stall()
            self._link.hold()

    def heal(self) -> None:
        """Let everything pass that has waited."""
        healed, self._healed = self._healed, None
        if healed is None:
            return
        if not healed.done():
            healed.set_result(None)
        self._link.go_on()
        if self._timer is None:
            self._link.release()

    async def healed(self) -> None:
        """Wait for that. Raises CloseConnection when the client has gone."""
        if self._healed is not None:
            await asyncio.shield(self._healed)

    def end(self) -> None:
        """The client has gone: what waits never arrives."""
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
        for each in (self._healed, *self._waits):
            if each is not None and not each.done():
                each.set_exception(CloseConnection())
                each.exception()  # nobody may wait for it

    async def wait_until(self, at_ms: float) -> None:
        """Wait for a time of the event loop. Raises CloseConnection when the client has gone."""
        loop = asyncio.get_running_loop()
        if at_ms <= loop.time() * _MS:
            return
        self.in_until_ms = at_ms
        arrived: asyncio.Future[None] = loop.create_future()
        timer = loop.call_at(at_ms / _MS, _set, arrived)
        self._waits.add(arrived)
        try:
            await arrived
        finally:
            self._waits.discard(arrived)
            timer.cancel()

    def narrow(self, passing_ms: float) -> None:
        """Withhold what leaves, so much longer."""
        loop = asyncio.get_running_loop()
        self._out_until_ms = max(self._out_until_ms, loop.time() * _MS) + passing_ms
        if self._timer is not None:
            self._timer.cancel()
        self._link.stall()
        self._timer = loop.call_at(self._out_until_ms / _MS, self._pass)

    def _pass(self) -> None:
        self._timer = None
        if not self.is_cut:
            self._link.release()


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class NetworkHooks(RequestHooks):
    """The network around the hooks of scripted faults."""

    def __init__(self, network: LabNetwork, inner: RequestHooks) -> None:
        network.begin_life()
        self._network: Final = network
        self._inner: Final = inner

    def connected(self, link: "ClientLink") -> None:
        """A client is connected."""
        self._network.connected(link)
        self._inner.connected(link)

    def lost(self, link: "ClientLink") -> None:
        """A connection has ended."""
        self._network.lost(link)
        self._inner.lost(link)

    async def begun(self, observed: ObservedRequest) -> RequestVerdict | None:
        """A request arrives, late or never."""
        if not self._network.passes(observed.link):
            await self._network.arrive(observed.link, observed.size_bytes)
        return await self._inner.begun(observed)

    def waits(self, observed: ObservedRequest) -> None:
        """The handler waits for the first time."""
        self._inner.waits(observed)

    async def handled(self, observed: ObservedRequest, response: Any) -> Any:
        """A request was executed."""
        return await self._inner.handled(observed, response)

    def responded(self, observed: ObservedRequest) -> None:
        """An answer leaves."""
        self._network.leave(observed.link, observed.response_bytes)
        self._inner.responded(observed)
