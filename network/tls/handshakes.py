"""`Handshakes`: how many TLS handshakes are under way, and how many are advanced in one turn of the loop (security.md
2.3.5).

A step of a handshake is up to a millisecond of arithmetic. Always true: at most `PER_TURN` steps run before everybody
else gets a turn; at most `limit` peers are between their greeting and the end of their handshake, and the others wait,
those of each network in turns with those of other networks. While any wait, a peer that lets the broker wait for more
than half a second gives way.
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


class Handshakes:
    """The handshakes of one broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, *, limit: int) -> None:
        self._loop = loop
        self._clock = clock
        self._limit = limit
        self._under_way: dict[TlsLayer, float] = {}
        """Since when by `Clock.running_ms`, the oldest first."""
        self._waiting: dict[str, dict[TlsLayer, None]] = {}
        """By network; the first one of the first network is next."""
        self._timer: Timer | None = None
        """For those that take long, while others wait."""
        self._ready: dict[TlsLayer, None] = {}
        self._turn: asyncio.Handle | None = None

    def begin(self, peer: "TlsLayer") -> bool:
        """True if `peer` may begin; if not, it waits until `admitted` is called."""
        if len(self._under_way) >= self._limit:
            self._waiting.setdefault(peer.network, {})[peer] = None
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
        self._ready[peer] = None
        if self._turn is None:
            self._turn = self._loop.call_soon(self._run)

    def leave(self, peer: "TlsLayer") -> None:
        """The handshake is over, or the peer is gone."""
        self._ready.pop(peer, None)
        if self._under_way.pop(peer, None) is None:
            self._wait_no_more(peer)
        elif self._waiting:
            network, of_network = next(iter(self._waiting.items()))
            following = next(iter(of_network))
            self._wait_no_more(following)
            if network in self._waiting:
                self._waiting[network] = self._waiting.pop(network)  # behind the others
            self._under_way[following] = self._clock.running_ms()
            following.admitted()

    def _wait_no_more(self, peer: "TlsLayer") -> None:
        of_network = self._waiting.get(peer.network, {})
        of_network.pop(peer, None)
        if not of_network:
            self._waiting.pop(peer.network, None)

    def _check_later(self) -> None:
        if self._timer is None and self._waiting and self._under_way:
            due_ms = next(iter(self._under_way.values())) + TIME_MS - self._clock.running_ms()
            self._timer = self._clock.start_deadline(max(CHECK_MS, due_ms), self._end_slow_ones)

    def _end_slow_ones(self) -> None:
        self._timer = None
        begun_before, waiting = self._clock.running_ms() - TIME_MS, sum(map(len, self._waiting.values()))
        slow = [each for each, since in self._under_way.items() if since <= begun_before and each not in self._ready]
        for each in slow[:waiting]:
            each.give_way()
        self._check_later()

    def _run(self) -> None:
        self._turn = None
        for _ in range(PER_TURN):
            if not self._ready:
                return
            peer = next(iter(self._ready))
            del self._ready[peer]
            peer.step()
        if self._ready and self._turn is None:
            self._turn = self._loop.call_soon(self._run)
