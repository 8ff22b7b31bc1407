"""`UnauthenticatedPeers`: connections whose peers have not proved yet who they are (security.md 2.3.6, 5.7, 6.2).

A listener has few places for them, and nobody is known by then, so they are shared out by what a peer has done and how
many its network has. Always true:
- Each of them is counted once, in all, for its address and for its network, from the accept until its peer is known,
  gives its place or is gone, and `UnauthenticatedPeer.end` is the only place that counts down.
- When there is no place, one goes for the newcomer, at random: of those that have sent nothing, or else of the fullest
  network. Of a network with more than a twentieth of the places, and more than that of the newcomer, anyone may go. All
  others have half a second for themselves once they have sent something, so that many honest clients that come at once
  do not push out each other; the newcomer is refused where nobody may go.
- A tenth of the places is left to addresses that somebody has logged in from.
- Times are those of a broker that runs, and end when the sockets were read (`Clock.start_deadline`): what was sent to a
  broker that stood still is heard first.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from eosin.model.address_group import address_group, network_of
from eosin.network.known_addresses import KnownAddresses
from eosin.network.refusal_log import RefusalLog
from eosin.protocol.wire.frame_memory import CHECK_MS, FrameMemory
from eosin.protocol.wire.frames import BUFFER_BYTES
from eosin.runtime.chance import Chance
from eosin.runtime.clock import Clock, Timer

if TYPE_CHECKING:
    from eosin.runtime.clock import Clock
    from eosin.settings.broker import BrokerConfig

KEPT: Final = 10
"""One of so many places is for known addresses only."""
FULL: Final = 20
"""A network with more than one of so many places gives first."""
DRAWS: Final = 16
"""So many are looked at to find one that goes: all would take long where there are many."""
TIME_MS: Final = 500
"""A login takes less, as a rule: whoever takes longer may go for others."""

_SPARED: Final = (4, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnauthenticatedPeerLimits:
    """The largest number of such peers on a listener, and the time that each may take."""

    most: int = 1000
    most_per_address: int = 100
    first_byte_timeout_ms: int = 2000
    timeout_ms: int = 10_000
    memory_bytes: int = 67_108_864
    """Of frames that are not whole yet, over all of them."""
    frame_bytes: int = 131_072
    """The largest frame."""


class ServingLayer(Protocol):
    """The layer that serves a connection now: TLS, or the connection itself."""

    @property
    def has_received(self) -> bool:
        """True if a byte came."""

    def abort(self) -> None:
        """Close now."""


class PeerPool:
    """Peers of which any one can be drawn: each step takes the same time, however many they are."""

    __slots__ = ("_at", "_peers")

    def __init__(self) -> None:
        self._peers: list[UnauthenticatedPeer] = []
        self._at: dict[UnauthenticatedPeer, int] = {}
        """The index of each peer."""

    def __len__(self) -> int:
        return len(self._peers)

    def add(self, peer: "UnauthenticatedPeer") -> None:
        """One more."""
        self._at[peer] = len(self._peers)
        self._peers.append(peer)

    def remove(self, peer: "UnauthenticatedPeer") -> None:
        """One less; the last one takes where it was."""
        at, last = self._at.pop(peer), self._peers.pop()
        if last is not peer:
            self._peers[at] = last
            self._at[last] = at

    def draw(self, chance: Chance) -> "UnauthenticatedPeer":
        """One of them."""
        return self._peers[chance.below(len(self._peers))]


class UnauthenticatedPeers:
    """The unauthenticated peers of one listener with TLS or SASL."""

    def __init__(
        self,
        listener: str,
        limits: UnauthenticatedPeerLimits,
        known: KnownAddresses,
        *,
        refusals: RefusalLog,
        clock: Clock,
        chance: Chance,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`known` is of all listeners."""
        self.listener = listener
        self.limits = limits
        self.known = known
        self.refusals = refusals
        self.clock = clock
        self._chance = chance
        self.strangers = PeerPool()
        self.acquaintances = PeerPool()
        """Peers of known addresses."""
        self.by_address: dict[str, PeerPool] = {}
        """Only of addresses that have any."""
        self.by_network: Counter[str] = Counter()
        """Only of networks that have any."""
        self.memory = FrameMemory(
            limit_bytes=limits.memory_bytes,
            largest_bytes=limits.frame_bytes,
            others=lambda: self.count * BUFFER_BYTES,
            soon=loop.call_soon_threadsafe,
            later=(lambda _: None) if clock is None else partial(clock.start_deadline, CHECK_MS),
        )
        """For their frames that do not fit a buffer; the buffers count as if each of them had one."""

    @property
    def count(self) -> int:
        """Number of peers."""
        return len(self.strangers) + len(self.acquaintances)

    def admit(self, host: str) -> "UnauthenticatedPeer | None":
        """Count a connection that was just accepted from the address `host`; None if it gets no place."""
        address, limits = address_group(host), self.limits
        is_known, of_address = address in self.known, self.by_address.get(address)
        if of_address is not None and len(of_address) >= limits.most_per_address:
            why = f"too many connections of one address that have not proved who they are ({len(of_address)})"
            has_place = self._make_room(host, [of_address], of=address, why=why)
        elif not is_known and len(self.strangers) >= limits.most - limits.most // KEPT:
            has_place = self._make_room(host, [self.strangers], of="all", why=self._why_full)
        elif self.count >= limits.most:
            has_place = self._make_room(host, [self.strangers, self.acquaintances], of="all", why=self._why_full)
        else:
            has_place = True
        return UnauthenticatedPeer(self, host, is_known=is_known) if has_place else None

    @property
    def _why_full(self) -> str:
        return f"too many connections that have not proved who they are, a listener has {self.limits.most} places"

    def _make_room(self, host: str, crowds: Sequence[PeerPool], *, of: str, why: str) -> bool:
        """Close one of `crowds` for a newcomer from `host`, if any may go; the log has one line for each `of`."""
        gone = self._one_to_go(crowds, network_of(host))
        self.refusals.note(of, why, peer=host if gone is None else gone.host, listener=self.listener)
        if gone is None:
            return False
        gone.give_place()
        return True

    def _one_to_go(self, crowds: Sequence[PeerPool], network: str) -> "UnauthenticatedPeer | None":
        """The peer whose place a newcomer of `network` gets: the first of the least rank among some that are drawn."""
        drawn = [crowd.draw(self._chance) for crowd in crowds for _ in range(DRAWS if crowd else 0)]
        are_silent = 2 * sum(not peer.has_sent for peer in drawn) >= len(drawn)
        full = max(self.limits.most // FULL, self.by_network[network])

        def claim(peer: UnauthenticatedPeer) -> tuple[int, int]:
            """The rank of a peer; the one of the least rank goes first."""
            of_network = self.by_network[peer.network]
            if not peer.is_served:
                return _SPARED
            if not peer.has_sent:
                if of_network > full:
                    return 0, -of_network
                return (1, 0) if peer.had_its_time else (2, 0) if are_silent else _SPARED
            return (3, -of_network) if peer.had_its_time or of_network > full else _SPARED

        first = min(drawn, key=claim, default=None)
        return None if first is None or claim(first) == _SPARED else first


class UnauthenticatedPeer:
    """One connection until its peer is known."""

    __slots__ = (
        "_address",
        "_all",
        "_crowd",
        "_has_sent",
        "_layer",
        "_timer",
        "had_its_time",
        "host",
        "memory",
        "network",
        "stage",
    )

    def __init__(self, peers: UnauthenticatedPeers, host: str, *, is_known: bool) -> None:
        self._all: UnauthenticatedPeers | None = peers
        self.host = host
        self.network = network_of(host)
        self.memory = peers.memory
        """For its large frames."""
        self.stage = "tcp"
        """The stage that the peer has reached, for the log: tcp, tls or the SASL mechanism."""
        self.had_its_time = False
        """True if it is there for longer than a login takes, as a rule."""
        self._layer: ServingLayer | None = None
        self._has_sent = False
        self._address = address_group(host)
        self._crowd = peers.acquaintances if is_known else peers.strangers
        self._crowd.add(self)
        peers.by_address.setdefault(self._address, PeerPool()).add(self)
        peers.by_network[self.network] += 1
        self._timer: Timer | None = peers.clock.start_deadline(TIME_MS, self._judge_time)

    @property
    def is_served(self) -> bool:
        """True if there is something that can be closed."""
        return self._layer is not None

    @property
    def has_sent(self) -> bool:
        """True if a byte came from the peer."""
        if not self._has_sent and self._layer is not None:
            self._has_sent = self._layer.has_received
        return self._has_sent

    def served_by(self, layer: ServingLayer, stage: str) -> None:
        """Another layer serves the connection from now on; one that came too late is closed."""
        if self._all is None:
            layer.abort()
            return
        self._has_sent = self.has_sent
        self._layer, self.stage = layer, stage

    def hold(self) -> None:
        """The peer waits for us now: no deadline any more, but it still counts."""
        self.had_its_time = True
        self._forget_timer()

    def is_proved(self) -> None:
        """The peer has proved who it is."""
        if self._all is not None:
            self._all.known.add(self._address)
        self.end()

    def end(self) -> None:
        """The peer is known, or gone. May be called again."""
        peers = self._all
        if peers is None:
            return
        self._all = self._layer = None
        self._forget_timer()
        self._crowd.remove(self)
        of_address = peers.by_address[self._address]
        of_address.remove(self)
        if not of_address:
            del peers.by_address[self._address]
        peers.by_network[self.network] -= 1
        if not peers.by_network[self.network]:
            del peers.by_network[self.network]

    def give_place(self) -> None:
        """Close the connection. Its place is free at once, not only when the socket is closed."""
        layer = self._layer
        self.end()
        if layer is not None:
            layer.abort()

    # Times

    def _judge_time(self) -> None:
        if self._all is not None:
            self.had_its_time = True
            limits = self._all.limits
            least_ms = min(limits.first_byte_timeout_ms, limits.timeout_ms)
            self._timer = self._all.clock.start_deadline(least_ms - TIME_MS, self._judge_first_byte)

    def _judge_first_byte(self) -> None:
        if self._all is None:
            return
        limits = self._all.limits
        left_ms = limits.timeout_ms - limits.first_byte_timeout_ms
        if self.has_sent or left_ms <= 0:
            self._timer = self._all.clock.start_deadline(left_ms, self._judge_login)
        else:
            self._expire(f"the peer has sent nothing within {limits.first_byte_timeout_ms} ms")

    def _judge_login(self) -> None:
        if self._all is not None:
            ms = self._all.limits.timeout_ms
            self._expire(f"the peer has not proved who it is within {ms} ms, at stage {self.stage}")

    def _expire(self, reason: str) -> None:
        assert self._all is not None
        self._all.refusals.note(self.host, reason, peer=self.host, listener=self._all.listener)
        self.give_place()

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def unauthenticated_peers_of(
    config: "BrokerConfig",
    listeners: Sequence[str],
    *,
    refusals: RefusalLog,
    clock: Clock,
    chance: Chance,
    loop: asyncio.AbstractEventLoop,
) -> dict[str, UnauthenticatedPeers]:
    """The unauthenticated peers of these listeners of a broker with these settings: none yet."""
    limits = UnauthenticatedPeerLimits(
        most=config.eosin_unauthenticated_connections_max,
        most_per_address=config.eosin_unauthenticated_connections_per_ip_max,
        first_byte_timeout_ms=config.eosin_connection_first_byte_timeout_ms,
        timeout_ms=config.eosin_connection_setup_timeout_ms,
        memory_bytes=config.eosin_unauthenticated_memory_max_bytes,
        frame_bytes=config.sasl_server_max_receive_size,
    )
    known = KnownAddresses()
    return {
        name: UnauthenticatedPeers(name, limits, known, refusals=refusals, clock=clock, chance=chance, loop=loop)
        for name in listeners
    }
