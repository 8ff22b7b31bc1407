"""`BrokerConfig`: every setting of the broker, its type, default, unit, range and meaning. The fields are the table.

A key is its field's name with dots, and is Kafka's wherever Kafka has one; a key of our own starts with `eosin.`, but
for those of `transaction.timeout.recovery`. Units are part of the names. Defaults are those of Kafka 4.1 except where
the documentation says otherwise. A config is complete and checked before anything starts (`sources`
reads files and flags), and never changes.
"""

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, Final, Literal, cast

from eosin.coordinator.groups.rules.config import RANGE, UNIFORM, MigrationPolicy
from eosin.model.features import SUPPORTED_ALONE, TRANSACTION_VERSION
from eosin.settings.connections import connections_by_address
from eosin.settings.listeners import EVERY_LISTENER, Listener, parse_listeners, protocol_map, protocols_of
from eosin.settings.quorum import (
    PLAINTEXT,
    QuorumVoter,
    bootstrap_servers,
    controller_protocol,
    inter_broker_listener,
    quorum_voters,
)
from eosin.settings.security import resolved
from eosin.settings.settings import (
    INT_MAX,
    LONG_MAX,
    Setting,
    SettingKind,
    setting,
    settings_class,
    settings_of,
    value_text,
)
from eosin.settings.streams_groups import StreamsGroupSettings
from eosin.settings.topics import CODECS, defaults_from
from eosin.storage.log.config import DAY_MS, LogConfig

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
CLASSIC: Final = "classic"
"""The protocol of groups that cannot be left out of `group.coordinator.rebalance.protocols`."""
Durability = Literal["fsync", "os", "memory"]
DURABILITIES: Final = ("fsync", "os", "memory")

INT: Final = SettingKind.INT
LONG: Final = SettingKind.LONG
SHORT: Final = SettingKind.SHORT
BOOLEAN: Final = SettingKind.BOOLEAN
STRING: Final = SettingKind.STRING
DOUBLE: Final = SettingKind.DOUBLE
LIST: Final = SettingKind.LIST


