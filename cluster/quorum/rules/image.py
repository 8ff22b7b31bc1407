"""The cluster as the metadata log tells it, up to one offset, and what changed from one such image to the next.

Everything here is a value: an image never changes, so whoever reads one sees one moment of the cluster, also across an
await. Images share what they have in common (`sorted_map.py`): a new one costs what has changed. `replay.py` makes
them from records, `follower.py` publishes them.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from eosin.model.features import METADATA_VERSION
from eosin.protocol.names import ZERO_UUID, TopicPartition, Uuid
from eosin.protocol.schemas.records.metadata import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RegisterControllerRecord,
    UserScramCredentialRecord,
)
from eosin.runtime.sorted_map import SortedMap

NO_LEADER: Final = -1
NO_OFFSET: Final = -1
"""The offset of an image that holds nothing yet."""
NO_EPOCH: Final = -1

MIGRATING_DIRECTORY: Final[Uuid] = ZERO_UUID
"""In place of a directory id: the record was written by a release that knew none (cluster.md 1.4)."""
UNASSIGNED_DIRECTORY: Final[Uuid] = (1).to_bytes(16, "big")
LOST_DIRECTORY: Final[Uuid] = (2).to_bytes(16, "big")


class BrokerEndpoint(NamedTuple):
    """A broker, or a controller, as it is reached by one listener."""

    listener: str
    """In upper case."""
    host: str
    port: int
    security_protocol: int
    """0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""


@dataclass(frozen=True, slots=True)
class RegisteredBroker:
    """A broker that has registered, alive or not."""

    node_id: int
    epoch: int
    """The metadata offset at which its registration was written: it grows with every new incarnation."""
    incarnation_id: Uuid
    endpoints: Mapping[str, BrokerEndpoint] = field(hash=False)
    """By the name of the listener."""
    features: Mapping[str, tuple[int, int]] = field(hash=False)
    """The lowest and the highest level of each feature that it supports."""
    rack: str | None
    fenced: bool
    """True if it must not lead or be shown to clients (cluster.md 3.10)."""
    in_controlled_shutdown: bool
    log_dirs: tuple[Uuid, ...]
    """The directories that are online."""
    cordoned_log_dirs: tuple[Uuid, ...] | None
    """None: it has not said yet."""


@dataclass(frozen=True, slots=True)
class PartitionRegistration:
    """The replicas and the leader of a partition, by node ids."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing: tuple[int, ...]
    adding: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    directories: tuple[Uuid, ...]
    """In the order of `replicas`."""
    leader: int
    """`NO_LEADER` when it has none now."""
    leader_epoch: int
    partition_epoch: int
    """One more with every change of the partition."""
    recovering: bool
    """True if the leader was elected uncleanly and has not said since that it has recovered (cluster.md 2.4)."""


@dataclass(frozen=True, slots=True)
class TopicImage:
    """One topic and its partitions."""

    name: str
    topic_id: Uuid
    partitions: SortedMap[int, PartitionRegistration] = field(hash=False)


class QuotaEntity(NamedTuple):
    """One part of what a quota is for."""

    entity_type: str
    """`user`, `client-id` or `ip`."""
    name: str | None
    """None: the default of its type."""

    def __lt__(self, other: tuple[Any, ...]) -> bool:
        """By type and name; the default comes first."""
        return (self[0], self[1] is not None, self[1] or "") < (other[0], other[1] is not None, other[1] or "")


class ScramKey(NamedTuple):
    """The user and the mechanism of a SCRAM credential."""

    user: str
    mechanism: int
    """1 SHA-256, 2 SHA-512."""


QuotaEntities = tuple[QuotaEntity, ...]
"""The entities that a quota is for, in the order of entity types."""


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """The whole cluster at one offset of the metadata log."""

    offset: int = NO_OFFSET
    """The last offset that is in it, control records counted (cluster.md 3.4)."""
    epoch: int = NO_EPOCH
    """The raft epoch of the batch that has `offset`."""
    brokers: Mapping[int, RegisteredBroker] = field(default_factory=SortedMap, hash=False)
    topics: SortedMap[str, TopicImage] = field(default_factory=SortedMap, hash=False)
    topic_names: SortedMap[Uuid, str] = field(default_factory=SortedMap, hash=False)
    """By topic id."""
    configs: Mapping[tuple[int, str], Mapping[str, str]] = field(default_factory=SortedMap, hash=False)
    """By resource type (`ConfigResourceType`) and name; a resource without settings is not here."""
    features: Mapping[str, int] = field(default_factory=SortedMap, hash=False)
    """Finalized levels; a feature at level 0 is not here. `kraft.version` stands in a control record instead."""
    next_producer_id: int = 0
    """The first producer id that no block has covered."""
    controllers: Mapping[int, RegisterControllerRecord] = field(default_factory=SortedMap, hash=False)
    acls: Mapping[Uuid, AccessControlEntryRecord] = field(default_factory=SortedMap, hash=False)
    scram: Mapping[ScramKey, UserScramCredentialRecord] = field(default_factory=SortedMap, hash=False)
    quotas: Mapping[QuotaEntities, Mapping[str, float]] = field(default_factory=SortedMap, hash=False)
    tokens: Mapping[str, DelegationTokenRecord] = field(default_factory=SortedMap, hash=False)
    """Delegation tokens by id."""
    partition_count: int = 0

    def topic_by_id(self, topic_id: Uuid) -> TopicImage | None:
        """The topic with this id, or None."""
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def partition(self, topic: str, partition: int) -> PartitionRegistration | None:
        """One partition, or None when there is none of that name and number."""
        found = self.topics.get(topic)
        return None if found is None else found.partitions.get(partition)

    @property
    def metadata_version(self) -> int:
        """The finalized level of `metadata.version`; 0 before the log has said it."""
        return self.features.get(METADATA_VERSION, 0)


EMPTY: Final = ClusterImage()
"""Before the first record."""


class PartitionChange(NamedTuple):
    """A partition before and after: None when it was not there, or is gone."""

    partition: TopicPartition
    before: PartitionRegistration | None
    after: PartitionRegistration | None


@dataclass(frozen=True, slots=True)
class ImageDelta:
    """The changes of one publication.

    A topic that was deleted and created again under its name is in `topics_deleted`, and its partitions are in
    `partitions_changed` twice: gone first, then new (cluster.md 4.16).
    """

    before: ClusterImage = field(repr=False)
    after: ClusterImage = field(repr=False)
    topics_deleted: Sequence[TopicImage] = ()
    """As they were in `before`."""
    topics_created: Sequence[TopicImage] = ()
    """As they are in `after`."""
    partitions_changed: Sequence[PartitionChange] = ()
    """Partitions that are gone come first; each new or changed one once, whatever happened to it in between."""
    configs_changed: Set[tuple[int, str]] = frozenset()
    """Resource types and names. Of a deleted topic, too."""
    brokers_changed: bool = False
    features_changed: bool = False
    controllers_changed: bool = False
    acls_changed: Set[Uuid] = frozenset()
    """The ids of access control entries that came or went."""
    scram_changed: bool = False
    quotas_changed: bool = False
    tokens_changed: bool = False
