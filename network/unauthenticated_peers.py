"""`UnauthenticatedPeers`: connections whose peers have not proved yet who they are (security.md 2.3.6, 5.7, 6.2).

Always true: each of them is counted once, in all and for its address, from the accept until its peer is known or it is
gone, and `UnauthenticatedPeer.end` is the only place that counts down. One that takes too long is aborted.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eosin.model.address_group import address_group
from eosin.network.refusal_log import RefusalLog
from eosin.protocol.frame_memory import FrameMemory
from eosin.protocol.frames import BUFFER_BYTES

if TYPE_CHECKING:
    from eosin.settings.broker import BrokerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class UnauthenticatedPeerLimits:
    """How many there may be and how long each may take."""

    most: int = 1000
    most_per_address: int = 100
    timeout_ms: int = 10_000
    memory_bytes: int = 67_108_864
    """Of frames that are not whole yet, over all of them."""


class UnauthenticatedPeers:
    """The unauthenticated peers of all listeners with TLS or SASL."""

    def __init__(
        self, limits: UnauthenticatedPeerLimits, refusals: RefusalLog, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.limits = limits
        self.refusals = refusals
        self.loop = loop
        self.count = 0
        self.by_address: dict[str, int] = {}
        """Only of addresses that have any."""
        self.memory = FrameMemory(
            limit_bytes=limits.memory_bytes,
            others=lambda: self.count * BUFFER_BYTES,
            soon=loop.call_soon_threadsafe,
        )
        """For their frames that do not fit a buffer; the buffers count as if each of them had one."""

    def admit(self, host: str, listener: str) -> "UnauthenticatedPeer | None":
        """Count a connection that was just accepted from the address `host`; None if there are too many, in all or of
        that address."""
        address = address_group(host)
        of_address = self.by_address.get(address, 0)
        if of_address >= self.limits.most_per_address:
            reason = f"too many connections of one address that have not proved who they are ({of_address})"
        elif self.count >= self.limits.most:
            reason = f"too many connections that have not proved who they are ({self.count})"
            address = "all"
        else:
            self.count += 1
            self.by_address[address] = of_address + 1
            return UnauthenticatedPeer(self, address, host, listener)
        self.refusals.note(address, reason, peer=host, listener=listener)
        return None


class UnauthenticatedPeer:
    """One connection until its peer is known."""

    __slots__ = ("_address", "_all", "_deadline", "_host", "_listener", "abort", "stage")

    def __init__(self, peers: UnauthenticatedPeers, address: str, host: str, listener: str) -> None:
        self._all: UnauthenticatedPeers | None = peers
        self._address = address
        self._host = host
        self._listener = listener
        self.stage = "tcp"
        """How far the peer has come, for the log: tcp, tls or the SASL mechanism."""
        self.abort: Callable[[], None] | None = None
        """Ends the connection when the time is over. The layer that serves the connection now sets it."""
        self._deadline: asyncio.TimerHandle | None = peers.loop.call_later(peers.limits.timeout_ms / 1000, self._expire)

    @property
    def memory(self) -> FrameMemory:
        """For its large frames."""
        assert self._all is not None
        return self._all.memory

    def hold(self) -> None:
        """The peer waits for us now: no deadline any more, but it still counts."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def end(self) -> None:
        """The peer is known, or gone. May be called again."""
        peers = self._all
        if peers is None:
            return
        self._all = None
        self.abort = None
        self.hold()
        peers.count -= 1
        left = peers.by_address[self._address] - 1
        if left:
            peers.by_address[self._address] = left
        else:
            del peers.by_address[self._address]

    def _expire(self) -> None:
        self._deadline = None
        peers, abort = self._all, self.abort
        if peers is None:
            return
        reason = f"the peer has not proved who it is within {peers.limits.timeout_ms} ms, at stage {self.stage}"
        peers.refusals.note(self._host, reason, peer=self._host, listener=self._listener)
        if abort is not None:
            abort()


def unauthenticated_peers_of(
    config: "BrokerConfig", refusals: RefusalLog, loop: asyncio.AbstractEventLoop
) -> UnauthenticatedPeers:
    """The unauthenticated peers of a broker with these settings: none yet."""
    limits = UnauthenticatedPeerLimits(
        most=config.eosin_unauthenticated_connections_max,
        most_per_address=config.eosin_unauthenticated_connections_per_ip_max,
        timeout_ms=config.eosin_connection_setup_timeout_ms,
        memory_bytes=config.eosin_unauthenticated_memory_max_bytes,
    )
    return UnauthenticatedPeers(limits, refusals, loop)
