"""`assemble`: makes one broker of its parts, in the order in which they depend on each other. What differs between a
broker that runs alone and one of several machines is behind `ClusterPart` (`AloneNode`, `JoinedNode`).

Always true: each object is whole when it is made. One thing stands in a circle and is set once, here: markers need the
group coordinator, which needs the transaction coordinator, which needs markers. Nothing is awaited, so no change of the
cluster falls between a part and its subscription.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from eosin.broker.fetching.sessions import FetchSessions
from eosin.broker.handlers.registry import BY_KEY
from eosin.broker.markers import LocalMarkers, MarkerRoutes
from eosin.broker.partitions import LedLogs, Partitions
from eosin.broker.security.group_shares import group_shares_of
from eosin.broker.services import Services
from eosin.broker.share_states import ShareStates
from eosin.broker.sharing.sharing import Sharing
from eosin.broker.transactions.verification import TransactionVerification
from eosin.cluster.metadata.group_configs import consumer_configs, share_configs, streams_configs
from eosin.cluster.metadata.responses import MetadataResponses
from eosin.coordinator.groups.coordinator import GroupCoordinator
from eosin.coordinator.groups.share.ports import ShareSurroundings
from eosin.coordinator.transactions.coordinator import TransactionCoordinator
from eosin.model.cluster import ClusterListener, Topic
from eosin.model.features import TRANSACTION_VERSION
from eosin.network.host import ConnectionHost
from eosin.network.quotas.switch import QuotaSwitch
from eosin.network.request_hooks import HookChain, RequestHooks, SlowRequestLog
from eosin.network.response_memory import ResponseMemory
from eosin.node.descriptors import SMALL_LIMIT, DescriptorBudget
from eosin.node.memory_limit import frame_memory_of
from eosin.protocol.wire.frames import SpareBuffers
from eosin.runtime.chance import Chance
from eosin.runtime.clock import Clock
from eosin.security.session import EVERYBODY_MAY, Authorizer
from eosin.settings.broker import BrokerConfig
from eosin.settings.coordinators import group_config, transaction_config
from eosin.settings.settings import INT_MAX

if TYPE_CHECKING:
    from eosin.broker.config.store_reloads import ReloadStores
    from eosin.broker.markers import OtherBrokers
    from eosin.broker.partitions import BrokerReplicas
    from eosin.broker.services import HighWatermarks
    from eosin.broker.share_states import StateRoutes
    from eosin.broker.traffic_stats import TrafficStats
    from eosin.cluster.replication.led_partitions import LedPartitions
    from eosin.coordinator.groups.ports import GroupObserver
    from eosin.coordinator.groups.rules.config import ShareConfigOf
    from eosin.coordinator.ports import CoordinatorLog
    from eosin.coordinator.share_states import ShareStateStore
    from eosin.coordinator.transactions.ports import MarkerTargets, TransactionObserver, TransactionVerifier
    from eosin.model.acl_entries import AclEntries
    from eosin.model.cluster import Cluster
    from eosin.network.api import Api
    from eosin.network.limits import ConnectionLimits
    from eosin.network.request_stats import RequestStats
    from eosin.protocol.errors import ErrorCode
    from eosin.protocol.names import TopicPartition
    from eosin.runtime.background import Background
    from eosin.runtime.loop_watch import LoopWatch
    from eosin.storage.log.partition_log import PartitionLog
    from eosin.storage.manager import LogManager

log = logging.getLogger(__name__)


def _itself(log: "PartitionLog") -> "CoordinatorLog":
    return log


class Replication(NamedTuple):
    """The replicas of one broker, and what depends on those of others."""

    replicas: "BrokerReplicas"
    leader_epoch: "Callable[[TopicPartition], int]"
    led: "LedPartitions | None" = None
    """The partitions that followers and acks=all depend on; None if nobody follows."""
    guard: "Callable[[PartitionLog], CoordinatorLog]" = _itself
    """Returns the log that a coordinator writes to instead of the partition's."""
    has_enough_in_sync: "Callable[[PartitionLog], bool] | None" = None
    """True for a partition that may take what all replicas in sync are to have: markers, dead letters; None for all."""
    high_watermarks_elsewhere: "HighWatermarks | None" = None
    """Tells how far partitions that other brokers lead are committed; None where there are no others."""
    append_elsewhere: "Callable[[TopicPartition, bytes], Awaitable[ErrorCode]] | None" = None
    """Writes a batch of this broker's own to a partition that another broker leads; None where there are no others."""


