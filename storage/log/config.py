"""`LogConfig`: the part of a topic's configuration that concerns its logs.

One typed field per topic config of Kafka 4.x, named as there with underscores for dots (storage.md section 20). Values
are checked where they are parsed; a `LogConfig` is always valid.
"""

from dataclasses import dataclass
from typing import Final

LONG_MAX: Final = 2**63 - 1
DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Every topic config, with Kafka's defaults."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    """Any of `delete` and `compact`; empty keeps everything for ever (KIP-1161)."""
    compression_type: str = "producer"
    """producer, uncompressed, gzip, snappy, lz4 or zstd."""
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3

    segment_bytes: int = 1_073_741_824
    internal_segment_bytes: int | None = None
    """Overrides `segment_bytes`, without its lower limit: for tests (Kafka's `internal.segment.bytes`)."""
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4096

    retention_ms: int = 7 * DAY_MS
    """-1 keeps records for ever."""
    retention_bytes: int = -1
    """-1 is no limit."""
    delete_retention_ms: int = DAY_MS
    file_delete_delay_ms: int = 60_000

    max_message_bytes: int = 1_048_588
    """Bytes of a whole batch."""
    message_timestamp_type: str = "CreateTime"
    """CreateTime or LogAppendTime."""
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_after_max_ms: int = 3_600_000

    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX

    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    preallocate: bool = False

    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False
    errors_deadletterqueue_group_enable: bool = False
    """Share groups may write their dead letters here (KIP-1191)."""
    remote_storage_enable: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    local_retention_ms: int = -2
    local_retention_bytes: int = -2
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    follower_replication_throttled_replicas: tuple[str, ...] = ()

    @property
    def segment_limit_bytes(self) -> int:
        """The size at which a segment is full: `internal.segment.bytes` when set, else `segment.bytes`."""
        return self.segment_bytes if self.internal_segment_bytes is None else self.internal_segment_bytes

    @property
    def is_compacted(self) -> bool:
        """True if the cleaner keeps the latest record per key (records must have keys)."""
        return "compact" in self.cleanup_policy

    @property
    def is_deleted_by_retention(self) -> bool:
        """True if retention by size and time applies."""
        return "delete" in self.cleanup_policy

    @property
    def is_log_append_time(self) -> bool:
        """True if the broker's clock stamps the records."""
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def roll_after_ms(self) -> int:
        """Record time a segment may span before it rolls (storage.md section 7)."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms
