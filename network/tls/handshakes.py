"""`Handshakes`: how many TLS handshakes are under way, and how many are advanced in one turn of the loop (security.md
2.3.5).

A step of a handshake is up to a millisecond of arithmetic. Always true: at most `PER_TURN` steps run before everybody
else gets a turn; at most `limit` peers are between their greeting and the end of their handshake, and the others wait.
Those of each network wait in turns with those of other networks, for their place and for each step. Who has answered
the broker's part of a handshake comes before those that only greet, which anybody can do without end; one step of a
turn is left to these. While any wait for a place, a peer that lets the broker wait for more than half a second gives
way.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from eosin.runtime.clock import Clock, Timer

if TYPE_CHECKING:
    from eosin.network.tls.layer import TlsLayer

PER_TURN: Final = 4
TIME_MS: Final = 500
"""A handshake takes less, as a rule."""
CHECK_MS: Final = 50
"""Between two looks for those that take longer, at least."""


class _Queue:
    """Peers in their order, those of each network in turns with those of others."""

    def __init__(self) -> None:
        self._by_network: dict[str, dict[TlsLayer, None]] = {}
        """Only of networks that have any; the first one of the first network is next."""

    def __len__(self) -> int:
        return sum(map(len, self._by_network.values()))

    def __bool__(self) -> bool:
        return bool(self._by_network)

    def __contains__(self, peer: "TlsLayer") -> bool:
        return peer in self._by_network.get(peer.network, ())

    def add(self, peer: "TlsLayer") -> None:
        """Let it wait behind those of its network; one that waits keeps its place."""
        self._by_network.setdefault(peer.network, {})[peer] = None

    def remove(self, peer: "TlsLayer") -> None:
        """Let it wait no more."""
        network = peer.network
        of_network = self._by_network.get(network)
        if of_network is not None:
            of_network.pop(peer, None)
            if not of_network:
                del self._by_network[network]

    def pop(self) -> "TlsLayer":
        """The next one, which waits no more; its network is behind all others then. There has to be one."""
        network, of_network = next(iter(self._by_network.items()))
        peer = next(iter(of_network))
        del of_network[peer], self._by_network[network]
        if of_network:
            self._by_network[network] = of_network
        return peer


class Handshakes:
    """The handshakes of one broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, *, limit: int) -> None:
        self._loop = loop
        self._clock = clock
        self._limit = limit
        self._under_way: dict[TlsLayer, float] = {}
        """Since when by `Clock.running_ms`, the oldest first."""
        self._waiting = _Queue()
        self._timer: Timer | None = None
        """For those that take long, while others wait."""
        self._greeting, self._answering = _Queue(), _Queue()
        """Peers of which something came: those that only greet, and those that the broker has replied to."""
        self._turn: asyncio.Handle | None = None

    def begin(self, peer: "TlsLayer") -> bool:
        """True if `peer` may begin; if not, it waits until `admitted` is called."""
        if len(self._under_way) >= self._limit:
            self._waiting.add(peer)
            self._check_later()
            return False
        self._under_way[peer] = self._clock.running_ms()
        return True

    @property
    def under_way(self) -> int:
        """Number of handshakes that have begun."""
        return len(self._under_way)

    def ready(self, peer: "TlsLayer") -> None:
        """Something came from `peer`: it gets a step in one of the next turns of the loop."""
        (self._answering if peer.has_replied else self._greeting).add(peer)
        if self._turn is None:
            self._turn = self._loop.call_soon(self._run)

    def leave(self, peer: "TlsLayer") -> None:
        """The handshake is over, or the peer is gone."""
        self._greeting.remove(peer)
        self._answering.remove(peer)
        if self._under_way.pop(peer, None) is None:
            self._waiting.remove(peer)
        elif self._waiting:
            following = self._waiting.pop()
            self._under_way[following] = self._clock.running_ms()
            following.admitted()

    def _check_later(self) -> None:
        if self._timer is None and self._waiting and self._under_way:
            due_ms = next(iter(self._under_way.values())) + TIME_MS - self._clock.running_ms()
            self._timer = self._clock.start_deadline(max(CHECK_MS, due_ms), self._end_slow_ones)

    def _end_slow_ones(self) -> None:
        self._timer = None
        begun_before = self._clock.running_ms() - TIME_MS
        slow = [each for each, since in self._under_way.items() if since <= begun_before and not self._is_ready(each)]
        for each in slow[: len(self._waiting)]:
            each.give_way()
        self._check_later()

    def _is_ready(self, peer: "TlsLayer") -> bool:
        return peer in self._greeting or peer in self._answering

    def _run(self) -> None:
        self._turn = None
        for step in range(PER_TURN):
            first, second = self._answering, self._greeting
            if step == 0:  # or who answers byte by byte would keep all others from their greeting
                first, second = second, first
            queue = first or second
            if not queue:
                return
            queue.pop().step()
        if (self._greeting or self._answering) and self._turn is None:
            self._turn = self._loop.call_soon(self._run)