class ClusterPart(Protocol):
    """The part of one broker in its cluster, whose metadata are known."""

    @property
    def config(self) -> BrokerConfig:
        """The settings with what the metadata decide."""

    @property
    def logs(self) -> "LogManager":
        """The logs on this broker's disk."""

    @property
    def led_logs(self) -> LedLogs:
        """The logs that requests find."""

    @property
    def replication(self) -> Replication:
        """The replicas, which hand out what they lead in `led_logs`. Nothing is opened before `begin`."""

    @property
    def cluster(self) -> "Cluster":
        """The metadata that this broker shows."""

    @property
    def other_brokers(self) -> "OtherBrokers":
        """The route of markers to other brokers' partitions."""

    @property
    def confirms_responses(self) -> bool:
        """True if another broker may become a coordinator without this broker's hearing of it."""

    @property
    def keeps_metadata(self) -> bool:
        """True if this broker decides about changes of the metadata, and no controller does."""

    @property
    def unguarded(self) -> Collection[int]:
        """The APIs whose rights others check."""

    @property
    def decode_request(self) -> Callable[..., Any]:
        """See `ConnectionHost.decode_request`."""

    def verifier(self, transactions: "TransactionVerifier") -> "TransactionVerifier":
        """The verifier that knows of all transactions in the cluster, where `transactions` coordinates this
        broker's."""

    @property
    def state_routes(self) -> "StateRoutes | None":
        """The way to the states of share partitions; None where this broker keeps all of them."""

    def apis(self, apis: "Mapping[int, Api]") -> "Mapping[int, Api]":
        """These APIs as this broker serves them."""

    def begin(self, services: Services) -> None:
        """Open the logs, and subscribe whoever follows the cluster, in one step. Raises OSError."""

    def schedule(self, background: "Background", watch: "LoopWatch") -> None:
        """Begin what is done again and again, the watch of the event loop too where heartbeats depend on it."""

    async def unfence(self) -> None:
        """Everything is set up: lead, and be seen by clients. Raises StartError."""

    async def lost(self, stop: asyncio.Event) -> str | None:
        """Wait for `stop`, or for the end of the membership: the sentence that says why."""

    async def leave(self) -> None:
        """Let others take over, as far as there are any."""

    async def close(self) -> None:
        """Send nothing more."""


class OffsetsFollowTopics(ClusterListener):
    """Forgets the committed offsets of deleted topics."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def topic_deleted(self, topic: Topic) -> None:
        """Drop its offsets, so that a new topic of the same name starts without any."""
        self._groups.topic_deleted(topic.name)


class Watchers(NamedTuple):
    """The observers of the parts; None for an observer that is not wanted."""

    recorder: "TransactionObserver | None" = None
    group_recorder: "GroupObserver | None" = None
    requests: "RequestStats | None" = None
    traffic: "TrafficStats | None" = None
    verified: "Callable[[ErrorCode, int], None] | None" = None
    flushed: "Callable[[int], None] | None" = None
    """Told how long each flush takes (ns)."""
    made_durable: "Callable[[int], None] | None" = None
    """Told the bytes of each."""


class Outside(NamedTuple):
    """The objects that the assembly is given from outside."""

    clock: Clock
    chance: Chance
    session_clock: Clock
    """Members of groups are waited for on it."""
    wire_clock: Clock
    """Requests and connections wait on it."""
    hooks: RequestHooks | None = None
    share_states: "ShareStateStore | None" = None
    """The states of share partitions, in place of this broker's share coordinator."""
    markers: "Callable[[MarkerTargets], MarkerTargets] | None" = None
    """Stands between the transaction coordinator and the leaders of partitions."""
    watchers: Watchers = Watchers()
    reload_stores: "ReloadStores | None" = None
    """Loads the key store and the trust store of a listener again; None without TLS."""
    descriptors: DescriptorBudget | None = None
    connections_changed: Callable[[int], None] = lambda _: None
    loopback: Collection[str] = ()
    """The names of listeners that only this machine reaches."""


