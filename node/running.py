"""`RunningNode`: one broker that serves, until its stop.

The stop goes the other way than the start (`Node`): no new requests, a limited time for running ones, then the
coordinators stop, and the logs are flushed and closed.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from eosin.broker.hanging_transactions import ROUND_INTERVAL_MS, HangingTransactions
from eosin.broker.security.new_producers import CHECK_INTERVAL_MS
from eosin.network.connection import ServerConnection
from eosin.network.refusal_log import REPORT_INTERVAL_MS
from eosin.network.watch import ConnectionWatch
from eosin.protocol.keys import ApiKey
from eosin.runtime.logging_format import fields

if TYPE_CHECKING:
    from eosin.broker.services import Services
    from eosin.cluster.peers.links import Links
    from eosin.model.cluster import Cluster
    from eosin.network.host import ConnectionHost
    from eosin.network.sasl.listeners import SaslListeners
    from eosin.network.tls.listeners import TlsListeners
    from eosin.network.unauthenticated_peers import UnauthenticatedPeers
    from eosin.node.assembly import ClusterPart
    from eosin.node.loading import Loading
    from eosin.node.observability import Observability
    from eosin.node.sockets import BoundListener, Endpoints
    from eosin.runtime.background import Background
    from eosin.runtime.clock import Clock
    from eosin.settings.broker import BrokerConfig

log = logging.getLogger(__name__)

_WAIT_FOR_OTHERS: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""Requests that end only with requests of other clients, which a stopping broker does not begin."""

_DRAIN_TURNS: Final = 3
"""Turns of the event loop after which a connection with nothing to send is closed."""
_DRAIN_MS: Final = 1000
"""The time that a closing connection may take to send its responses."""


class Secured(NamedTuple):
    """Proofs of who is at the other end; None where nobody has to prove it."""

    tls: "TlsListeners | None"
    """The listeners with TLS."""
    sasl: "SaslListeners | None"
    links: "Links | None"
    """The way to other nodes of the cluster, where that is not plain."""


class Entrance(NamedTuple):
    """One listener, as whoever accepts connections needs it."""

    connect: Callable[..., asyncio.BaseProtocol]
    """Makes a connection; it gets the `UnauthenticatedPeer` where these are counted."""
    unauthenticated_peers: "UnauthenticatedPeers | None" = None
    """Counts those who have to prove who they are and have not yet."""


