"""`GroupConfig`: every limit and delay of the group coordinator, by Kafka's names with underscores (groups.md 16)."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

UNIFORM: Final = "uniform"
RANGE: Final = "range"
"""The assignors of consumer groups."""
SIMPLE: Final = "simple"
"""The assignor of share groups."""
LATEST: Final = "latest"
READ_UNCOMMITTED: Final = "read_uncommitted"


class MigrationPolicy(Enum):
    """Changes of kind that a group with members may go through; the value is that of the setting."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    """A classic group may become a consumer group."""
    DOWNGRADE = "downgrade"
    """A consumer group may become a classic group."""
    DISABLED = "disabled"

    @property
    def upgrades(self) -> bool:
        """True if a classic group may become a consumer group."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def downgrades(self) -> bool:
        """True if a consumer group may become a classic group."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True)
class ConsumerGroupConfig:
    """Settings of one consumer group (KIP-848), by Kafka's names without `group.consumer.`: those of the broker, or the
    group's own in their place (consumer-groups.md 13)."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    """The shortest time between two targets of a group."""
    max_size: int = 2_147_483_647
    """Members of a group."""
    assignors: tuple[str, ...] = (UNIFORM, RANGE)
    """The assignors that members may name; the first is that of groups whose members name none."""
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    """The changes between classic and consumer group that members bring about."""
    classic_max_size: int = 2_147_483_647
    """Members of a classic group, which a consumer group may become."""
    regex_refresh_interval_ms: int = 600_000
    """The topics of a regular expression are looked for again after so long."""
    eosin_subscription_max_topics: int = 10_000
    """Names in the subscription of one member."""
    eosin_regex_max_patterns: int = 100
    """Regular expressions of one group."""


ConsumerConfigOf = Callable[[str], ConsumerGroupConfig]
"""The settings of a consumer group, by its id."""


@dataclass(frozen=True, slots=True)
class ShareGroupConfig:
    """Settings of one share group (KIP-932), by Kafka's names without `group.share.`, `share.` or `errors.`: those of
    the broker, or the group's own in their place (share-groups.md 10)."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    """The shortest time between two targets of a group."""
    max_size: int = 200
    """Members of a group."""
    initialize_retry_interval_ms: int = 30_000
    """The initialization of a partition's state whose outcome could not be kept is tried again after so long."""
    eosin_subscription_max_topics: int = 10_000
    """Names in the subscription of one member."""
    record_lock_duration_ms: int = 30_000
    """A record that was delivered and not acknowledged is delivered again after so long."""
    delivery_count_limit: int = 5
    """Deliveries of one record at most."""
    partition_max_record_locks: int = 2_000
    """Records of one share partition that are on their way at most."""
    auto_offset_reset: str = LATEST
    """The place where the group begins to read: latest, earliest, or by_duration: and an ISO 8601 duration."""
    isolation_level: str = READ_UNCOMMITTED
    """read_uncommitted or read_committed, whatever the members say."""
    renew_acknowledge_enable: bool = True
    """Members may renew the locks of their records (KIP-1222)."""
    deadletterqueue_topic_name: str = ""
    """The topic that dead letters go to (KIP-1191); empty for none."""
    deadletterqueue_copy_record_enable: bool = False
    """Dead letters have key, value and headers of their records; else they only say which records those were."""


ShareConfigOf = Callable[[str], ShareGroupConfig]
"""The settings of a share group, by its id."""


@dataclass(frozen=True, slots=True)
class StreamsGroupConfig:
    """Settings of one streams group (KIP-1071), by Kafka's names without `group.streams.` or `streams.`: those of the
    broker, or the group's own in their place (streams-groups.md 10)."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    """The shortest time between two targets of a group."""
    max_size: int = 2_147_483_647
    """Members of a group."""
    num_standby_replicas: int = 0
    """Copies of each task's state."""
    initial_rebalance_delay_ms: int = 3_000
    """The first members of a group wait so long for others before tasks are dealt out."""
    eosin_topology_max_tasks: int = 10_000
    """Tasks of one group."""
    eosin_topology_description_max_bytes: int = 262_144
    """A description of a topology (KIP-1331) at most; 0 if no member is asked for one."""
    rack_aware_assignment_tags: tuple[str, ...] = ()
    """Client tags that each member is to have; no assignor looks at them."""
    task_offset_interval_ms: int = 60_000
    """Members report how far their copies have come so often."""
    acceptable_recovery_lag: int = 10_000
    """Records that a copy may be behind and yet count as caught up; members are told it."""


StreamsConfigOf = Callable[[str], StreamsGroupConfig]
"""The settings of a streams group, by its id."""


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Settings of the group coordinator. Those that Kafka does not have start with `eosin_`."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 0
    """Time that the first join phase of an empty group waits for more members; 0 does not wait. (Kafka: 3000)"""
    group_max_size: int = 2_147_483_647
    """Members per group."""
    offset_metadata_max_bytes: int = 4_096
    """Longest commit metadata. Counted in UTF-16 units, as Kafka does in spite of the name."""
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    offsets_topic_num_partitions: int = 50
    offsets_topic_segment_bytes: int = 104_857_600
    offsets_topic_compression_codec: int = 0
    """Compression of the batches written to `__consumer_offsets`: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
    offsets_commit_timeout_ms: int = 5_000
    """Limit of a commit's wait to become durable; after it the answer is COORDINATOR_NOT_AVAILABLE."""
    eosin_group_new_member_join_timeout_ms: int = 300_000
    """Limit of a member's wait in its first join phase (a constant in Kafka)."""
    eosin_group_max_pending_members: int = 10_000
    """Handed-out member ids per group that have not come back; the oldest is forgotten to make room."""
    eosin_group_max_groups: int = 1_000_000
    """Groups per broker; a request that would create one more is refused."""
    eosin_group_member_metadata_max_bytes: int = 1_048_576
    """Sum of the protocol metadata that one member may bring along."""
    consumer: ConsumerGroupConfig = ConsumerGroupConfig()
    """The settings of consumer groups that have none of their own."""
    share: ShareGroupConfig = ShareGroupConfig()
    """The settings of share groups that have none of their own."""
    streams: StreamsGroupConfig = StreamsGroupConfig()
    """The settings of streams groups that have none of their own."""

    @property
    def offsets_retention_ms(self) -> int:
        """Time for which offsets are kept, in ms."""
        return self.offsets_retention_minutes * 60_000