class Parts(NamedTuple):
    """One broker."""

    services: Services
    host: ConnectionHost


def assemble(part: ClusterPart, outside: Outside) -> Parts:
    """The parts of a broker whose cluster is known and whose logs are open. Raises OSError."""
    clock, wire_clock, chance, watchers = outside.clock, outside.wire_clock, outside.chance, outside.watchers
    config, cluster, held = part.config, part.cluster, part.replication
    partitions = _partitions(part, wire_clock)
    markers = LocalMarkers(partitions, clock=clock, has_enough_in_sync=held.has_enough_in_sync)
    routes: MarkerTargets = MarkerRoutes(cluster, local=markers, others=part.other_brokers)
    transactions = TransactionCoordinator(
        logs=partitions.transaction_state_logs,
        markers=routes if outside.markers is None else outside.markers(routes),
        producer_ids=cluster,
        clock=clock,
        config=transaction_config(config, transaction_version=cluster.features.level(TRANSACTION_VERSION)),
        chance=chance,
        observer=watchers.recorder,
        confirms_responses=part.confirms_responses,
        wire_clock=wire_clock,
    )
    verifier = part.verifier(transactions)
    share_states = _share_states(part, outside, partitions)
    states = outside.share_states or share_states
    share_config_of = share_configs(cluster, config).of
    groups = GroupCoordinator(
        logs=partitions.consumer_offsets_logs,
        verifier=verifier,
        clock=clock,
        chance=chance,
        config=group_config(config),
        observer=watchers.group_recorder,
        confirms_responses=part.confirms_responses,
        session_clock=outside.session_clock,
        wire_clock=wire_clock,
        topics=cluster,
        consumer_config_of=consumer_configs(cluster, config).of,
        share=ShareSurroundings(states, share_config_of),
        streams_config_of=streams_configs(cluster, config).of,
    )
    markers.bind(groups)
    acls = cluster.acl_entries(clock) if config.has_authorizer else None
    services = Services(
        config=config,
        clock=clock,
        chance=chance,
        cluster=cluster,
        partitions=partitions,
        markers=markers,
        verification=TransactionVerification(verifier, clock=wire_clock, config=config, watch=watchers.verified),
        fetch_sessions=_fetch_sessions(config, wire_clock, chance),
        transactions=transactions,
        groups=groups,
        metadata_responses=MetadataResponses(cluster, clock, limit_bytes=config.eosin_metadata_answers_max_bytes),
        share_states=share_states,
        sharing=_sharing(part, partitions, states, share_config_of, outside.session_clock),
        response_memory=ResponseMemory(config.eosin_fetch_response_memory_bytes),
        recorder=watchers.recorder,
        traffic=watchers.traffic,
        led_partitions=held.led,
        high_watermarks_elsewhere=held.high_watermarks_elsewhere,
        authorizer=EVERYBODY_MAY if acls is None else _authorizer(config, acls, clock),
        group_shares=group_shares_of(config, clock, groups),
        acls=acls,
        reload_stores=outside.reload_stores,
        given_wire_clock=wire_clock,
    )
    host = _host(services, part, outside)
    QuotaSwitch(host, config, cluster, services.fetch_sessions, cluster if part.keeps_metadata else None)
    part.begin(services)
    return Parts(services, host)


def _share_states(part: ClusterPart, outside: Outside, partitions: Partitions) -> ShareStates:
    return ShareStates(
        cluster=part.cluster,
        partitions=partitions,
        clock=outside.clock,
        chance=outside.chance,
        config=part.config,
        wire_clock=outside.wire_clock,
        routes=part.state_routes,
    )