class RunningNode:
    """One broker process, from the moment when its parts are there."""

    def __init__(
        self,
        *,
        endpoints: "Endpoints",
        bound: "Sequence[BoundListener]",
        is_open: bool,
        part: "ClusterPart",
        services: "Services",
        host: "ConnectionHost",
        background: "Background",
        loading: "Loading",
        secured: Secured,
        observability: "Observability | None",
    ) -> None:
        self._endpoints: Final = endpoints
        self.addresses: Final = tuple(each.listener.address for each in bound)
        """HOST:PORT of every listener, with the port that was really bound."""
        self.is_open: Final = is_open
        """True if others than this machine may read and write without a proof of who they are."""
        self.logs: Final = part.logs
        self.part: Final = part
        self.services: Final = services
        self.host: Final = host
        self.loading: Final = loading
        self.tls: Final = secured.tls
        """The listeners with TLS; None if there are none."""
        self.observability: Final = observability
        """The way for others to see into this broker; None where nobody asked for that."""
        self.is_stopping = False
        self._background: Final = background
        self._secured: Final = secured

    @property
    def config(self) -> "BrokerConfig":
        """Its settings, with what the start has decided."""
        return self.services.config

    @property
    def clock(self) -> "Clock":
        """Its clock."""
        return self.services.clock

    @property
    def background(self) -> "Background":
        """Its periodic work."""
        return self._background

    @property
    def cluster(self) -> "Cluster":
        """The metadata that it shows."""
        return self.services.cluster

    # Start

    def schedule(self) -> None:
        """Begin what is done again and again."""
        background, loading, interval_ms = self._background, self.loading, self.config.eosin_ssl_reload_interval_ms
        self.part.schedule(background, self.host.loop_watch)
        for work in self.logs.periodic_work():
            run = partial(loading.unless_loading, work.run) if work.can_wait else work.run
            background.every(work.interval_ms, work.name, run, rest=work.rest)
        healing = HangingTransactions(self.services)
        background.every(ROUND_INTERVAL_MS, "the search for hanging transactions", healing.round)
        background.every(REPORT_INTERVAL_MS, "the report of refused clients", self._report_refusals)
        ConnectionWatch(self.host, self.config).begin(background)
        limits = self.services.new_producers
        count = partial(loading.unless_loading, lambda: limits.recount(list(self.logs.logs.values())))
        background.every(CHECK_INTERVAL_MS, "the count of producers", count)
        if self.tls is not None:
            self.tls.watch(background, interval_ms=interval_ms)
        seen = self.observability
        if seen is not None and seen.has_certificates and interval_ms > 0:
            background.every(interval_ms, "the look for changed certificates of HTTP", seen.refresh)

    def entrances(self, loop: asyncio.AbstractEventLoop) -> Mapping[str, Entrance]:
        """The makers of the connections of each listener, by its name."""
        host, secured = self.host, self._secured
        entrances = {name: Entrance(partial(ServerConnection, host, name, loop)) for name in self.config.protocols}
        if secured.tls is None and secured.sasl is None:
            return entrances
        from eosin.node.secured_listeners import secured_connections

        made, peers = secured_connections(self.config, host, self.services.chance, secured.tls, secured.sasl, loop)
        return {**entrances, **{name: Entrance(connect, peers[name]) for name, connect in made.items()}}

    # While it runs

    def advertise(self, listener: str, host: str, port: int) -> None:
        """Tell clients of `listener` this address from now on, and answer those that were held for want of one."""
        from eosin.node.alone_node import AloneNode

        part = self.part
        assert isinstance(part, AloneNode), "a cluster is told the addresses of its brokers when they join it"
        part.cluster.advertise(listener, host, port)
        log.info("clients of listener %s are told %s:%d from now on", listener, host, port)
        self._endpoints.release(listener)

    async def stopped(self, stop: asyncio.Event) -> str | None:
        """Wait for `stop`, or until this broker can be a member of its cluster no longer: the sentence that says
        why."""
        if not self.host.loop_watch.is_looking:
            # Requests to the HTTP listener do not wake the watch.
            self.host.loop_watch.begin(self._background, may_rest=self.observability is None)
        return await self.part.lost(stop)

    @property
    def has_certificates(self) -> bool:
        """True if there is something for `reload` to read."""
        seen = self.observability is not None and self.observability.has_certificates
        return self.tls is not None or self._secured.links is not None or seen

    def reload(self) -> None:
        """Read all certificates again, changed or not, while requests are served."""
        if self.tls is not None:
            self.tls.reload()
        if self._secured.links is not None:
            look = partial(self._secured.links.refresh, forced=True)
            self._background.once("the reload of certificates of links", look)
        if self.observability is not None and self.observability.has_certificates:
            look = partial(self.observability.refresh, forced=True)
            self._background.once("the reload of the HTTP listener's certificates", look)

    def _report_refusals(self) -> None:
        host = self.host
        host.refusals.report()
        host.connections_changed(len(host.connections) + host.arriving)

    # Stop

    async def shutdown(self) -> bool:
        """Stop in order. Returns whether every request got its response in time and every log closed cleanly."""
        assert not self.is_stopping, "shutdown happens once"
        self.is_stopping = True
        await self.part.leave()
        services, host = self.services, self.host
        await self._endpoints.close()
        for connection in list(host.connections):
            connection.stop_beginning()
            connection.end_if_gone()
        services.large_batches.stop()
        for _, held in services.partitions.hosted():
            services.partitions.long_polls.interrupt(held)
        services.fetch_sessions.end_waits()
        services.sharing.stop_waiting()
        await self.loading.stop()
        limit_ms = self.config.eosin_shutdown_timeout_ms
        await self._finish_requests(limit_ms, waiting_for_others=False)
        await services.transactions.stop()
        await services.groups.stop()
        await services.sharing.stop()
        await services.share_states.stop()
        finished = await self._finish_requests(limit_ms, waiting_for_others=True)
        await self._close_connections()
        if self._secured.sasl is not None:
            self._secured.sasl.close()
        if self.observability is not None:
            await self.observability.stop()
        await self._background.stop()
        await self.part.close()
        try:
            await self.logs.close(clean=True)
        except OSError as error:
            log.error("the last files could not be written, and the next start recovers: %s", error)
            finished = False
        log.info("stopped", extra=fields(clean=finished))
        return finished

    async def _finish_requests(self, limit_ms: int, *, waiting_for_others: bool) -> bool:
        running = [
            future for future, key in self.host.running.items() if waiting_for_others or key not in _WAIT_FOR_OTHERS
        ]
        if not running:
            return True
        _, unfinished = await asyncio.wait(running, timeout=limit_ms / 1000)
        if unfinished and waiting_for_others:
            log.warning("requests did not finish in time", extra=fields(requests=len(unfinished), limit_ms=limit_ms))
            for future in running:
                future.cancel()
            await asyncio.wait(running, timeout=limit_ms / 1000)
        return not unfinished

    async def _close_connections(self) -> None:
        for layer in list(self.host.layers):
            layer.abort()
        for connection in list(self.host.connections):
            connection.close()
        for turn in range(_DRAIN_TURNS + _DRAIN_MS // 10):
            if not self.host.connections:
                return
            await asyncio.sleep(0 if turn < _DRAIN_TURNS else 0.01)
        for connection in list(self.host.connections):
            connection.abort()
        await asyncio.sleep(0)
