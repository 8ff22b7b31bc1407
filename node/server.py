"""`Server`: one broker from start to stop.

The start builds the rooms from the disk up and listens last; only coordinators with much to read go on loading while
requests come in. The stop goes the other way: no new requests, a limited time for running ones, then the coordinators
stop, and the logs are flushed and closed. Ports are bound before anything else, so a broker that no client could reach
never touches its data.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from eosin.broker.fetching.sessions import FetchSessions
from eosin.broker.handlers.registry import BY_KEY
from eosin.broker.hanging_transactions import ROUND_INTERVAL_MS, HangingTransactions
from eosin.broker.partitions import Partitions
from eosin.broker.security.new_producers import LOOK_INTERVAL_MS
from eosin.broker.security.open_listeners import check_open, is_loopback
from eosin.broker.services import Services, limit_users
from eosin.cluster.metadata.answers import MetadataAnswers
from eosin.cluster.metadata.embedded_cluster import EmbeddedCluster
from eosin.cluster.metadata.log import UnreadableMetadata
from eosin.cluster.opened_logs import open_logs
from eosin.coordinator.groups.coordinator import GroupCoordinator
from eosin.coordinator.transactions.coordinator import TransactionCoordinator
from eosin.model.cluster import Cluster, ClusterListener, Topic
from eosin.network.acceptor import Acceptor, longest_backlog
from eosin.network.connection import Connection
from eosin.network.host import ConnectionHost
from eosin.network.quotas.switch import QuotaSwitch
from eosin.network.refusal_log import REPORT_INTERVAL_MS
from eosin.network.request_hooks import HookChain, RequestHooks, SlowRequestLog
from eosin.network.response_memory import ResponseMemory
from eosin.network.watch import ConnectionWatch
from eosin.node.descriptors import LEAST_LIMIT, SMALL_LIMIT, DescriptorBudget, budget_of, descriptor_limit
from eosin.node.memory_limit import frame_memory_of
from eosin.node.unusable_directory import cannot_use
from eosin.protocol.keys import ApiKey
from eosin.protocol.wire.frames import SpareBuffers
from eosin.runtime.background import Background, Work
from eosin.runtime.chance import Chance, SystemChance
from eosin.runtime.clock import Clock, SystemClock
from eosin.runtime.logging_format import fields
from eosin.settings.broker import BrokerConfig
from eosin.settings.coordinators import group_config, transaction_config
from eosin.settings.listeners import SASL_PROTOCOLS, TLS_PROTOCOLS, Listener
from eosin.settings.settings import INT_MAX
from eosin.settings.start_error import cannot_listen
from eosin.storage.disk.flusher import Flusher
from eosin.storage.disk.interfaces import Disk
from eosin.storage.disk.memory import MemoryDisk
from eosin.storage.disk.system import SystemDisk
from eosin.storage.manager import LogManager

if TYPE_CHECKING:
    from eosin.broker.security.first_users import FirstUser
    from eosin.cluster.peers.links import Links
    from eosin.network.sasl.listeners import SaslListeners
    from eosin.network.tls.listeners import TlsListeners
    from eosin.network.unauthenticated_peers import UnauthenticatedPeer, UnauthenticatedPeers
    from eosin.node.joined_node import JoinedNode
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
        hooks: RequestHooks | None = None,
        first_users: "Sequence[FirstUser]" = (),
    ) -> None:
        """`disk` and `flusher` are those that `eosin.durability` asks for unless given; `first_users` are stored where
        there are none."""
        self.config = config
        self.clock = clock or SystemClock()
        self.chance = chance or SystemChance()
        is_volatile = config.data_dir is None
        self._disk = disk or (MemoryDisk(has_threads=True) if is_volatile else SystemDisk())
        self._descriptors = _descriptors_of(config)
        self._flusher = flusher
        self._hooks = _hooks(config, hooks)
        self._background = Background(self.clock)
        self._sockets: list[tuple[Listener, socket.socket]] = []
        self._listening: list[Acceptor] = []
        self._log_manager: LogManager | None = None
        self._node: JoinedNode | None = None
        """What makes this broker one of several; None for a broker that runs alone."""
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
            if self._node is not None:
                await self._node.unfence()
        except (OSError, UnreadableMetadata) as error:
            await self._abandon()
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
        if self._node is None:
            self.host.loop_watch.begin(self._background)
            await stop.wait()
            return None
        return await self._node.lost(stop)

    async def _bind(self) -> None:
        for listener in self.config.bound_listeners:
            self._sockets.append(await self._bound(listener))
        if self.config.is_observed:
            from eosin.node.observability import observability_of

            self.observability = observability_of(self.config, self.clock)
            if (http := self.observability.listener) is not None:
                self.observability.bound(*await self._bound(http))
                # Port 0 is any free one: DescribeConfigs tells which, so that `eosin explain` finds it.
                self.config = replace(self.config, eosin_http_listener=self.observability.address)

    async def _bound(self, listener: Listener) -> tuple[Listener, socket.socket]:
        """A socket bound to the listener's address, and the listener with the port it got. Raises `StartError`."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(
                listener.host or "0.0.0.0", listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
        except socket.gaierror as error:
            raise cannot_listen(listener, error) from error
        # One socket per listener, and IPv4 first: clients resolve a name with addresses of both kinds likewise.
        family, kind, protocol, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setblocking(False)
            self._set_options(bound)
            if os.name == "posix":
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
        except OSError as error:
            bound.close()
            raise cannot_listen(listener, error) from error
        return Listener(listener.name, listener.host, bound.getsockname()[1]), bound

    def _set_options(self, bound: socket.socket) -> None:
        """Connections inherit the options of the socket that accepts them. With keepalive, as in Kafka, the system
        finds silent clients that are gone: the Fetch of such a client would wait for ever."""
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sizes = (
            (socket.SO_SNDBUF, self.config.socket_send_buffer_bytes),
            (socket.SO_RCVBUF, self.config.socket_receive_buffer_bytes),
        )
        for option, size in sizes:
            if size > 0:
                bound.setsockopt(socket.SOL_SOCKET, option, size)

    async def _open(self) -> None:
        """Build the rooms, each on the one before."""
        config, clock, chance = self.config, self.clock, self.chance
        self._share_descriptors(0)
        if config.is_joined:
            from eosin.cluster.membership.cluster_id import with_cluster_id

            config = await with_cluster_id(config, disk=self._disk, clock=clock, links=self._links)
        logs = self._log_manager = open_logs(config, clock=clock, chance=chance, disk=self._disk, flusher=self._flusher)
        await logs.open()
        if config.is_joined:
            cluster, config = await self._join(logs)
        else:
            cluster = await self._cluster_of_its_own(logs)
        self.cluster = cluster
        partitions = Partitions(cluster=cluster, log_manager=logs, clock=clock, config=config)
        transactions = TransactionCoordinator(
            logs=partitions.transaction_state_logs,
            markers=partitions.marker_routes,
            producer_ids=cluster,
            clock=clock,
            config=transaction_config(config),
            chance=chance,
        )
        groups = GroupCoordinator(
            logs=partitions.consumer_offsets_logs,
            verifier=transactions,
            clock=clock,
            chance=chance,
            config=group_config(config),
        )
        partitions.bind(groups=groups, transactions=transactions)
        if self._node is not None:
            self._node.hold_replicas(partitions)
        partitions.open()
        self.services = Services(
            config=config,
            clock=clock,
            chance=chance,
            cluster=cluster,
            partitions=partitions,
            fetch_sessions=FetchSessions(
                slots=config.max_incremental_fetch_session_cache_slots, clock=clock, chance=chance
            ),
            transactions=transactions,
            groups=groups,
            metadata_answers=MetadataAnswers(cluster, clock, limit_bytes=config.eosin_metadata_answers_max_bytes),
            response_memory=ResponseMemory(config.eosin_fetch_response_memory_bytes),
        )
        if self.observability is not None:
            self.observability.observe(self.services, self._disk, self._background)
        if config.has_authorizer:
            from eosin.broker.security.authorization import authorizer_of

            self.services.acls = cluster.acl_entries(clock)
            self.services.authorizer = authorizer_of(config, self.services.acls, clock)
        self.host = _host(self.services, self._hooks, self._descriptors, self._share_descriptors)
        QuotaSwitch(self.host, config, cluster, self.services.fetch_sessions)
        await self._expect_users(cluster)
        if self._node is not None:
            self._node.serve(self.services, self.host, self._background)
        if self.services.authorizer is not None:
            from eosin.broker.joined.forwarding import FORWARDED
            from eosin.network.guarded import guarded

            self.host.apis = guarded(self.host.apis, but=FORWARDED if config.is_joined else ())
        cluster.subscribe(_OffsetsFollowTopics(groups))
        cluster.subscribe(self.services.metadata_answers)
        self._schedule(logs)
        await self._begin_loading()

    def _limit_connections(self, config: BrokerConfig) -> None:
        if not config.limits_connections:
            return
        from eosin.network.limits import ConnectionLimits, limits_of

        loopback = [at.name for at, to in self._sockets if is_loopback(to.getsockname()[0])]
        self.host.limits = ConnectionLimits(
            limits_of(config, loopback),
            possible=INT_MAX if self._descriptors is None else self._descriptors.max_connections,
            window_num=config.quota_window_num,
            sample_ms=config.quota_window_size_seconds * 1000,
        )

    async def _expect_users(self, cluster: Cluster) -> None:
        """Store the first users, and get ready to ask for their passwords."""
        if self._first_users:
            from eosin.broker.security.first_users import add_first_users

            await add_first_users(cluster, self._first_users)
        if SASL_PROTOCOLS.intersection(self.config.protocols.values()):
            from eosin.node.secured_listeners import open_sasl

            self._sasl = await open_sasl(self.config, self.host, self.services.cluster, self.services.chance)

    async def _cluster_of_its_own(self, logs: LogManager) -> Cluster:
        cluster = EmbeddedCluster(config=self.config, log_manager=logs, clock=self.clock, chance=self.chance)
        for listener in self._advertised():
            cluster.advertise(listener.name, listener.host, listener.port)
        await cluster.start()
        return cluster

    async def _join(self, logs: LogManager) -> tuple[Cluster, BrokerConfig]:
        """Become a broker of the controllers' cluster, fenced until all is set up; its metadata, and the settings that
        they decide."""
        from eosin.cluster.peers.links import PLAIN_LINKS
        from eosin.node.joined_node import JoinedNode

        # Other machines cannot dial "every address of this machine".
        listeners = [
            Listener(each.name, socket.getfqdn(), each.port) if each.is_wildcard else each
            for each in self._advertised()
        ]
        node = self._node = JoinedNode(
            self.config,
            listeners=listeners,
            logs=logs,
            clock=self.clock,
            chance=self.chance,
            links=self._links or PLAIN_LINKS,
        )
        return await node.start()

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

    def _schedule(self, logs: LogManager) -> None:
        for work in logs.periodic_work():
            run = partial(self._unless_loading, work.run) if work.can_wait else work.run
            self._background.every(work.interval_ms, work.name, run)
        healing = HangingTransactions(self.services)
        self._background.every(ROUND_INTERVAL_MS, "the search for hanging transactions", healing.round)
        self._background.every(REPORT_INTERVAL_MS, "the report of refused clients", self._report_refusals)
        ConnectionWatch(self.host, self.config).begin(self._background)
        limits = limit_users(self.services)
        count = partial(self._unless_loading, lambda: limits.look(logs.logs.values()))
        self._background.every(LOOK_INTERVAL_MS, "the count of producers", count)
        if self.tls is not None:
            self.services.reload_stores = self.tls.reload_one
            self.tls.watch(self._background, interval_ms=self.config.eosin_ssl_reload_interval_ms)
        seen, interval_ms = self.observability, self.config.eosin_ssl_reload_interval_ms
        if seen is not None and seen.has_certificates and interval_ms > 0:
            self._background.every(interval_ms, "the look for changed certificates of HTTP", seen.look)

    async def _listen(self) -> None:
        self._limit_connections(self.config)
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
        if self._node is not None:
            await self._node.leave()
        services, host = self.services, self.host
        for acceptor in self._listening:
            await acceptor.close()
        for connection in list(host.connections):
            connection.stop_beginning()
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
        if self._node is not None:
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


