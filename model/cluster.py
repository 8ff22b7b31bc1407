"""The cluster's metadata: its brokers, its topics, their leaders, and the calls that change them.

`Cluster` is the one interface to cluster metadata; no caller may assume that there is a single broker. The embedded
implementation for one node is `eosin.cluster.metadata.embedded_cluster`.

Always true: `topics` and everything derived from it show durable facts only. A change becomes visible in one step,
after its record is as durable as configured, and `ClusterListener`s are told of it in that same step.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from eosin.model.features import Features
from eosin.model.principals import ANONYMOUS, Principal
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import METADATA_TOPIC, TopicPartition, Uuid

if TYPE_CHECKING:
    from eosin.model.acl_entries import AclEntries
    from eosin.model.credentials import CredentialChange, Credentials
    from eosin.model.quota_table import QuotaChange, QuotaTable
    from eosin.runtime.clock import Clock
    from eosin.storage.log.config import LogConfig

METADATA_PARTITION: Final = TopicPartition(METADATA_TOPIC, 0)
"""The log of the cluster's metadata."""

NO_LEADER: Final = -1
"""The node id of a leader that does not exist."""

NO_LEADER_EPOCH: Final = -1
"""The leader epoch of a partition that does not exist."""

USE_DEFAULT: Final = -1
"""As a partition count or replication factor: whatever the broker's settings say."""

NO_CONFIGS: Final[Mapping[str, str]] = MappingProxyType({})


class Endpoint(NamedTuple):
    """A broker as clients of one listener reach it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic as the cluster knows it."""

    name: str
    topic_id: Uuid
    partitions: int
    """Number of partitions; they are numbered from 0."""
    configs: Mapping[str, str] = field(default_factory=lambda: NO_CONFIGS, hash=False)
    """The topic's own settings by Kafka's names, as text; whatever is missing follows the broker's defaults."""
    internal: bool = False
    """True for `__consumer_offsets` and `__transaction_state`."""


class PartitionState(NamedTuple):
    """The replicas of one partition and their state, by node ids."""

    leader_id: int
    """`NO_LEADER` when it has none now."""
    leader_epoch: int
    replicas: tuple[int, ...]
    """The preferred leader first."""
    isr: tuple[int, ...]
    """The replicas that have everything up to the high watermark."""
    offline: tuple[int, ...]
    """The replicas that cannot serve now: their broker is away or their log has failed."""
    partition_epoch: int = 0
    """One more with each change of the partition in a cluster of several machines; 0 in one of its own."""
    eligible: tuple[int, ...] = ()
    """The eligible leader replicas (KIP-966): not in sync now, but known to have all that was committed."""
    last_known_eligible: tuple[int, ...] = ()
    """The last member of an ISR that became empty."""


class Outcome(NamedTuple):
    """The result of a change of metadata."""

    error: ErrorCode
    message: str | None = None
    topic: Topic | None = None
    """The topic as it is after the change (for a dry run: as it would be; for a deletion: as it was)."""


class Voter(NamedTuple):
    """A broker that holds a copy of the metadata log."""

    node_id: int
    directory_id: Uuid
    log_end_offset: int


