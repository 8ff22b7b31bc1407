"""`Server`: one broker from start to stop.

The start builds the rooms from the disk up and listens last; only coordinators with much to read go on loading while
requests come in. The stop goes the other way: no new requests, a limited time for running ones, then the coordinators
stop, and the logs are flushed and closed. Ports are bound before anything else, so a broker that no client could reach
never touches its data.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from eosin.broker.hanging_transactions import ROUND_INTERVAL_MS, HangingTransactions
from eosin.broker.security.new_producers import LOOK_INTERVAL_MS
from eosin.broker.security.open_listeners import check_open, is_loopback
from eosin.cluster.metadata.log import UnreadableMetadata
from eosin.cluster.opened_logs import open_logs
from eosin.network.acceptor import Acceptor, longest_backlog
from eosin.network.connection import Connection
from eosin.network.refusal_log import REPORT_INTERVAL_MS
from eosin.network.request_hooks import RequestHooks
from eosin.network.watch import ConnectionWatch
from eosin.node.assembly import ClusterPart, Outside, Watchers, assemble
from eosin.node.descriptors import LEAST_LIMIT, DescriptorBudget, budget_of, descriptor_limit
from eosin.node.sockets import bound_socket, told_to_others
from eosin.protocol.keys import ApiKey
from eosin.runtime.background import Background, Work
from eosin.runtime.chance import Chance, SystemChance
from eosin.runtime.clock import Clock, SystemClock
from eosin.runtime.logging_format import fields
from eosin.settings.broker import BrokerConfig
from eosin.settings.listeners import SASL_PROTOCOLS, TLS_PROTOCOLS, Listener
from eosin.settings.start_error import cannot_listen
from eosin.storage.disk.flusher import Flusher
from eosin.storage.disk.interfaces import Disk
from eosin.storage.disk.memory import MemoryDisk
from eosin.storage.disk.system import SystemDisk
from eosin.storage.manager import LogManager

if TYPE_CHECKING:
    from eosin.broker.security.first_users import FirstUser
    from eosin.cluster.peers.links import Links
    from eosin.coordinator.transactions.ports import MarkerTargets
    from eosin.network.sasl.listeners import SaslListeners
    from eosin.network.tls.listeners import TlsListeners
    from eosin.network.unauthenticated_peers import UnauthenticatedPeer, UnauthenticatedPeers
    from eosin.node.observability import Observability

log = logging.getLogger(__name__)

_WAIT_FOR_OTHERS: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""Requests that end only with requests of other clients, which a stopping broker does not begin."""

LOAD_BEFORE_LISTENING_MS: Final = 500
"""How long the coordinators may read their logs before the broker listens anyway."""

_DRAIN_MS: Final = 1000
"""How long a closing connection may take to send its responses."""


