"""`Node`: one broker before its start, `Node.alone` or `Node.joined`.

`start` builds the rooms from the disk up and listens last; only coordinators with much to read go on loading while
requests come in. Ports are bound before anything else, so a broker that no client could reach never touches its data.
Always true: a start that fails, or is given up, closes what it has opened, the last first.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypedDict, Unpack

from eosin.broker.security.open_listeners import check_open, is_loopback
from eosin.cluster.metadata.log import UnreadableMetadata
from eosin.cluster.opened_logs import open_logs
from eosin.network.request_hooks import RequestHooks
from eosin.node.assembly import ClusterPart, Outside, Watchers, assemble
from eosin.node.descriptors import LEAST_LIMIT, DescriptorBudget, budget_of, descriptor_limit
from eosin.node.loading import Loading
from eosin.node.running import RunningNode, Secured
from eosin.node.sockets import BoundListener, Endpoints, Sockets
from eosin.runtime.background import Background
from eosin.runtime.chance import Chance, SystemChance
from eosin.runtime.clock import Clock, SystemClock
from eosin.settings.broker import BrokerConfig
from eosin.settings.listeners import SASL_PROTOCOLS, TLS_PROTOCOLS, Listener
from eosin.storage.disk.flusher import Flusher
from eosin.storage.disk.interfaces import Disk
from eosin.storage.disk.memory import MemoryDisk
from eosin.storage.disk.system import SystemDisk
from eosin.storage.manager import LogManager

if TYPE_CHECKING:
    from eosin.broker.security.first_users import FirstUser
    from eosin.cluster.peers.links import Links
    from eosin.coordinator.transactions.ports import MarkerTargets
    from eosin.network.host import ConnectionHost
    from eosin.network.sasl.listeners import SaslListeners
    from eosin.network.tls.listeners import TlsListeners
    from eosin.node.observability import MountedHttp, Observability
    from eosin.settings.first_topics import FirstTopic


class Given(TypedDict, total=False):
    """Parts that stand in for a broker's own: whoever stands one up may give any of these."""

    clock: Clock | None
    session_clock: Clock | None
    """Members of groups are waited for on it; by default `clock`."""
    wire_clock: Clock | None
    """Requests and connections wait on it; by default `clock`."""
    chance: Chance | None
    disk: Disk | None
    """By default the one that `eosin.durability` asks for."""
    flusher: Flusher | None
    """By default the one that `eosin.durability` asks for."""
    markers: "Callable[[MarkerTargets], MarkerTargets] | None"
    """Stands between the transaction coordinator and the leaders of partitions."""
    hooks: RequestHooks | None
    first_users: "Sequence[FirstUser]"
    """Stored where there are no users."""
    first_topics: "Sequence[FirstTopic]"
    """Made before anybody is served, where there are none of their names."""
    endpoints: Endpoints | None
    """By default sockets."""
    http: "MountedHttp | None"
    """Takes the paths of the HTTP listener if `eosin.http.listener` is not set."""


class Site(NamedTuple):
    """The surroundings in which a broker takes its part in a cluster."""

    config: BrokerConfig
    listeners: Sequence[Listener]
    """As clients are told them."""
    clock: Clock
    wire_clock: Clock
    chance: Chance
    disk: Disk
    links: "Links | None"
    """The secured way to other nodes; None where it is plain."""
    open_logs: Callable[[BrokerConfig], Awaitable[LogManager]]


