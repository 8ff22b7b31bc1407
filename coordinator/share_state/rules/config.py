"""`ShareStateConfig`: the limits and delays of the share coordinator, by Kafka's names with underscores and without
`share.coordinator.`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShareStateConfig:
    """Settings of the share coordinator. Those that Kafka does not have start with `eosin_`."""

    snapshot_update_records_per_snapshot: int = 500
    """After so many updates of a share partition the next record is its whole state."""
    write_timeout_ms: int = 5_000
    """Limit of a request's wait to become durable; after it the answer is COORDINATOR_NOT_AVAILABLE."""
    state_topic_compression_codec: int = 0
    """Compression of the batches written to `__share_group_state`: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
    state_topic_prune_interval_ms: int = 300_000
    """Between two looks for records that nobody needs any more."""
    cold_partition_snapshot_interval_ms: int = 300_000
    """A share partition whose last snapshot is so old gets another one, where it keeps old records in the log."""
    eosin_reload_ms: int = 10_000
    """After so long a partition whose log could not be read is tried again."""