class Server:
    """One broker process."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock | None = None,
        chance: Chance | None = None,
        disk: Disk | None = None,
        flusher: Flusher | None = None,
        markers: "Callable[[MarkerTargets], MarkerTargets] | None" = None,
        hooks: RequestHooks | None = None,
        first_users: "Sequence[FirstUser]" = (),
    ) -> None:
        """`disk` and `flusher` are those that `eosin.durability` asks for unless given. `markers` may stand between the
        transaction coordinator and the leaders of partitions. `first_users` are stored where there are none."""
        self.config = config
        self.clock = clock or SystemClock()
        self.chance = chance or SystemChance()
        is_volatile = config.data_dir is None
        self._disk = disk or (MemoryDisk(has_threads=True) if is_volatile else SystemDisk())
        self._descriptors = _descriptors_of(config)
        self._flusher = flusher
        self._hooks = hooks
        self._markers = markers
        self._background = Background(self.clock)
        self._sockets: list[tuple[Listener, socket.socket]] = []
        self._listening: list[Acceptor] = []
        self._log_manager: LogManager | None = None
        self._node: ClusterPart | None = None
        """Alone or one of several; None before the logs are open."""
        self._loading: asyncio.Task[None] | None = None
        self.observability: Observability | None = None
        """What lets others see into this broker, where that is asked for."""
        self.tls: TlsListeners | None = None
        """The listeners with TLS; None if there are none."""
        self._links: Links | None = None
        """How other nodes of the cluster are reached, where that is not plain."""
        self._sasl: SaslListeners | None = None
        self._first_users = first_users
        self.is_open = False
        """Whether others than this machine may read and write without a proof of who they are."""
        self.is_stopping = False

    @property
    def addresses(self) -> tuple[str, ...]:
        """HOST:PORT of every listener, with the port that was really bound."""
        return tuple(listener.address for listener, _ in self._sockets)

    # Start

    async def startup(self) -> None:
        """Get ready and accept connections. Raises `StartError`, after which nothing is left open."""
        try:
            await self._bind()
            self.is_open = check_open(self.config, [(at.name, to.getsockname()[0]) for at, to in self._sockets])
            if TLS_PROTOCOLS.intersection(self.config.protocols.values()):
                from eosin.network.tls.listeners import TlsListeners

                self.tls = TlsListeners(self.config, clock=self.clock)
            if self.config.has_secured_links:
                from eosin.cluster.links.link import open_links

                self._links = open_links(self.config, self.clock)
            await self._open()
            await self._listen()
            await self._begin_http()
            assert self._node is not None
            await self._node.unfence()
        except (OSError, UnreadableMetadata) as error:
            await self._abandon()
            from eosin.node.unusable_directory import cannot_use

            raise cannot_use(self.config.data_dir, error) from error
        except BaseException:
            await self._abandon()
            raise

    @property
    def has_certificates(self) -> bool:
        """Whether there is something for `reload` to read."""
        seen = self.observability is not None and self.observability.has_certificates
        return self.tls is not None or self._links is not None or seen

    def reload(self) -> None:
        """Read all certificates again, changed or not, while requests are served."""
        if self.tls is not None:
            self.tls.reload()
        if self._links is not None:
            self._background.once("the reload of certificates of links", partial(self._links.look, forced=True))
        if self.observability is not None and self.observability.has_certificates:
            look = partial(self.observability.look, forced=True)
            self._background.once("the reload of the HTTP listener's certificates", look)

    async def serve(self, stop: asyncio.Event) -> bool:
        """Start, wait for `stop`, shut down; whether the stop was clean."""
        await self.startup()
        lost = await self.stopped(stop)
        return await self.shutdown() and lost is None

    async def stopped(self, stop: asyncio.Event) -> str | None:
        """Wait for `stop`, or until this broker can be a member of its cluster no longer: the sentence that says
        why."""
        assert self._node is not None, "it has started"
        if not self.host.loop_watch.is_looking:
            self.host.loop_watch.begin(self._background)
        return await self._node.lost(stop)

    async def _bind(self) -> None:
        for listener in self.config.bound_listeners:
            self._sockets.append(await bound_socket(listener, self.config))
        if self.config.is_observed:
            from eosin.node.observability import observability_of

            self.observability = observability_of(self.config, self.clock, self._disk)
            if (http := self.observability.listener) is not None:
                self.observability.bound(*await bound_socket(http, self.config))
                # Port 0 is any free one: DescribeConfigs tells which, so that `eosin explain` finds it.
                self.config = replace(self.config, eosin_http_listener=self.observability.address)

    async def _open(self) -> None:
        """Open the logs, get the cluster's metadata, and assemble the parts on them."""
        self._share_descriptors(0)
        logs, part = await (self._join() if self.config.is_joined else self._run_alone())
        self._node = part
        config = await part.start()
        self.cluster = part.cluster
        self.services, self.host = assemble(config, part, logs, self._outside())
        if self.observability is not None:
            self.observability.begin(self.cluster, self._background)
        await self._expect_users(part)
        self._schedule(logs, part)
        await self._begin_loading()

    async def _opened_logs(self, config: BrokerConfig) -> LogManager:
        self._log_manager = open_logs(
            config, clock=self.clock, chance=self.chance, disk=self._disk, flusher=self._flusher
        )
        await self._log_manager.open()
        return self._log_manager

    async def _run_alone(self) -> tuple[LogManager, ClusterPart]:
        """Get ready to be a cluster of one broker."""
        from eosin.node.alone_node import AloneNode

        logs = await self._opened_logs(self.config)
        return logs, AloneNode(
            self.config, listeners=self._advertised(), logs=logs, clock=self.clock, chance=self.chance
        )

    async def _join(self) -> tuple[LogManager, ClusterPart]:
        """Get ready to become a broker of the controllers' cluster."""
        from eosin.cluster.membership.cluster_id import with_cluster_id
        from eosin.cluster.peers.links import PLAIN_LINKS
        from eosin.node.joined_node import JoinedNode

        found = await with_cluster_id(self.config, disk=self._disk, clock=self.clock, links=self._links)
        logs = await self._opened_logs(found)
        return logs, JoinedNode(
            self.config,
            listeners=[told_to_others(each) for each in self._advertised()],
            logs=logs,
            clock=self.clock,
            chance=self.chance,
            links=self._links or PLAIN_LINKS,
        )

    def _outside(self) -> Outside:
        return Outside(
            clock=self.clock,
            chance=self.chance,
            hooks=self._hooks,
            markers=self._markers,
            watchers=Watchers() if self.observability is None else self.observability.watchers,
            reload_stores=None if self.tls is None else self.tls.reload_one,
            descriptors=self._descriptors,
            connections_changed=self._share_descriptors,
            loopback=[at.name for at, to in self._sockets if is_loopback(to.getsockname()[0])],
        )

    async def _expect_users(self, part: ClusterPart) -> None:
        """Store the first users, and get ready to ask for their passwords."""
        if self._first_users:
            from eosin.broker.security.first_users import add_first_users

            await add_first_users(self.cluster, self._first_users)
        if SASL_PROTOCOLS.intersection(self.config.protocols.values()):
            from eosin.node.secured_listeners import open_sasl

            self._sasl = await open_sasl(
                self.config, self.host, self.cluster, self.chance, keeps_users=part.keeps_metadata
            )

    def _share_descriptors(self, connections: int) -> None:
        """Let segments have the descriptors that so many connections leave."""
        if self._descriptors is not None:
            self._disk.open_files.limit_to(self._descriptors.files_beside(connections))

    async def _begin_loading(self) -> None:
        """Let the coordinators read their logs. Short loading ends before the broker listens; long loading goes on
        while requests come in, which get COORDINATOR_LOAD_IN_PROGRESS (transactions.md 8.2, groups.md 13)."""
        self._loading = asyncio.get_running_loop().create_task(self._load())
        if self.observability is not None:
            self._loading.add_done_callback(self.observability.loaded)
        await asyncio.wait((self._loading,), timeout=LOAD_BEFORE_LISTENING_MS / 1000)
        if self._loading.done():
            self._loading.result()
        else:
            loading = self._loading
            self._background.once("loading the coordinators", lambda: loading)

    async def _load(self) -> None:
        services, started_ms = self.services, self.clock.now_ms()
        await services.groups.load()
        services.groups.keep_topics(services.cluster.topics)
        await services.transactions.load()
        services.transactions.start()
        log.info("the coordinators are loaded", extra=fields(took_ms=self.clock.now_ms() - started_ms))

    async def _stop_loading(self) -> None:
        if self._loading is not None and not self._loading.done():
            self._loading.cancel()
            await asyncio.wait((self._loading,))

    def _unless_loading(self, run: Work) -> Awaitable[object] | object:
        """Do some work, but not while the coordinators read their logs: they share the one event loop."""
        return run() if self._loading is None or self._loading.done() else None

    def _advertised(self) -> tuple[Listener, ...]:
        """Each listener as clients are told it."""
        told = {listener.name: listener for listener in self.config.told_listeners}
        return tuple(told.get(bound.name, bound) for bound, _ in self._sockets)

    def _schedule(self, logs: LogManager, part: ClusterPart) -> None:
        part.schedule(self._background, self.host.loop_watch)
        for work in logs.periodic_work():
            run = partial(self._unless_loading, work.run) if work.can_wait else work.run
            self._background.every(work.interval_ms, work.name, run)
        healing = HangingTransactions(self.services)
        self._background.every(ROUND_INTERVAL_MS, "the search for hanging transactions", healing.round)
        self._background.every(REPORT_INTERVAL_MS, "the report of refused clients", self._report_refusals)
        ConnectionWatch(self.host, self.config).begin(self._background)
        limits = self.services.new_producers
        assert limits is not None
        count = partial(self._unless_loading, lambda: limits.look(logs.logs.values()))
        self._background.every(LOOK_INTERVAL_MS, "the count of producers", count)
        if self.tls is not None:
            self.tls.watch(self._background, interval_ms=self.config.eosin_ssl_reload_interval_ms)
        seen, interval_ms = self.observability, self.config.eosin_ssl_reload_interval_ms
        if seen is not None and seen.has_certificates and interval_ms > 0:
            self._background.every(interval_ms, "the look for changed certificates of HTTP", seen.look)

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        backlog = self.config.socket_listen_backlog_size
        secured: Mapping[str, Callable[[UnauthenticatedPeer], asyncio.BaseProtocol]] = {}
        unauthenticated_peers: Mapping[str, UnauthenticatedPeers] = {}
        if self.tls is not None or self._sasl is not None:
            from eosin.node.secured_listeners import secured_connections

            secured, unauthenticated_peers = secured_connections(
                self.config, self.host, self.chance, self.tls, self._sasl, loop
            )
        for listener, bound in self._sockets:
            try:
                bound.listen(backlog)
            except OSError as error:  # somebody else bound the address at the same time, and was first here
                raise cannot_listen(listener, error) from error
            layer = secured.get(listener.name)
            if layer is None:
                acceptor = Acceptor(bound, self._factory(listener, loop), self.host, listener.name)
            else:
                acceptor = Acceptor(bound, layer, self.host, listener.name, unauthenticated_peers[listener.name])
            self._listening.append(acceptor)
        most = longest_backlog()
        if most is not None and most < backlog:
            log.info(
                "the kernel holds at most %d connections that wait to be accepted, not the %d of"
                " socket.listen.backlog.size: raise net.core.somaxconn if many clients connect at once",
                most,
                backlog,
            )

    async def _begin_http(self) -> None:
        if self.observability is not None:
            await self.observability.start(
                self.services,
                self.host,
                self._background,
                is_loading=lambda: self._loading is None or not self._loading.done(),
                is_stopping=lambda: self.is_stopping,
            )

    def _factory(self, listener: Listener, loop: asyncio.AbstractEventLoop) -> Callable[[], Connection]:
        host = self.host
        return lambda: Connection(host, listener.name, loop)

    async def _abandon(self) -> None:
        """Close everything after a failed start."""
        for acceptor in self._listening:
            await acceptor.close()
        for _, bound in self._sockets:
            bound.close()
        if self.observability is not None:
            await self.observability.stop()
        await self._stop_loading()
        await self._background.stop()
        if self._node is not None:
            await self._node.close()
        if self._log_manager is not None:
            await self._log_manager.close(clean=False)

    # While it runs

    def _report_refusals(self) -> None:
        self.host.refusals.report()
        self._share_descriptors(len(self.host.connections) + self.host.arriving)

    # Stop

    async def shutdown(self) -> bool:
        """Stop in order. Returns whether every request got its response in time and every log closed cleanly."""
        assert not self.is_stopping, "shutdown happens once"
        self.is_stopping = True
        assert self._node is not None, "it has started"
        await self._node.leave()
        services, host = self.services, self.host
        for acceptor in self._listening:
            await acceptor.close()
        for connection in list(host.connections):
            connection.stop_beginning()
            connection.end_if_gone()
        services.large_batches.stop()
        for _, held in services.partitions.hosted():
            services.partitions.long_polls.interrupt(held)
        await self._stop_loading()
        limit_ms = self.config.eosin_shutdown_timeout_ms
        await self._finish_requests(limit_ms, waiting_for_others=False)
        await services.transactions.stop()
        await services.groups.stop()
        finished = await self._finish_requests(limit_ms, waiting_for_others=True)
        await self._close_connections()
        if self._sasl is not None:
            self._sasl.close()
        if self.observability is not None:
            await self.observability.stop()
        await self._background.stop()
        await self._node.close()
        assert self._log_manager is not None
        try:
            await self._log_manager.close(clean=True)
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
        for _ in range(_DRAIN_MS // 10):
            if not self.host.connections:
                return
            await asyncio.sleep(0.01)
        for connection in list(self.host.connections):
            connection.abort()
        await asyncio.sleep(0)


def _descriptors_of(config: BrokerConfig) -> DescriptorBudget | None:
    limit = descriptor_limit()
    return None if limit is None else budget_of(max(limit, LEAST_LIMIT), listeners=len(config.listeners))