class Node:
    """One broker that has not started. It starts once."""

    def __init__(
        self,
        config: BrokerConfig,
        take_part: Callable[[Site], Awaitable[ClusterPart]],
        **given: Unpack[Given],
    ) -> None:
        """See `alone` and `joined`."""
        self.config: Final = config
        self.clock: Final = given.get("clock") or SystemClock()
        self._session_clock: Final = given.get("session_clock") or self.clock
        self._wire_clock: Final = given.get("wire_clock") or self.clock
        self.chance: Final = given.get("chance") or SystemChance()
        own_disk = MemoryDisk(has_threads=True) if config.data_dir is None else SystemDisk()
        self._disk: Final = given.get("disk") or own_disk
        self._take_part: Final = take_part
        self._flusher: Final = given.get("flusher")
        self._markers: Final = given.get("markers")
        self._hooks: Final = given.get("hooks")
        self._first_users: Final = given.get("first_users", ())
        self._first_topics: Final = given.get("first_topics", ())
        self._endpoints: Final = given.get("endpoints") or Sockets(config)
        self._http: Final = given.get("http")
        self._descriptors: Final = _descriptors_of(config)

    @classmethod
    def alone(cls, config: BrokerConfig, **given: Unpack[Given]) -> Self:
        """A broker that is the whole of its cluster."""
        assert not config.is_joined, "its settings name controllers"
        return cls(config, _alone, **given)

    @classmethod
    def joined(cls, config: BrokerConfig, **given: Unpack[Given]) -> Self:
        """A broker of the cluster whose controllers `config` names."""
        assert config.is_joined, "its settings name no controllers"
        return cls(config, _joined, **given)

    @classmethod
    def of(cls, config: BrokerConfig, **given: Unpack[Given]) -> Self:
        """The broker that `config` describes: joined if it names controllers, else alone."""
        return cls.joined(config, **given) if config.is_joined else cls.alone(config, **given)

    async def start(self) -> RunningNode:
        """Get ready and accept connections. Raises `StartError`, after which nothing is left open."""
        opened = AsyncExitStack()
        try:
            return await self._start(opened)
        except GeneratorExit:  # the event loop is gone, and nobody is left to wait for anything
            raise
        except (OSError, UnreadableMetadata) as error:
            await opened.aclose()
            from eosin.node.unusable_directory import cannot_use

            raise cannot_use(self.config.data_dir, error) from error
        except BaseException:
            await opened.aclose()
            raise

    async def _start(self, opened: AsyncExitStack) -> RunningNode:
        """Open one part after the other. What has to be closed if a later one fails is put into `opened`."""
        opened.push_async_callback(self._endpoints.close)
        bound = await self._endpoints.bind()
        observability = await self._observability(opened)
        config = self.config if observability is None else observability.config
        is_open = check_open(config, [(each.listener.name, each.address) for each in bound])
        watchers = Watchers() if observability is None else observability.watchers
        tls = self._tls(config)
        links = self._links(config)
        self._share_descriptors(0)
        site = Site(
            config=config,
            listeners=_advertised(config, bound),
            clock=self.clock,
            wire_clock=self._wire_clock,
            chance=self.chance,
            disk=self._disk,
            links=links,
            open_logs=partial(self._opened_logs, opened, watchers),
        )
        part = await self._take_part(site)
        opened.push_async_callback(part.close)
        services, host = assemble(part, self._outside(bound, watchers, tls))
        background = Background(self.clock)
        opened.push_async_callback(background.stop)
        if observability is not None:
            opened.push_async_callback(observability.stop)
            observability.begin(services.cluster, background)
        secured = Secured(tls, await self._users(part, host), links)
        running = RunningNode(
            endpoints=self._endpoints,
            bound=bound,
            is_open=is_open,
            part=part,
            services=services,
            host=host,
            background=background,
            loading=Loading(services, () if observability is None else (observability.loaded,)),
            secured=secured,
            observability=observability,
        )
        running.schedule()
        opened.push_async_callback(running.loading.stop)
        await running.loading.begin(background)
        if self._first_topics:
            from eosin.node.first_topics import make_first_topics

            await make_first_topics(part.cluster, self._first_topics)
        opened.push_async_callback(self._endpoints.close)  # before anything that requests need
        self._endpoints.listen(running)
        if observability is not None:
            await observability.start(
                services,
                host,
                background,
                is_loading=lambda: not running.loading.is_done,
                is_stopping=lambda: running.is_stopping,
                advertise=running.advertise,
            )
        await part.unfence()
        return running

    async def _observability(self, opened: AsyncExitStack) -> "Observability | None":
        """The way for others to see into this broker, where that is asked for."""
        if not self.config.is_observed and self._http is None:
            return None
        from eosin.node.observability import open_observability

        observability = await open_observability(self.config, self.clock, self._disk, self._http)
        opened.callback(observability.close_socket)
        return observability

    def _tls(self, config: BrokerConfig) -> "TlsListeners | None":
        if not TLS_PROTOCOLS.intersection(config.protocols.values()):
            return None
        from eosin.network.tls.listeners import TlsListeners

        return TlsListeners(config, clock=self._wire_clock)

    def _links(self, config: BrokerConfig) -> "Links | None":
        if not config.has_secured_links:
            return None
        from eosin.cluster.links.link import open_links

        return open_links(config, self.clock)

    async def _opened_logs(self, opened: AsyncExitStack, watchers: Watchers, config: BrokerConfig) -> LogManager:
        logs = open_logs(
            config,
            clock=self.clock,
            wire_clock=self._wire_clock,
            chance=self.chance,
            disk=self._disk,
            flusher=self._flusher,
            flushed=watchers.flushed,
            made_durable=watchers.made_durable,
        )
        opened.push_async_callback(logs.close, clean=False)
        await logs.open()
        return logs

    def _outside(self, bound: Sequence[BoundListener], watchers: Watchers, tls: "TlsListeners | None") -> Outside:
        return Outside(
            clock=self.clock,
            chance=self.chance,
            session_clock=self._session_clock,
            wire_clock=self._wire_clock,
            hooks=self._hooks,
            markers=self._markers,
            watchers=watchers,
            reload_stores=None if tls is None else tls.reload_one,
            descriptors=self._descriptors,
            connections_changed=self._share_descriptors,
            loopback=[each.listener.name for each in bound if is_loopback(each.address)],
        )

    async def _users(self, part: ClusterPart, host: "ConnectionHost") -> "SaslListeners | None":
        """Store the first users, and get ready to ask for their passwords where listeners do."""
        if self._first_users:
            from eosin.broker.security.first_users import add_first_users

            await add_first_users(part.cluster, self._first_users)
        if not SASL_PROTOCOLS.intersection(part.config.protocols.values()):
            return None
        from eosin.node.secured_listeners import open_sasl

        return await open_sasl(part.config, host, part.cluster, self.chance, keeps_users=part.keeps_metadata)

    def _share_descriptors(self, connections: int) -> None:
        """Let segments have the descriptors that so many connections leave."""
        if self._descriptors is not None:
            self._disk.open_files.limit_to(self._descriptors.files_beside(connections))


