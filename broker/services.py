"""`Services`: the owners of the broker's state, as handlers see them."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from eosin.broker.fetching.gone import GonePartitions
from eosin.broker.producing.large_batches import LargeBatches
from eosin.broker.security.new_producers import new_producers_of
from eosin.broker.streams_topics import StreamsTopics
from eosin.broker.transactions.coordinator_connections import CoordinatorConnections
from eosin.broker.transactions.newest_connections import NewestConnections
from eosin.broker.unserved_groups import UnservedGroups
from eosin.network.response_memory import ResponseMemory
from eosin.runtime.chance import Chance
from eosin.runtime.clock import Clock
from eosin.runtime.thread_turns import ThreadTurns
from eosin.security.session import EVERYBODY_MAY, Authorizer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from eosin.broker.config.store_reloads import ReloadStores
    from eosin.broker.fetching.sessions import FetchSessions
    from eosin.broker.markers import LocalMarkers
    from eosin.broker.partitions import Partitions
    from eosin.broker.security.group_shares import GroupShares
    from eosin.broker.security.new_producers import NewProducers
    from eosin.broker.share_states import ShareStates
    from eosin.broker.sharing.sharing import Sharing
    from eosin.broker.traffic_stats import TrafficStats
    from eosin.broker.transactions.verification import TransactionVerification
    from eosin.cluster.metadata.responses import MetadataResponses
    from eosin.cluster.replication.led_partitions import LedPartitions
    from eosin.coordinator.groups.coordinator import GroupCoordinator
    from eosin.coordinator.transactions.coordinator import TransactionCoordinator
    from eosin.coordinator.transactions.ports import TransactionObserver
    from eosin.model.acl_entries import AclEntries
    from eosin.model.cluster import Cluster
    from eosin.protocol.names import TopicPartition
    from eosin.settings.broker import BrokerConfig

    HighWatermarks = Callable[[Iterable[TopicPartition]], Awaitable[Mapping[TopicPartition, int]]]


MOST_OFFSET_PRODUCERS: Final = 10_000
"""Producers of whose connections for offsets the newest is known."""


@dataclass(slots=True)
class Services:
    """The owners of the broker's state. Handlers call these, and never the objects behind them."""

    config: "BrokerConfig"
    clock: Clock
    chance: Chance
    cluster: "Cluster"
    partitions: "Partitions"
    markers: "LocalMarkers"
    """Writes markers into this broker's own partitions."""
    verification: "TransactionVerification"
    fetch_sessions: "FetchSessions"
    transactions: "TransactionCoordinator"
    groups: "GroupCoordinator"
    metadata_responses: "MetadataResponses"
    share_states: "ShareStates"
    """The durable states of what share groups read."""
    sharing: "Sharing"
    """Share groups at the leader of their partitions."""
    high_watermarks_elsewhere: "HighWatermarks | None" = None
    """Tells how far partitions that other brokers lead are committed; None where there are no others."""
    unserved_groups: UnservedGroups = field(init=False)
    streams_topics: StreamsTopics = field(init=False)
    large_batches: LargeBatches = field(init=False)
    timestamp_searches: ThreadTurns = field(default_factory=lambda: ThreadTurns(1))
    """Turns to look for a record by its timestamp. One at a time: between two batches a search waits for the disk, and
    another one would wait for it."""
    gone_partitions: GonePartitions = field(init=False)
    response_memory: ResponseMemory = field(default_factory=ResponseMemory)
    coordinator_connections: CoordinatorConnections = field(default_factory=CoordinatorConnections)
    offset_connections: NewestConnections = field(default_factory=lambda: NewestConnections(MOST_OFFSET_PRODUCERS))
    """Of producers that add offsets to transactions, in the versions before 2."""
    recorder: "TransactionObserver | None" = None
    """Remembers what happened to transactional ids, where somebody wants to know."""
    traffic: "TrafficStats | None" = None
    """Counts what is written and read, where somebody wants to know."""
    led_partitions: "LedPartitions | None" = None
    """In a cluster of several machines: what followers and acks=all depend on. None for a broker that is alone."""
    authorizer: Authorizer = EVERYBODY_MAY
    """The authorizer that sessions are made with."""
    group_shares: "GroupShares | None" = None
    """Limits the memory of groups by user; None without such a limit."""
    new_producers: "NewProducers" = field(init=False)
    """Limits the transactional ids and producers that clients may add."""
    acls: "AclEntries | None" = None
    """The entries that the authorizer decides by; None without one."""
    reload_stores: "ReloadStores | None" = None
    """Loads the key store and the trust store of a listener again; None without TLS."""
    given_wire_clock: Clock | None = None
    """See `wire_clock`."""

    @property
    def wire_clock(self) -> Clock:
        """The clock on which people and peers are waited for: `clock`, unless another one was given."""
        return self.given_wire_clock or self.clock

    def __post_init__(self) -> None:
        self.unserved_groups = UnservedGroups(self.clock, self.cluster, self.config)
        self.streams_topics = StreamsTopics(self.cluster, self.clock)
        self.new_producers = new_producers_of(self.config, self.clock)
        self.large_batches = LargeBatches(self.clock)
        self.gone_partitions = GonePartitions(self.clock)