def _partitions(part: ClusterPart, clock: Clock) -> Partitions:
    held = part.replication
    return Partitions(
        cluster=part.cluster,
        led_logs=part.led_logs,
        replicas=held.replicas,
        log_manager=part.logs,
        clock=clock,
        config=part.config,
        leader_epoch=held.leader_epoch,
        guard=held.guard,
    )


def _sharing(
    part: ClusterPart, partitions: Partitions, states: "ShareStateStore", config_of: "ShareConfigOf", clock: Clock
) -> Sharing:
    return Sharing(
        cluster=part.cluster,
        log_of=partitions.get,
        long_polls=partitions.long_polls,
        store=states,
        config_of=config_of,
        clock=clock,
        config=part.config,
        append_elsewhere=part.replication.append_elsewhere,
        has_enough_in_sync=part.replication.has_enough_in_sync,
    )


def _fetch_sessions(config: BrokerConfig, clock: Clock, chance: Chance) -> FetchSessions:
    return FetchSessions(slots=config.max_incremental_fetch_session_cache_slots, clock=clock, chance=chance)


def _authorizer(config: BrokerConfig, acls: "AclEntries", clock: Clock) -> Authorizer:
    from eosin.broker.security.authorization import authorizer_of

    return authorizer_of(config, acls, clock)


def _host(services: Services, part: ClusterPart, outside: Outside) -> ConnectionHost:
    config, clock, apis = services.config, services.wire_clock, part.apis(BY_KEY)
    if services.authorizer is not EVERYBODY_MAY:
        from eosin.network.guarded import guarded

        apis = guarded(apis, but=part.unguarded)
    max_connections, why_full = _connections(config, outside.descriptors)
    return ConnectionHost(
        services=services,
        clock=clock,
        apis=apis,
        decode_request=part.decode_request,
        max_frame_bytes=config.socket_request_max_bytes,
        max_control_bytes=config.eosin_control_request_max_bytes,
        max_in_flight=config.eosin_connection_max_in_flight_requests,
        max_frames_per_turn=config.eosin_connection_max_frames_per_turn,
        write_buffer_bytes=config.eosin_connection_write_buffer_max_bytes,
        max_connections=max_connections,
        why_full=why_full,
        limits=_limits(config, outside),
        connections_changed=outside.connections_changed,
        refused_delay_ms=config.eosin_connection_refused_delay_ms,
        max_refused=min(config.eosin_connection_max_refused, max_connections // 4),
        spare_buffers=SpareBuffers(memory=frame_memory_of(config, asyncio.get_running_loop(), clock)),
        hooks=_hooks(config, outside.hooks),
        stats=outside.watchers.requests,
        authorizer=services.authorizer,
        response_memory=services.response_memory,
    )


def _hooks(config: BrokerConfig, given: RequestHooks | None) -> RequestHooks | None:
    if config.eosin_slow_request_log_ms <= 0:
        return given
    slow = SlowRequestLog(from_ms=config.eosin_slow_request_log_ms)
    return slow if given is None else HookChain((given, slow))


def _connections(config: BrokerConfig, descriptors: DescriptorBudget | None) -> tuple[int, str]:
    """The largest number of connections, and the name of its limit."""
    if descriptors is None or descriptors.max_connections >= config.max_connections:
        return config.max_connections, f"max.connections is {config.max_connections}"
    max_connections = descriptors.max_connections
    limit = f"the limit of {descriptors.limit} open files leaves room for {max_connections} connections"
    why_full = f"{limit}: raise it (ulimit -n)"
    if descriptors.limit < SMALL_LIMIT:
        _warn_once(why_full)
    return max_connections, why_full


@cache
def _warn_once(sentence: str) -> None:
    """Warn of what is true of the whole process, which may start a broker for each of its tests."""
    log.warning(sentence)


def _limits(config: BrokerConfig, outside: Outside) -> "ConnectionLimits | None":
    if not config.limits_connections:
        return None
    from eosin.network.limits import ConnectionLimits, limits_of

    return ConnectionLimits(
        limits_of(config, outside.loopback),
        possible=INT_MAX if outside.descriptors is None else outside.descriptors.max_connections,
        window_num=config.quota_window_num,
        sample_ms=config.quota_window_size_seconds * 1000,
    )
