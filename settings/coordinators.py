"""Build the settings of other rooms: these declare the fields that they need, and know nothing of the broker's
config."""

from typing import TYPE_CHECKING

from eosin.coordinator.groups.rules.config import (
    ConsumerGroupConfig,
    GroupConfig,
    MigrationPolicy,
    ShareGroupConfig,
    StreamsGroupConfig,
)
from eosin.coordinator.transactions.rules.config import TransactionConfig
from eosin.settings.broker import BrokerConfig
from eosin.storage.compaction.cleaner import CleanerConfig

if TYPE_CHECKING:
    from eosin.coordinator.share_state.rules.config import ShareStateConfig


def transaction_config(config: BrokerConfig, *, transaction_version: int) -> TransactionConfig:
    """The transaction coordinator's part of the settings, and the level of `transaction.version` that is in force."""
    return TransactionConfig(
        transaction_max_timeout_ms=config.transaction_max_timeout_ms,
        transactional_id_expiration_ms=config.transactional_id_expiration_ms,
        transaction_abort_timed_out_transaction_cleanup_interval_ms=(
            config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        ),
        transaction_remove_expired_transaction_cleanup_interval_ms=(
            config.transaction_remove_expired_transaction_cleanup_interval_ms
        ),
        transaction_timeout_recovery=config.recovers_from_timeouts,
        transaction_two_phase_commit_enable=config.transaction_two_phase_commit_enable,
        transaction_version=transaction_version,
        # Where markers wait for no disk, they are written before anything that follows the answer could be read.
        end_txn_marker_wait_ms=config.eosin_end_txn_marker_wait_ms if config.durability == "fsync" else 0,
        concurrent_transactions_wait_ms=config.eosin_concurrent_transactions_wait_ms,
        retry_backoff_ms=config.eosin_marker_retry_backoff_ms,
        retry_backoff_max_ms=config.eosin_marker_retry_backoff_max_ms,
    )


def group_config(config: BrokerConfig) -> GroupConfig:
    """The group coordinator's part of the settings."""
    return GroupConfig(
        group_min_session_timeout_ms=config.group_min_session_timeout_ms,
        group_max_session_timeout_ms=config.group_max_session_timeout_ms,
        group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        group_max_size=config.group_max_size,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_minutes=config.offsets_retention_minutes,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        offsets_topic_num_partitions=config.offsets_topic_num_partitions,
        offsets_topic_segment_bytes=config.offsets_topic_segment_bytes,
        offsets_topic_compression_codec=config.offsets_topic_compression_codec,
        offsets_commit_timeout_ms=config.offsets_commit_timeout_ms,
        eosin_group_new_member_join_timeout_ms=config.eosin_group_new_member_join_timeout_ms,
        eosin_group_max_pending_members=config.eosin_group_max_pending_members,
        eosin_group_max_groups=config.eosin_group_max_groups,
        eosin_group_member_metadata_max_bytes=config.eosin_group_member_metadata_max_bytes,
        consumer=consumer_group_config(config),
        share=share_group_config(config),
        streams=streams_group_config(config),
    )


def consumer_group_config(config: BrokerConfig) -> ConsumerGroupConfig:
    """The settings of consumer groups that have none of their own."""
    return ConsumerGroupConfig(
        session_timeout_ms=config.group_consumer_session_timeout_ms,
        heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        assignment_interval_ms=config.group_consumer_assignment_interval_ms,
        max_size=config.group_consumer_max_size,
        assignors=config.group_consumer_assignors,
        migration_policy=MigrationPolicy(config.group_consumer_migration_policy),
        classic_max_size=config.group_max_size,
        regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
    )


def share_state_config(config: BrokerConfig) -> "ShareStateConfig":
    """The share coordinator's part of the settings."""
    from eosin.coordinator.share_state.rules.config import ShareStateConfig

    return ShareStateConfig(
        snapshot_update_records_per_snapshot=config.share_coordinator_snapshot_update_records_per_snapshot,
        write_timeout_ms=config.share_coordinator_write_timeout_ms,
        state_topic_compression_codec=config.share_coordinator_state_topic_compression_codec,
        state_topic_prune_interval_ms=config.share_coordinator_state_topic_prune_interval_ms,
        cold_partition_snapshot_interval_ms=config.share_coordinator_cold_partition_snapshot_interval_ms,
    )


def share_group_config(config: BrokerConfig) -> ShareGroupConfig:
    """The settings of share groups that have none of their own."""
    return ShareGroupConfig(
        session_timeout_ms=config.group_share_session_timeout_ms,
        heartbeat_interval_ms=config.group_share_heartbeat_interval_ms,
        assignment_interval_ms=config.group_share_assignment_interval_ms,
        max_size=config.group_share_max_size,
        initialize_retry_interval_ms=config.group_share_initialize_retry_interval_ms,
        record_lock_duration_ms=config.group_share_record_lock_duration_ms,
        delivery_count_limit=config.group_share_delivery_count_limit,
        partition_max_record_locks=config.group_share_partition_max_record_locks,
    )


def streams_group_config(config: BrokerConfig) -> StreamsGroupConfig:
    """The settings of streams groups that have none of their own."""
    return StreamsGroupConfig(
        session_timeout_ms=config.group_streams_session_timeout_ms,
        heartbeat_interval_ms=config.group_streams_heartbeat_interval_ms,
        assignment_interval_ms=config.group_streams_assignment_interval_ms,
        max_size=config.group_streams_max_size,
        num_standby_replicas=config.group_streams_num_standby_replicas,
        initial_rebalance_delay_ms=config.group_streams_initial_rebalance_delay_ms,
        rack_aware_assignment_tags=config.group_streams_rack_aware_assignment_tags,
        eosin_topology_description_max_bytes=config.eosin_topology_description_max_bytes,
        eosin_topology_max_tasks=config.eosin_topology_max_tasks,
    )


def cleaner_config(config: BrokerConfig) -> CleanerConfig:
    """Compaction's part of the settings."""
    return CleanerConfig(
        enable=config.log_cleaner_enable,
        backoff_ms=config.log_cleaner_backoff_ms,
        dedupe_buffer_bytes=config.log_cleaner_dedupe_buffer_size,
        io_max_bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
    )