class _OffsetsFollowTopics(ClusterListener):
    """Forgets the committed offsets of deleted topics."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def topic_deleted(self, topic: Topic) -> None:
        """Drop its offsets, so that a new topic of the same name starts without any."""
        self._groups.topic_deleted(topic.name)


def _descriptors_of(config: BrokerConfig) -> DescriptorBudget | None:
    limit = descriptor_limit()
    return None if limit is None else budget_of(max(limit, LEAST_LIMIT), listeners=len(config.listeners))


def _hooks(config: BrokerConfig, given: RequestHooks | None) -> RequestHooks | None:
    if config.eosin_slow_request_log_ms <= 0:
        return given
    slow = SlowRequestLog(from_ms=config.eosin_slow_request_log_ms)
    return slow if given is None else HookChain((given, slow))


def _host(
    services: Services,
    hooks: RequestHooks | None,
    descriptors: DescriptorBudget | None,
    connections_changed: Callable[[int], None],
) -> ConnectionHost:
    config = services.config
    max_connections, why_full = config.max_connections, f"max.connections is {config.max_connections}"
    if descriptors is not None and descriptors.max_connections < max_connections:
        max_connections = descriptors.max_connections
        limit = f"the limit of {descriptors.limit} open files leaves room for {max_connections} connections"
        why_full = f"{limit}: raise it (ulimit -n)"
        if descriptors.limit < SMALL_LIMIT:
            log.warning(why_full)
    return ConnectionHost(
        services=services,
        clock=services.clock,
        apis=BY_KEY,
        max_frame_bytes=config.socket_request_max_bytes,
        max_control_bytes=config.eosin_control_request_max_bytes,
        max_in_flight=config.eosin_connection_max_in_flight_requests,
        max_frames_per_turn=config.eosin_connection_max_frames_per_turn,
        write_buffer_bytes=config.eosin_connection_write_buffer_max_bytes,
        max_connections=max_connections,
        why_full=why_full,
        connections_changed=connections_changed,
        refused_delay_ms=config.eosin_connection_refused_delay_ms,
        max_refused=min(config.eosin_connection_max_refused, max_connections // 4),
        spare_buffers=SpareBuffers(memory=frame_memory_of(config, asyncio.get_running_loop(), services.clock)),
        hooks=hooks,
        authorizer=services.authorizer,
        response_memory=services.response_memory,
    )