async def _alone(site: Site) -> ClusterPart:
    """The part of a broker that is a cluster of its own."""
    from eosin.node.alone_node import AloneNode

    logs = await site.open_logs(site.config)
    return await AloneNode.started(
        site.config,
        listeners=site.listeners,
        logs=logs,
        clock=site.clock,
        wire_clock=site.wire_clock,
        chance=site.chance,
    )


async def _joined(site: Site) -> ClusterPart:
    """The part of a broker of the controllers' cluster. Raises StartError."""
    from eosin.cluster.membership.cluster_id import with_cluster_id
    from eosin.cluster.peers.links import PLAIN_LINKS
    from eosin.node.joined_node import JoinedNode
    from eosin.node.joining import Joining
    from eosin.node.sockets import announced_to_others

    found = await with_cluster_id(site.config, disk=site.disk, clock=site.clock, links=site.links)
    joining = Joining(
        site.config,
        listeners=[announced_to_others(each) for each in site.listeners],
        logs=await site.open_logs(found),
        clock=site.clock,
        chance=site.chance,
        links=site.links or PLAIN_LINKS,
    )
    try:
        return JoinedNode(await joining.start(), joining, site.chance)
    except GeneratorExit:
        raise
    except BaseException:
        await joining.close()
        raise


def _advertised(config: BrokerConfig, bound: Sequence[BoundListener]) -> tuple[Listener, ...]:
    """Each listener as clients are told it."""
    told = {listener.name: listener for listener in config.announced_listeners}
    return tuple(told.get(each.listener.name, each.listener) for each in bound)


def _descriptors_of(config: BrokerConfig) -> DescriptorBudget | None:
    limit = descriptor_limit()
    return None if limit is None else budget_of(max(limit, LEAST_LIMIT), listeners=len(config.listeners))