class Quorum(NamedTuple):
    """The state of the metadata log itself, as DescribeQuorum tells it."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[Voter, ...]


class ConfigOperation(IntEnum):
    """The operation of an incremental change on a setting, by its number on the wire (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One change of one setting."""

    name: str
    value: str | None
    """None only makes sense for DELETE."""
    operation: int = ConfigOperation.SET
    """One of `ConfigOperation`; anything else is refused."""


class ClusterListener(Protocol):
    """An owner of state that follows the cluster. Its methods do nothing unless they are overridden.

    They are called in the event loop, in the same step in which a change becomes visible, and must neither wait nor
    raise: work that takes time is only started. One change calls them in the order in which they stand here, each for
    all listeners before the next: partitions first, deletions before the rest, then topics, configs, brokers and
    features.
    """

    def partition_changed(
        self, partition: TopicPartition, before: PartitionState | None, after: PartitionState | None
    ) -> None:
        """The metadata of `partition` have changed. `before` is None for a new partition, `after` for one that is gone.
        A log that fails on its broker changes no metadata."""
        return

    def topic_deleted(self, topic: Topic) -> None:
        """`topic` is gone, after its partitions; its name may come back with another topic id."""
        return

    def configs_changed(self, topic: Topic) -> None:
        """The settings of `topic`, or the defaults it follows, have changed: ask `Cluster.log_config` again."""
        return

    def brokers_changed(self) -> None:
        """A broker came or went, or has another address: ask `Cluster.brokers` again."""
        return

    def features_changed(self) -> None:
        """A feature has another finalized level: ask `Cluster.features` again."""
        return


NOBODY: Final[frozenset[int]] = frozenset()


class VisibleLeader(NamedTuple):
    """The leader of a partition, and the replicas that are away, as clients of one listener see them."""

    error: ErrorCode
    """NONE, LEADER_NOT_AVAILABLE, or LISTENER_NOT_FOUND: it leads, and cannot be reached by this listener."""
    node_id: int
    offline: tuple[int, ...]


def visible_leader(state: PartitionState, without_listener: frozenset[int]) -> VisibleLeader:
    """The view of a partition for clients of a listener that the brokers `without_listener` lack (cluster.md 3.10)."""
    if state.leader_id == NO_LEADER:
        error = ErrorCode.LEADER_NOT_AVAILABLE
    elif state.leader_id in without_listener:
        error = ErrorCode.LISTENER_NOT_FOUND
    else:
        error = ErrorCode.NONE
    offline = state.offline
    if without_listener:
        offline = tuple(each for each in state.replicas if each in offline or each in without_listener)
    return VisibleLeader(error, state.leader_id if error is ErrorCode.NONE else NO_LEADER, offline)


class Cluster(Protocol):
    """Cluster metadata: reads are immediate, changes wait until they are durable."""

    @property
    def cluster_id(self) -> str:
        """The cluster's id as text: 22 characters of base64."""

    @property
    def node_id(self) -> int:
        """This broker's id."""

    @property
    def controller_id(self) -> int:
        """The broker that changes are sent to."""

    @property
    def is_joined(self) -> bool:
        """True if brokers of several machines share the cluster; a quorum of controllers keeps its metadata then."""

    @property
    def features(self) -> Features:
        """The features of the cluster, with the levels that are in force now."""

    @property
    def metadata_version(self) -> int:
        """Another number whenever a topic, a leader or a setting has changed."""

    @property
    def partition_count(self) -> int:
        """Partitions of all topics."""

    @property
    def topics(self) -> Mapping[str, Topic]:
        """Every topic by name, the internal ones included. Not to be changed by readers."""

    def partition_racks(self, topic: str) -> tuple[tuple[str, ...], ...]:
        """For each partition of a topic the racks of its replicas, sorted; empty if no broker has a rack."""

    def broker_configs(self, node_id: int | None) -> Mapping[str, str]:
        """Broker settings changed at run time, by Kafka's names, as text: one broker's, or with None those of all
        brokers (which a broker's own override)."""

    @property
    def broker_config_changes(self) -> int:
        """Grows with each change of `broker_configs`."""

    @property
    def configured_groups(self) -> Collection[str]:
        """The groups with settings of their own; they need not exist."""

    def group_configs(self, group_id: str) -> Mapping[str, str]:
        """A group's own settings by Kafka's names, as text: another mapping after each change."""

    def endpoint(self, listener: str) -> Endpoint:
        """This broker as it is advertised on `listener`."""

    def brokers(self, listener: str) -> Sequence[Endpoint]:
        """Every live broker that has `listener`, by node id."""

    def brokers_for_readers(self, listener: str) -> Sequence[Endpoint]:
        """The members of `brokers` that serve consumers from partitions which they follow (KIP-392)."""

    def brokers_without(self, listener: str) -> frozenset[int]:
        """The registered brokers, alive or not, that clients of `listener` cannot reach, as they have none of that
        name."""

    def inter_broker_endpoint(self, node_id: int) -> Endpoint | None:
        """The address at which other brokers reach this one, alive or not; None if it is not registered or has no
        listener for that."""

    def broker_epoch(self, node_id: int) -> int | None:
        """The epoch of a broker's registration, which grows with each of its starts; None when it is not registered
        (cluster.md 2.3)."""

    def topic_by_id(self, topic_id: Uuid) -> Topic | None:
        """The topic with this id, or None."""

    def leader_of(self, partition: TopicPartition) -> int | None:
        """The node id of the partition's leader, `NO_LEADER` when it has none now, None when there is no such
        partition."""

    def leader_epoch(self, partition: TopicPartition) -> int:
        """The partition's leader epoch, and so the epoch of a coordinator on it: each election raises it, each start of
        a standalone broker too, and it never goes back (storage.md 10 and 17, transactions.md 8.7). `NO_LEADER_EPOCH`
        when there is no such partition."""

    def partition_state(self, partition: TopicPartition) -> PartitionState | None:
        """The replicas of the partition and its leader; None when there is no such partition."""

    def quorum(self) -> Quorum:
        """The nodes that keep the metadata log, and how far it is."""

    def log_config(self, topic: str) -> "LogConfig":
        """The settings of a topic's logs: its own over the broker's defaults. For an unknown topic, the defaults."""

    def acl_entries(self, clock: "Clock") -> "AclEntries":
        """The access control entries, for an authorizer to follow and for admin clients to change; asked for once."""

    def subscribe(self, listener: ClusterListener) -> None:
        """Tell `listener` of every change from now on. Each event reaches the listeners in the order in which
        they subscribed."""

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = USE_DEFAULT,
        replication_factor: int = USE_DEFAULT,
        assignments: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str | None] = NO_CONFIGS,
        validate_only: bool = False,
    ) -> Outcome:
        """Create a topic. `assignments` maps each partition to the node ids of its replicas and excludes the two
        counts. A config whose value is None is refused. With `validate_only` nothing changes."""

    async def create_automatically(self, name: str, client_host: str, principal: Principal = ANONYMOUS) -> Outcome:
        """Create a topic of the default size because a client at `client_host` (`RequestContext.client_host`) asked
        about it. Of several machines, the topic may show a little later: UNKNOWN_TOPIC_OR_PARTITION until then."""

    async def create_for_client(
        self,
        name: str,
        *,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str | None],
        client_host: str,
        principal: Principal,
    ) -> Outcome:
        """Create a topic that a client at `client_host` has need of, in its name where controllers decide whether it
        may. What was created shows at the return, unless it takes a controller's news too long."""

    def want_internal_topic(self, name: str) -> None:
        """Begin to create an internal topic that is needed now, unless it is there or being created."""

    async def delete_topic(self, name: str) -> Outcome:
        """Delete a topic with all its records."""

    async def create_partitions(
        self,
        name: str,
        *,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> Outcome:
        """Raise the number of partitions of a topic to `count`; `assignments` holds the node ids for each new one."""

    async def alter_topic_configs(
        self, name: str, changes: Sequence[ConfigChange], *, replace: bool = False, validate_only: bool = False
    ) -> Outcome:
        """Change a topic's own settings, all or nothing. With `replace`, what `changes` does not name goes back to its
        default."""

    async def alter_broker_configs(
        self,
        node_id: int | None,
        changes: Sequence[ConfigChange],
        *,
        replace: bool = False,
        validate_only: bool = False,
    ) -> Outcome:
        """Change the settings of one broker, or with None of all brokers, that can change at run time, all or
        nothing."""

    async def alter_group_configs(
        self, group_id: str, changes: Sequence[ConfigChange], *, replace: bool = False, validate_only: bool = False
    ) -> Outcome:
        """Change the settings of one group, which need not exist, all or nothing. With `replace`, what `changes` does
        not name goes back to the broker's. Of several machines the controllers are asked."""

    @property
    def credentials(self) -> "Credentials":
        """The users, and what is stored of their passwords."""

    async def alter_credentials(self, decide: "Callable[[Credentials], Sequence[CredentialChange]]") -> Outcome:
        """Change what is stored as `decide` says of what there is, all or nothing. Only a cluster of its own does this
        itself: of several machines the controllers are asked (cluster.md 5.1)."""

    @property
    def quotas(self) -> "QuotaTable":
        """The quotas that were set (security.md 5)."""

    async def alter_quotas(self, changes: "Sequence[QuotaChange]") -> Outcome:
        """Set and remove quotas that were found right, all or nothing. Of several machines the controllers are
        asked."""

    async def finalize_levels(self, levels: Mapping[str, int]) -> Outcome:
        """Put other levels of features in force, which were found right, all or nothing. Of several machines the
        controllers are asked."""

    async def keep_secret(self, secret: bytes) -> Outcome:
        """Store the secret behind the credentials of users who are not there, unless there is one (security.md
        3.4.9)."""

    async def allocate_block(self) -> range:
        """The next 1000 producer ids, never given out before; durable before this returns (transactions.md 9). Raises
        OSError when that cannot be stored. This makes a cluster the `ProducerIds` of the transaction coordinator."""