@settings_class
class BrokerConfig(StreamsGroupSettings):
    """All settings, typed. `sources.load_config` builds one from texts; fields may also be given directly."""

    # Who and where
    node_id: int = setting(1, "This broker's id.", kind=INT, at_least=0)
    listeners: tuple[str, ...] = setting(
        ("PLAINTEXT://127.0.0.1:9092",), "Addresses to listen on, NAME://HOST:PORT; port 0 picks a free one.", kind=LIST
    )
    advertised_listeners: tuple[str, ...] = setting(
        (), "Addresses for clients, for listeners whose own address they cannot use.", kind=LIST
    )
    eosin_advertise_later: tuple[str, ...] = setting(
        (),
        "Listeners, or * for all, whose clients wait until PUT /api/v1/advertise has told the address for them; needs"
        " eosin.http.listener.",
        kind=LIST,
    )
    listener_security_protocol_map: tuple[str, ...] = setting(
        (),
        "The protocol of each listener, NAME:PROTOCOL; PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. (docs/security.md)",
        kind=LIST,
    )
    log_dirs: tuple[str, ...] = setting(("data",), "The data directory; one. (Kafka: /tmp/kafka-logs)", kind=LIST)

    # Connections
    connections_max_idle_ms: int = setting(
        600_000, "Close a connection that is silent this long; -1 never.", kind=LONG, at_least=-1
    )
    max_connections: int = setting(
        INT_MAX,
        "Connections accepted at a time; a listener may have a number of its own. One on loopback beside others does"
        " not count.",
        kind=INT,
        at_least=1,
    )
    max_connections_per_ip: int = setting(
        INT_MAX, "The same from one IPv4 address, or one /64 of IPv6 addresses.", kind=INT, at_least=0
    )
    max_connections_per_ip_overrides: tuple[str, ...] = setting(
        (), "Other numbers for single addresses, ADDRESS:NUMBER.", kind=LIST
    )
    max_connection_creation_rate: int = setting(
        INT_MAX,
        "Connections accepted in a second; further ones wait, up to a second each. A listener may have its own.",
        kind=INT,
        at_least=1,
    )
    eosin_principal_connections_max: int = setting(
        0, "Connections of one user at a time, closed after the login; 0: no limit.", kind=INT, at_least=0
    )
    socket_request_max_bytes: int = setting(104_857_600, "The largest request.", kind=INT, at_least=1024)
    socket_listen_backlog_size: int = setting(
        4096,
        "Connections the kernel may hold before they are accepted; net.core.somaxconn is its limit. (Kafka: 50)",
        kind=INT,
        at_least=1,
    )
    socket_send_buffer_bytes: int = setting(
        -1, "SO_SNDBUF of a connection; -1 lets the system adapt it. (Kafka: 102400)", kind=INT, at_least=-1
    )
    socket_receive_buffer_bytes: int = setting(
        -1, "SO_RCVBUF of a connection; -1 lets the system adapt it. (Kafka: 102400)", kind=INT, at_least=-1
    )
    request_timeout_ms: int = setting(
        30_000, "Longest wait inside the broker that is not set by a client.", kind=INT, at_least=1
    )

    # Topics
    num_partitions: int = setting(1, "Partitions of a topic created without a count.", kind=INT, at_least=1)
    default_replication_factor: int = setting(1, "Replicas of a topic created without a count.", kind=INT, at_least=1)
    auto_create_topics_enable: bool = setting(True, "Create a topic when a client first names it.", kind=BOOLEAN)
    delete_topic_enable: bool = setting(True, "Whether topics can be deleted.", kind=BOOLEAN)
    min_insync_replicas: int = setting(1, "Default of min.insync.replicas.", kind=INT, at_least=1)
    unclean_leader_election_enable: bool = setting(False, "Default of unclean.leader.election.enable.", kind=BOOLEAN)

    # Fetch
    fetch_max_bytes: int = setting(
        57_671_680, "Bytes of records in one Fetch response at most.", kind=INT, at_least=1024
    )
    max_incremental_fetch_session_cache_slots: int = setting(1000, "Fetch sessions kept at most.", kind=INT, at_least=0)

    quota_window_num: int = setting(
        11, "Samples that a quota's rate is taken over, the running one with them.", kind=INT, at_least=2, at_most=100
    )
    quota_window_size_seconds: int = setting(
        1, "Length of one such sample, in seconds.", kind=INT, at_least=1, at_most=3600
    )
    eosin_quota_throttle_max_ms: int = setting(
        15_000,
        "A client is told to pause for so long at most when it is over its quota; the rest follows its next request.",
        kind=INT,
        at_least=1,
        at_most=300_000,
    )

    # Logs: defaults of topic configs
    log_cleanup_policy: tuple[str, ...] = setting(
        ("delete",), "Default of cleanup.policy.", kind=LIST, choices=("delete", "compact")
    )
    compression_type: str = setting("producer", "Default of compression.type.", kind=STRING, choices=CODECS)
    compression_gzip_level: int = setting(-1, "Default of compression.gzip.level.", kind=INT, at_least=-1, at_most=9)
    compression_lz4_level: int = setting(9, "Default of compression.lz4.level.", kind=INT, at_least=1, at_most=17)
    compression_zstd_level: int = setting(
        3, "Default of compression.zstd.level.", kind=INT, at_least=-131072, at_most=22
    )
    log_segment_bytes: int = setting(1_073_741_824, "Default of segment.bytes.", kind=INT, at_least=1_048_576)
    log_roll_ms: int | None = setting(None, "Default of segment.ms; unset: log.roll.hours.", kind=LONG, at_least=1)
    log_roll_hours: int = setting(168, "Default of segment.ms, in hours.", kind=INT, at_least=1)
    log_roll_jitter_ms: int | None = setting(
        None, "Default of segment.jitter.ms; unset: log.roll.jitter.hours.", kind=LONG, at_least=0
    )
    log_roll_jitter_hours: int = setting(0, "Default of segment.jitter.ms, in hours.", kind=INT, at_least=0)
    log_index_size_max_bytes: int = setting(10_485_760, "Default of segment.index.bytes.", kind=INT, at_least=4)
    log_index_interval_bytes: int = setting(4096, "Default of index.interval.bytes.", kind=INT, at_least=0)
    log_retention_ms: int | None = setting(
        None, "Default of retention.ms; -1: for ever; unset: the next.", kind=LONG, at_least=-1
    )
    log_retention_minutes: int | None = setting(
        None, "Default of retention.ms, in minutes; unset: the next.", kind=INT, at_least=-1
    )
    log_retention_hours: int = setting(168, "Default of retention.ms, in hours; -1: for ever.", kind=INT, at_least=-1)
    log_retention_bytes: int = setting(-1, "Default of retention.bytes; below 0: no limit.", kind=LONG)
    log_cleaner_delete_retention_ms: int = setting(DAY_MS, "Default of delete.retention.ms.", kind=LONG, at_least=0)
    log_segment_delete_delay_ms: int = setting(60_000, "Default of file.delete.delay.ms.", kind=LONG, at_least=0)
    message_max_bytes: int = setting(1_048_588, "Default of max.message.bytes.", kind=INT, at_least=0)
    log_message_timestamp_type: str = setting(
        "CreateTime", "Default of message.timestamp.type.", kind=STRING, choices=("CreateTime", "LogAppendTime")
    )
    log_message_timestamp_before_max_ms: int = setting(
        LONG_MAX, "Default of message.timestamp.before.max.ms.", kind=LONG, at_least=0
    )
    log_message_timestamp_after_max_ms: int = setting(
        3_600_000, "Default of message.timestamp.after.max.ms.", kind=LONG, at_least=0
    )
    log_cleaner_min_cleanable_ratio: float = setting(
        0.5, "Default of min.cleanable.dirty.ratio.", kind=DOUBLE, at_least=0, at_most=1
    )
    log_cleaner_min_compaction_lag_ms: int = setting(0, "Default of min.compaction.lag.ms.", kind=LONG, at_least=0)
    log_cleaner_max_compaction_lag_ms: int = setting(
        LONG_MAX, "Default of max.compaction.lag.ms.", kind=LONG, at_least=1
    )
    log_flush_interval_messages: int = setting(LONG_MAX, "Default of flush.messages.", kind=LONG, at_least=1)
    log_flush_interval_ms: int | None = setting(None, "Default of flush.ms; unset: the next.", kind=LONG, at_least=0)
    log_flush_scheduler_interval_ms: int = setting(
        LONG_MAX, "Default of flush.ms when that is unset.", kind=LONG, at_least=0
    )
    log_preallocate: bool = setting(False, "Default of preallocate.", kind=BOOLEAN)

    # Logs: the work in the background
    log_retention_check_interval_ms: int = setting(
        300_000, "Between two looks for segments to delete.", kind=LONG, at_least=1
    )
    log_cleaner_enable: bool = setting(
        True, "Whether logs are compacted; without it those of the broker itself grow, too.", kind=BOOLEAN
    )
    log_cleaner_backoff_ms: int = setting(15_000, "Between two looks for topics to compact.", kind=LONG, at_least=0)
    log_cleaner_dedupe_buffer_size: int = setting(
        134_217_728,
        "Bytes of memory for the keys of one compaction; a log with more takes several.",
        kind=LONG,
        at_least=1_048_576,
    )
    log_cleaner_io_max_bytes_per_second: float = setting(
        1.7976931348623157e308, "Bytes that compaction reads and writes per second at most.", kind=DOUBLE, at_least=1
    )

    # Producers and transactions (transactions.md section 7)
    producer_id_expiration_ms: int = setting(
        DAY_MS, "Forget a silent producer's sequences after this.", kind=INT, at_least=1
    )
    producer_id_expiration_check_interval_ms: int = setting(
        600_000, "Between two looks for such producers.", kind=INT, at_least=1
    )
    transaction_max_timeout_ms: int = setting(
        900_000, "The longest timeout a transactional producer may ask for.", kind=INT, at_least=1
    )
    transactional_id_expiration_ms: int = setting(
        7 * DAY_MS, "Forget an unused transactional id after this.", kind=INT, at_least=1
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = setting(
        10_000,
        "Between two scans for transactions past their timeout (most are aborted at their deadline).",
        kind=INT,
        at_least=1,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(
        3_600_000, "Between two scans for transactional ids to forget.", kind=INT, at_least=1
    )
    transaction_timeout_recovery: str = setting(
        "on",
        "Whether a producer whose transaction timed out may go on, or is fenced as by Kafka. Needs verification.",
        kind=STRING,
        choices=("on", "kafka"),
    )
    transaction_timeout_recovery_profiles: tuple[str, ...] = setting(
        (),
        "Clients that get the errors of another profile then, SOFTWARE-NAME:PROFILE (docs/semantics.md).",
        kind=LIST,
    )
    transaction_two_phase_commit_enable: bool = setting(
        False,
        "Let producers take part in two-phase commits (KIP-939, docs/two-phase-commit.md).",
        kind=BOOLEAN,
    )
    transaction_partition_verification_enable: bool = setting(
        True, "Check that a partition is in the transaction before the first append (KIP-890).", kind=BOOLEAN
    )
    transaction_state_log_num_partitions: int = setting(50, "Partitions of __transaction_state.", kind=INT, at_least=1)
    transaction_state_log_segment_bytes: int = setting(
        104_857_600, "Segments of __transaction_state.", kind=INT, at_least=1
    )
    transaction_state_log_replication_factor: int = setting(
        1, "Replicas of __transaction_state; more than there are brokers is capped. (Kafka: 3)", kind=SHORT, at_least=1
    )
    transaction_state_log_min_isr: int = setting(
        1, "Replicas that must have it; capped likewise. (Kafka: 2)", kind=INT, at_least=1
    )

    # Consumer groups (groups.md section 16)
    group_min_session_timeout_ms: int = setting(
        6000, "The shortest session timeout a member may ask for.", kind=INT, at_least=1
    )
    group_max_session_timeout_ms: int = setting(
        1_800_000, "The longest session timeout a member may ask for.", kind=INT, at_least=1
    )
    group_initial_rebalance_delay_ms: int = setting(
        0, "How long a new group waits for more members. (Kafka: 3000)", kind=INT, at_least=0
    )
    group_max_size: int = setting(INT_MAX, "Members of a group at most.", kind=INT, at_least=1)
    group_coordinator_rebalance_protocols: tuple[str, ...] = setting(
        (CLASSIC, "consumer", "streams"),
        "Protocols of groups that this broker serves while their features allow it; classic is always one, and share"
        " groups are not asked about.",
        kind=LIST,
        choices=(CLASSIC, "consumer", "share", "streams"),
    )
    group_consumer_session_timeout_ms: int = setting(
        45_000, "A member of a consumer group (KIP-848) that sends nothing for so long is out.", kind=INT, at_least=1
    )
    group_consumer_min_session_timeout_ms: int = setting(
        45_000, "The shortest consumer.session.timeout.ms that a group may be given.", kind=INT, at_least=1
    )
    group_consumer_max_session_timeout_ms: int = setting(
        60_000, "The longest consumer.session.timeout.ms that a group may be given.", kind=INT, at_least=1
    )
    group_consumer_heartbeat_interval_ms: int = setting(
        5000, "How often members of consumer groups send a heartbeat.", kind=INT, at_least=1
    )
    group_consumer_min_heartbeat_interval_ms: int = setting(
        5000, "The shortest consumer.heartbeat.interval.ms that a group may be given.", kind=INT, at_least=1
    )
    group_consumer_max_heartbeat_interval_ms: int = setting(
        15_000, "The longest consumer.heartbeat.interval.ms that a group may be given.", kind=INT, at_least=1
    )
    group_consumer_assignment_interval_ms: int = setting(
        1000, "A consumer group gets another target after so long at the earliest.", kind=INT, at_least=0
    )
    group_consumer_min_assignment_interval_ms: int = setting(
        0, "The shortest consumer.assignment.interval.ms that a group may be given.", kind=INT, at_least=0
    )
    group_consumer_max_assignment_interval_ms: int = setting(
        15_000, "The longest consumer.assignment.interval.ms that a group may be given.", kind=INT, at_least=0
    )
    group_consumer_max_size: int = setting(INT_MAX, "Members of a consumer group at most.", kind=INT, at_least=1)
    group_consumer_assignors: tuple[str, ...] = setting(
        (UNIFORM, RANGE),
        "Assignors that members of consumer groups may name; the first is the default.",
        kind=LIST,
        choices=(UNIFORM, RANGE),
    )
    group_consumer_migration_policy: str = setting(
        MigrationPolicy.BIDIRECTIONAL.value,
        "Whether groups with members change between classic and consumer group as their clients do.",
        kind=STRING,
        choices=tuple(policy.value for policy in MigrationPolicy),
        ignores_case=True,
    )
    group_consumer_regex_refresh_interval_ms: int = setting(
        600_000,
        "Topics of a group's regular expressions are looked for again after so long.",
        kind=INT,
        at_least=10_000,
    )
    group_share_max_share_sessions: int = setting(
        2000, "Share sessions on this broker: members that fetch from it.", kind=INT, at_least=1
    )
    eosin_share_max_partitions: int = setting(
        10_000, "Share partitions on this broker, each a partition as one share group reads it.", kind=INT, at_least=1
    )
    errors_deadletterqueue_topic_name_prefix: str = setting(
        "dlq.", "Beginning of the names of topics for dead letters (KIP-1191); empty allows any.", kind=STRING
    )
    errors_deadletterqueue_auto_create_topics_enable: bool = setting(
        False, "Create the topic for a share group's dead letters when the first one is written.", kind=BOOLEAN
    )
    offset_metadata_max_bytes: int = setting(4096, "The longest note beside a committed offset.", kind=INT, at_least=0)
    offsets_commit_timeout_ms: int = setting(5000, "How long a commit waits to be durable.", kind=INT, at_least=1)
    offsets_retention_minutes: int = setting(
        10_080, "Offsets of an empty group are kept this long.", kind=INT, at_least=1
    )
    offsets_retention_check_interval_ms: int = setting(
        600_000, "Between two looks for offsets to forget.", kind=LONG, at_least=1
    )
    offsets_topic_num_partitions: int = setting(50, "Partitions of __consumer_offsets.", kind=INT, at_least=1)
    offsets_topic_segment_bytes: int = setting(104_857_600, "Segments of __consumer_offsets.", kind=INT, at_least=1)
    offsets_topic_replication_factor: int = setting(
        1, "Replicas of __consumer_offsets; more than there are brokers is capped. (Kafka: 3)", kind=SHORT, at_least=1
    )
    offsets_topic_compression_codec: int = setting(
        0, "Codec of the offsets' batches; 0 is none.", kind=INT, at_least=0, at_most=4
    )

    # Share groups: the durable states of their partitions (share-state.md section 7)
    share_coordinator_state_topic_num_partitions: int = setting(
        50, "Partitions of __share_group_state, which comes with the first share group.", kind=INT, at_least=1
    )
    share_coordinator_state_topic_replication_factor: int = setting(
        1, "Replicas of __share_group_state; more than there are brokers is capped. (Kafka: 3)", kind=SHORT, at_least=1
    )
    share_coordinator_state_topic_min_isr: int = setting(
        1, "Replicas that must have it; capped likewise. (Kafka: 2)", kind=SHORT, at_least=1
    )
    share_coordinator_state_topic_segment_bytes: int = setting(
        104_857_600, "Segments of __share_group_state.", kind=INT, at_least=1
    )
    share_coordinator_state_topic_compression_codec: int = setting(
        0, "Codec of the states' batches; 0 is none.", kind=INT, at_least=0, at_most=4
    )
    share_coordinator_state_topic_prune_interval_ms: int = setting(
        300_000, "Between two looks for records of states that nobody needs any more.", kind=INT, at_least=1
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = setting(
        500, "After so many updates of a state all of it is written again.", kind=INT, at_least=0, at_most=500
    )
    share_coordinator_cold_partition_snapshot_interval_ms: int = setting(
        300_000,
        "A state that keeps old records in the log is written again after so long at the earliest.",
        kind=INT,
        at_least=1,
    )
    share_coordinator_write_timeout_ms: int = setting(
        5000, "How long a request about a state waits to be durable.", kind=INT, at_least=1
    )

    # Rights (security.md section 4)
    authorizer_class_name: str = setting(
        "",
        f"Who decides what clients may do: {STANDARD_AUTHORIZER}; empty: everybody may do everything.",
        kind=STRING,
    )
    super_users: str = setting(
        "",
        "Principals that may do everything, TYPE:NAME with semicolons between them, as User:admin;User:CN=ops,O=us.",
        kind=STRING,
    )
    allow_everyone_if_no_acl_found: bool = setting(
        False, "Whether everybody may do everything to a resource that no access control entry is about.", kind=BOOLEAN
    )
    eosin_acl_max_entries: int = setting(100_000, "Access control entries at most.", kind=INT, at_least=1)

    # Eosin's own
    eosin_durability: str = setting(
        "fsync",
        "What an acknowledged write has survived: power loss, a killed process, or nothing.",
        kind=STRING,
        choices=DURABILITIES,
    )
    eosin_transaction_version: int = setting(
        2,
        "The highest transaction protocol offered to clients: 2 is KIP-890 in full.",
        kind=INT,
        at_least=SUPPORTED_ALONE[TRANSACTION_VERSION][0],
        at_most=SUPPORTED_ALONE[TRANSACTION_VERSION][1],
    )
    eosin_end_txn_marker_wait_ms: int = setting(
        5,
        "EndTxn may hold its response this long for the markers to be synced; without syncs they follow it at once.",
        kind=INT,
        at_least=0,
        at_most=1000,
    )
    eosin_concurrent_transactions_wait_ms: int = setting(
        500,
        "A CONCURRENT_TRANSACTIONS error may wait this long for the event that clears it.",
        kind=INT,
        at_least=0,
        at_most=10_000,
    )
    eosin_marker_retry_backoff_ms: int = setting(
        20, "Before markers, or a record in doubt, are written again; doubled each time.", kind=INT, at_least=1
    )
    eosin_marker_retry_backoff_max_ms: int = setting(1000, "The longest such wait.", kind=INT, at_least=1)
    eosin_group_new_member_join_timeout_ms: int = setting(
        300_000, "How long a member may wait in its first join phase.", kind=INT, at_least=1
    )
    eosin_group_max_pending_members: int = setting(
        10_000, "Member ids of a group handed out and not yet used; the oldest makes room.", kind=INT, at_least=1
    )
    eosin_group_max_groups: int = setting(1_000_000, "Groups of this broker at most.", kind=INT, at_least=1)
    eosin_group_member_metadata_max_bytes: int = setting(
        1_048_576, "Names and metadata of protocols that one member may bring along.", kind=INT, at_least=1
    )
    eosin_principal_group_bytes_max: int = setting(
        268_435_456,
        "What members of groups bring along, and are assigned, of one user together; 0: no limit.",
        kind=LONG,
        at_least=0,
    )
    eosin_disk_reserve_bytes: int = setting(
        16 * 1024 * 1024,
        "Held back in the data directory for the time when the disk is full, so that deletion, checkpoints, a stop and"
        " a start find room; at most a 32nd of the file system. 0 holds nothing back.",
        kind=LONG,
        at_least=0,
    )
    eosin_journal_size_bytes: int = setting(
        64 * 1024 * 1024,
        "Bytes of all files of the journal together; 0: there is none, and each log is synced by itself. It bounds what"
        " a start after a crash has to compare with the logs.",
        kind=INT,
        at_least=0,
        at_most=1 << 30,
    )
    eosin_journal_direct_bytes: int = setting(
        64 * 1024,
        "A log that has this many bytes to make durable at once is synced by itself and leaves the journal out.",
        kind=INT,
        at_least=1,
    )
    eosin_flush_threads: int = setting(4, "Threads that sync files side by side.", kind=INT, at_least=1, at_most=64)
    eosin_connection_max_in_flight_requests: int = setting(
        64, "Requests of one connection handled at a time; reading stops there.", kind=INT, at_least=1, at_most=10_000
    )
    eosin_connection_max_frames_per_turn: int = setting(
        32,
        "Requests of one connection begun before other connections get their turn.",
        kind=INT,
        at_least=1,
        at_most=10_000,
    )
    eosin_connection_write_buffer_max_bytes: int = setting(
        1_048_576,
        "Unsent response bytes of a connection at which the broker begins none of its requests.",
        kind=INT,
        at_least=0,
    )
    eosin_connection_unread_timeout_ms: int = setting(
        60_000,
        "Close a connection whose client takes no byte of its responses for this long; -1 never.",
        kind=INT,
        at_least=-1,
    )
    eosin_metadata_answers_max_bytes: int = setting(
        67_108_864,
        "Memory for encoded responses to Metadata of all topics, kept until the metadata changes; 0 keeps none.",
        kind=LONG,
        at_least=0,
    )
    eosin_fetch_response_memory_bytes: int = setting(
        67_108_864,
        "Memory of unsent records in Fetch responses over all connections; beyond it, one batch per response.",
        kind=LONG,
        at_least=0,
    )
    eosin_connection_refused_delay_ms: int = setting(
        1000,
        "A client that repeats a refused request is closed only after this; 0 at once.",
        kind=INT,
        at_least=0,
        at_most=60_000,
    )
    eosin_connection_max_refused: int = setting(
        100,
        "Connections kept open at a time for that delay, at most a quarter of the possible connections.",
        kind=INT,
        at_least=0,
    )
    eosin_slow_request_log_ms: int = setting(
        0,
        "Log requests that take this long, except Fetch, JoinGroup and SyncGroup, which wait as asked; 0 logs none.",
        kind=INT,
        at_least=0,
    )
    eosin_http_listener: str = setting(
        "",
        "Where to listen for HTTP, [HOST:]PORT without a host for 127.0.0.1: health, metrics, and the facts for `eosin"
        " explain`; empty: nowhere.",
        kind=STRING,
    )
    eosin_http_ssl_enable: bool = setting(
        False,
        "Whether the HTTP listener speaks TLS, with ssl.keystore.location and its like, or with its own:"
        " listener.name.http.ssl.keystore.location.",
        kind=BOOLEAN,
    )
    eosin_console_enable: bool = setting(
        False, "Whether the HTTP listener serves the live console, too. (docs/console.md)", kind=BOOLEAN
    )
    eosin_console_actions_enable: bool = setting(
        False,
        "Whether the console may end transactions, change topics and write test records; needs eosin.http.token.file.",
        kind=BOOLEAN,
    )
    eosin_console_records: str = setting(
        "full",
        "How much of records the console shows: their values too, keys alone, or nothing.",
        kind=STRING,
        choices=("full", "keys", "off"),
    )
    eosin_console_principal: str = setting(
        "User:ANONYMOUS",
        "With an authorizer: as whom the console reads records; anybody else than User:ANONYMOUS needs"
        " eosin.http.token.file.",
        kind=STRING,
    )
    eosin_http_token_file: str = setting(
        "",
        "A file with the token that HTTP requests must carry, but for health; needed where other machines can reach"
        " the HTTP listener.",
        kind=STRING,
    )
    eosin_http_allowed_hosts: tuple[str, ...] = setting(
        (),
        "Names besides addresses, localhost and this machine's own by which the HTTP listener may be asked.",
        kind=LIST,
    )
    eosin_http_public_metrics: bool = setting(
        False, "Whether /metrics needs no token, as health needs none.", kind=BOOLEAN
    )
    eosin_recorder_max_bytes: int = setting(
        -1,
        "Memory for what happened to transactional ids, and why; 0 records nothing; -1: 16 MiB with"
        " eosin.http.listener or eosin.tracing.endpoint, else nothing.",
        kind=LONG,
        at_least=-1,
    )
    eosin_tracing_endpoint: str = setting(
        "",
        "The URL of an OpenTelemetry collector (OTLP over HTTP) that gets transactions as spans; without a path,"
        " /v1/traces; empty: none. Needs eosin[otel].",
        kind=STRING,
    )
    eosin_tracing_ratio: float = setting(
        1.0,
        "The share of committed and aborted transactions that become spans; all that were fenced or timed out do.",
        kind=DOUBLE,
        at_least=0,
        at_most=1,
    )
    eosin_tracing_queue_max_spans: int = setting(
        4096, "Spans that may wait for the collector; more are dropped, and counted.", kind=INT, at_least=64
    )
    eosin_metrics_max_partitions: int = setting(
        2000, "Partitions that have metrics of their own; the others count in their topic's.", kind=INT, at_least=0
    )
    eosin_shutdown_timeout_ms: int = setting(
        5000, "How long a stopping broker lets running requests finish.", kind=INT, at_least=0
    )
    eosin_event_loop: str = setting(
        "auto",
        "The event loop; auto is uvloop where it is installed.",
        kind=STRING,
        choices=("auto", "uvloop", "asyncio"),
    )
    eosin_log_level: str = setting(
        "info", "How much is logged.", kind=STRING, choices=("debug", "info", "warning", "error")
    )

    eosin_log_format: str = setting(
        "text", "Log lines for people or for collectors.", kind=STRING, choices=("text", "json")
    )

    given: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The texts that were set explicitly, by key (aliases resolved): what is not a default."""
    overrides: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """The typed values of keys that hold for one listener, by key: `listener.name.NAME.KEY`."""
    references: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The texts of settings whose values stand elsewhere, as `${file:...}`, by key (security.md 6.3.2)."""
    topic_defaults: LogConfig = field(init=False, repr=False)
    """The configs of a topic that sets none of its own."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "topic_defaults", defaults_from({name: self.value(name) for name in BROKER_SETTINGS}))

    def value(self, name: str) -> Any:
        """The typed value of a key of `BROKER_SETTINGS`."""
        return getattr(self, name.replace(".", "_"))

    def text(self, name: str) -> str | None:
        """The value of a key as Kafka writes it; None when it is not set. Where it stands elsewhere, where that is."""
        return self.references.get(name) or value_text(self.value(name))

    def for_listener(self, name: str, listener: str, *, mechanism: str = "") -> Any:
        """The typed value of a key for one listener, and for one SASL mechanism on it (security.md 2.1.2)."""
        value = self.value(name)
        if not self.overrides:
            return value
        return resolved(name, overrides=self.overrides, broker_wide=value, listener=listener, mechanism=mechanism)

    @property
    def limits_connections(self) -> bool:
        """True if anything else than the number of open files limits connections."""
        return bool(
            self.max_connections < INT_MAX
            or self.max_connections_per_ip < INT_MAX
            or self.max_connections_per_ip_overrides
            or self.max_connection_creation_rate < INT_MAX
            or self.eosin_principal_connections_max
            or any(key.endswith((".max.connections", ".max.connection.creation.rate")) for key in self.overrides)
        )

    @property
    def connections_by_address(self) -> dict[str, int]:
        """The numbers of `max.connections.per.ip.overrides`, by address. Raises `SettingError`."""
        return connections_by_address(self.max_connections_per_ip_overrides)

    @property
    def protocols(self) -> dict[str, str]:
        """The security protocol of each listener: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, by the listener's
        name."""
        return protocols_of([each.name for each in self.bound_listeners], self.listener_security_protocol_map)

    @property
    def bound_listeners(self) -> tuple[Listener, ...]:
        """The listeners to open."""
        return parse_listeners(self.listeners, key="listeners")

    @property
    def announced_listeners(self) -> tuple[Listener, ...]:
        """The addresses that clients are given, for the listeners that have one of their own."""
        return parse_listeners(self.advertised_listeners, key="advertised.listeners")

    @property
    def held_listeners(self) -> frozenset[str]:
        """The names of the listeners that answer nobody before the address for their clients is told."""
        named = frozenset(self.eosin_advertise_later)
        return frozenset(each.name for each in self.bound_listeners if named & {each.name, EVERY_LISTENER})

    @property
    def is_joined(self) -> bool:
        """True if this broker belongs to a cluster that has controllers, not a cluster of its own (cluster.md 1.2)."""
        return bool(self.controller_quorum_bootstrap_servers or self.controller_quorum_voters)

    @property
    def controllers(self) -> tuple[tuple[str, int], ...]:
        """Joined mode: hosts and ports of controllers to ask first."""
        return bootstrap_servers(self)

    @property
    def voters(self) -> tuple[QuorumVoter, ...]:
        """Joined mode: the controllers of a static quorum."""
        return quorum_voters(self)

    @property
    def inter_broker_listener(self) -> str:
        """Joined mode: the name of the listener on which brokers reach each other."""
        return inter_broker_listener(self)

    @property
    def inter_broker_protocol(self) -> str:
        """Joined mode: what that listener speaks."""
        return self.protocols[self.inter_broker_listener]

    @property
    def controller_listener(self) -> str:
        """Joined mode: the name of the listener of controllers that this broker connects to."""
        return self.controller_listener_names[0].upper()

    @property
    def controller_protocol(self) -> str:
        """Joined mode: what that listener speaks."""
        return controller_protocol(self.controller_listener_names, protocol_map(self.listener_security_protocol_map))

    @property
    def has_secured_links(self) -> bool:
        """True if this broker connects to other nodes of its cluster by anything else than PLAINTEXT."""
        return self.is_joined and (self.inter_broker_protocol, self.controller_protocol) != (PLAINTEXT, PLAINTEXT)

    @property
    def is_observed(self) -> bool:
        """True if the flight recorder, the HTTP listener or traces are configured (console.md 2 and 4)."""
        return bool(self.eosin_http_listener or self.eosin_tracing_endpoint) or self.eosin_recorder_max_bytes > 0

    @property
    def has_authorizer(self) -> bool:
        """True if access control entries decide about the rights of clients."""
        return bool(self.authorizer_class_name)

    @property
    def super_principals(self) -> tuple[str, ...]:
        """The principals that may do everything."""
        return tuple(each for each in (part.strip() for part in self.super_users.split(";")) if each)

    @property
    def recovers_from_timeouts(self) -> bool:
        """True if a producer may continue after its transaction timed out. Only verification keeps its late writes
        out."""
        return self.transaction_timeout_recovery == "on" and self.transaction_partition_verification_enable

    @property
    def data_dir(self) -> str | None:
        """The data directory; None when nothing is written (durability memory)."""
        return None if self.eosin_durability == "memory" else self.log_dirs[0]

    @property
    def durability(self) -> Durability:
        """The durability level."""
        return cast(Durability, self.eosin_durability)


BROKER_SETTINGS: Final[Mapping[str, Setting]] = settings_of(BrokerConfig)
"""Every broker setting, by key."""
