"""`QuorumSettings`: the settings of a broker that joins a quorum of controllers, and what must be true of them together
(cluster.md 1.2).

A broker joins when it is told where controllers are. Without that, these settings mean nothing and are reported as
unused. Names, meaning and defaults are Kafka's, but for those that start with `eosin.`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from eosin.model.features import LEVEL_SETTINGS
from eosin.protocol.names import is_usable_uuid
from eosin.settings.listeners import PROTOCOL_MAP, PROTOCOLS
from eosin.settings.settings import INT_MAX, Setting, SettingError, SettingKind, setting, settings_of

if TYPE_CHECKING:
    from eosin.settings.broker import BrokerConfig

_MIB: Final = 1024 * 1024
PLAINTEXT: Final = "PLAINTEXT"
MAX_CLUSTER_NAME: Final = 64
EVERY_DIRECTORY: Final = "*"
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_ONLY: Final = "org.apache.kafka.common.replica.LeaderSelector"


# `BrokerConfig` gets these methods with all fields; another set of them would only cost each start time.
@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class QuorumSettings:
    """The settings, typed. `BrokerConfig` inherits them."""

    process_roles: tuple[str, ...] = setting(
        (),
        "May be given; the only role of Eosin is broker. broker,controller of one node runs alone. (docs/image.md)",
        kind=SettingKind.LIST,
    )
    controller_quorum_bootstrap_servers: tuple[str, ...] = setting(
        (),
        "Controllers to ask first, HOST:PORT; with them, or voters, the broker joins their cluster.",
        kind=SettingKind.LIST,
    )
    controller_quorum_voters: tuple[str, ...] = setting(
        (), "All controllers of a static quorum, ID@HOST:PORT.", kind=SettingKind.LIST
    )
    controller_listener_names: tuple[str, ...] = setting(
        (), "The listener of controllers that the broker connects to: the first of these names.", kind=SettingKind.LIST
    )
    inter_broker_listener_name: str | None = setting(
        None, "The listener of other brokers that the broker connects to; unset: the next.", kind=SettingKind.STRING
    )
    security_inter_broker_protocol: str = setting(
        PLAINTEXT,
        "The same for a listener that has the name of its protocol.",
        kind=SettingKind.STRING,
        choices=PROTOCOLS,
    )
    sasl_mechanism_inter_broker_protocol: str | None = setting(
        None,
        "How the broker logs in to other brokers: SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN. (Kafka: GSSAPI)",
        kind=SettingKind.STRING,
    )
    sasl_mechanism_controller_protocol: str | None = setting(
        None, "How the broker logs in to controllers, likewise. (Kafka: GSSAPI)", kind=SettingKind.STRING
    )
    ssl_endpoint_identification_algorithm: str = setting(
        "https",
        "https: certificates of other brokers and of controllers must hold the name that was dialled; empty: any name.",
        kind=SettingKind.STRING,
    )
    broker_rack: str | None = setting(None, "The rack of this broker, as the cluster is told.", kind=SettingKind.STRING)
    replica_selector_class: str | None = setting(
        None,
        "RackAwareReplicaSelector sends a consumer that names its rack to a follower there.",
        kind=SettingKind.STRING,
        choices=(RACK_AWARE, LEADER_ONLY),
    )
    broker_heartbeat_interval_ms: int = setting(2000, "Between two heartbeats.", kind=SettingKind.INT, at_least=1)
    broker_session_timeout_ms: int = setting(
        9000,
        "The controllers' value counts: so long after its last heartbeat a broker is fenced.",
        kind=SettingKind.INT,
        at_least=1,
    )
    initial_broker_registration_timeout_ms: int = setting(
        60_000, "A broker that is not registered by then gives up and exits.", kind=SettingKind.INT, at_least=1
    )
    controller_quorum_request_timeout_ms: int = setting(
        2000, "Longest wait for a controller's response to a request about metadata.", kind=SettingKind.INT, at_least=1
    )
    controller_quorum_fetch_timeout_ms: int = setting(
        2000,
        "A controller that does not answer fetches of metadata for so long is left for another.",
        kind=SettingKind.INT,
        at_least=1,
    )
    controller_quorum_retry_backoff_ms: int = setting(
        20, "Before a failed fetch of metadata is tried again.", kind=SettingKind.INT, at_least=0
    )
    controller_quorum_fetch_max_bytes: int = setting(
        _MIB, "Bytes of metadata in one response at most.", kind=SettingKind.INT, at_least=1
    )
    controller_quorum_fetch_snapshot_max_bytes: int = setting(
        _MIB, "Bytes of a snapshot of the metadata in one response at most.", kind=SettingKind.INT, at_least=1
    )
    controller_socket_timeout_ms: int = setting(
        30_000,
        "A connection to the controller that is silent for so long is given up.",
        kind=SettingKind.INT,
        at_least=1,
    )
    replica_lag_time_max_ms: int = setting(
        30_000, "A follower that has not caught up for so long leaves the ISR.", kind=SettingKind.INT, at_least=1
    )
    num_replica_fetchers: int = setting(
        1, "Connections to each leader that this broker follows.", kind=SettingKind.INT, at_least=1, at_most=64
    )
    replica_fetch_wait_max_ms: int = setting(
        500,
        "How long a leader may wait for records; at most replica.lag.time.max.ms.",
        kind=SettingKind.INT,
        at_least=0,
    )
    replica_fetch_min_bytes: int = setting(
        1, "Bytes of records that a leader waits for.", kind=SettingKind.INT, at_least=0
    )
    replica_fetch_max_bytes: int = setting(
        _MIB, "Bytes of one partition in one response to a follower.", kind=SettingKind.INT, at_least=0
    )
    replica_fetch_response_max_bytes: int = setting(
        10 * _MIB, "Bytes of records in one response to a follower.", kind=SettingKind.INT, at_least=0
    )
    replica_fetch_backoff_ms: int = setting(
        1000, "Before a partition whose fetch failed is fetched again.", kind=SettingKind.INT, at_least=0
    )
    replica_socket_timeout_ms: int = setting(
        30_000, "A connection to a leader that is silent for so long is given up.", kind=SettingKind.INT, at_least=1
    )
    replica_high_watermark_checkpoint_interval_ms: int = setting(
        5000, "Between two writes of the high watermarks.", kind=SettingKind.LONG, at_least=1
    )
    log_dir_failure_timeout_ms: int = setting(
        30_000,
        "How long a broker whose directory has failed waits to tell the controller.",
        kind=SettingKind.LONG,
        at_least=1,
    )
    eosin_log_failures_max: int = setting(
        3,
        "So many logs that fail within a minute are a directory that has failed: the broker tells the controller and"
        " exits.",
        kind=SettingKind.INT,
        at_least=1,
    )
    eosin_disk_full_fence_ms: int = setting(
        10_000,
        "A disk that has been full for so long lets other brokers lead; until 5 % of it, or 1 GiB, are free again.",
        kind=SettingKind.INT,
        at_least=0,
    )
    cordoned_log_dirs: tuple[str, ...] = setting(
        (), "The data directory, or *: it gets no new replicas (KIP-1066).", kind=SettingKind.LIST
    )
    eosin_cluster_id: str | None = setting(
        None, "The cluster that an empty data directory is formatted for (--cluster-id).", kind=SettingKind.STRING
    )
    eosin_controlled_shutdown_timeout_ms: int = setting(
        30_000,
        "How long a stopping broker waits for its leaderships to move away. (Kafka: for ever)",
        kind=SettingKind.INT,
        at_least=0,
    )
    eosin_replica_sync_patience_ms: int = setting(
        200,
        "A followed partition whose sync takes longer is left out of fetches until it is done.",
        kind=SettingKind.INT,
        at_least=0,
        at_most=INT_MAX,
    )


LINK_PER_LISTENER: Final = frozenset({"ssl.endpoint.identification.algorithm"})
"""Keys that a listener which the broker connects to may have for itself."""

QUORUM_SETTINGS: Final[Mapping[str, Setting]] = settings_of(QuorumSettings)
"""Every such setting, by key."""

JOINED_DEFAULTS: Final = {
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
}
"""Kafka's defaults where a broker that runs alone has others."""

STANDALONE_ONLY: Final = {key: f"the finalized {feature} of the cluster" for feature, key in LEVEL_SETTINGS.items()}
"""Settings that choose what the quorum decides for a broker that joins one, and what counts instead."""


class QuorumVoter(NamedTuple):
    """A controller of a static quorum."""

    node_id: int
    host: str
    port: int


def parse_server(text: str, *, key: str) -> tuple[str, int]:
    """The host and port of a controller. Raises SettingError."""
    host, colon, port = text.rpartition(":")
    if not (colon and host.strip("[]") and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise SettingError(f"{key} must be a list of HOST:PORT, not {text!r}")
    return host.strip("[]"), int(port)


def parse_voter(text: str) -> QuorumVoter:
    """One of `controller.quorum.voters`. Raises SettingError."""
    node_id, at, server = text.partition("@")
    if not (at and node_id.isascii() and node_id.isdigit() and int(node_id) <= INT_MAX):
        raise SettingError(f"controller.quorum.voters must be a list of ID@HOST:PORT, not {text!r}")
    try:
        host, port = parse_server(server, key="controller.quorum.voters")
    except SettingError:
        raise SettingError(f"controller.quorum.voters must be a list of ID@HOST:PORT, not {text!r}") from None
    return QuorumVoter(int(node_id), host, port)


def check_alone(config: "BrokerConfig") -> None:
    """Check that a broker that runs alone has no settings of a quorum. Raises SettingError."""
    if config.process_roles:
        raise SettingError(
            f"process.roles={','.join(config.process_roles)} is for brokers of a quorum: give its controllers in"
            " controller.quorum.bootstrap.servers, or leave process.roles out for a broker that runs alone"
        )
    if config.eosin_cluster_id is not None and not is_cluster_name(config.eosin_cluster_id):
        raise SettingError(
            f"eosin.cluster.id must be 1 to {MAX_CLUSTER_NAME} characters without blanks, not"
            f" {config.eosin_cluster_id!r}"
        )


def is_cluster_name(text: str) -> bool:
    """True if a broker that runs alone may have this cluster id: unlike a quorum's, it need not be a UUID."""
    return 0 < len(text) <= MAX_CLUSTER_NAME and text.isprintable() and not any(each.isspace() for each in text)


def check_joined(config: "BrokerConfig", *, protocols: Mapping[str, str], on_command_line: frozenset[str]) -> None:
    """Check the settings of a broker that joins a quorum. `protocols` is `listener.security.protocol.map`;
    `on_command_line` names the settings that the command line gives. Raises SettingError."""
    _check_identity(config)
    _check_controllers(config, protocols)
    _check_listeners(config)
    _check_times(config)
    _check_directory(config, on_command_line)
    for key, instead in STANDALONE_ONLY.items():
        if key in config.given:
            raise SettingError(f"{key} is for a broker that runs alone; leave it out: {instead} counts")


def warnings_of(config: "BrokerConfig") -> Sequence[str]:
    """Warnings for the author of the settings of a broker that joins a quorum."""
    warnings = []
    if 2 * config.broker_heartbeat_interval_ms > config.broker_session_timeout_ms:
        warnings.append(
            f"broker.heartbeat.interval.ms ({config.broker_heartbeat_interval_ms}) is more than half of"
            f" broker.session.timeout.ms ({config.broker_session_timeout_ms}): one lost heartbeat may fence this broker"
        )
    if config.eosin_durability == "memory":
        warnings.append(
            "durability memory: everything that this broker holds is gone after a stop, and other replicas have to"
            " bring it back; for tests only"
        )
    return warnings


def _check_identity(config: "BrokerConfig") -> None:
    if config.process_roles not in ((), ("broker",)):
        raise SettingError(
            f"process.roles must be broker, the only role of Eosin, not {','.join(config.process_roles)!r}"
        )
    if "node.id" not in config.given:
        raise SettingError(
            f"node.id must be given to join a quorum: an integer from 0 to {INT_MAX} of this broker alone"
        )
    if config.eosin_cluster_id is not None:
        check_cluster_id(config.eosin_cluster_id, key="--cluster-id")


def check_cluster_id(text: str, *, key: str) -> None:
    """Raises SettingError unless `text` can be the id of a cluster (cluster.md 1.3)."""
    if len(text) != 22 or not is_usable_uuid(text):
        raise SettingError(f"{key} must be 22 characters of URL-safe base64, as kafka-storage random-uuid prints them")


def _check_controllers(config: "BrokerConfig", protocols: Mapping[str, str]) -> None:
    for server in config.controller_quorum_bootstrap_servers:
        parse_server(server, key="controller.quorum.bootstrap.servers")
    voters = [parse_voter(text) for text in config.controller_quorum_voters]
    if config.node_id in (voter.node_id for voter in voters):
        raise SettingError(
            f"node.id must not be a controller's, and controller.quorum.voters has a controller {config.node_id}"
        )
    if not config.controller_listener_names:
        raise SettingError("controller.listener.names must name the listener of the controllers, as CONTROLLER")
    name = config.controller_listener_names[0].upper()
    if name in (listener.name for listener in config.bound_listeners):
        raise SettingError(f"controller.listener.names must not name a listener of this broker, and {name} is one")
    if protocols and name not in protocols:
        raise SettingError(f"listener.security.protocol.map must map {name}, the first of controller.listener.names")
    if not protocols and name not in PROTOCOLS and set(config.protocols.values()) != {PLAINTEXT}:
        # Kafka does not take it for PLAINTEXT either: a forgotten entry must not become an open door.
        raise SettingError(f"{PROTOCOL_MAP} must say what {name} speaks, as in {name}:PLAINTEXT or {name}:SASL_SSL")


def _check_listeners(config: "BrokerConfig") -> None:
    if config.inter_broker_listener_name is not None and "security.inter.broker.protocol" in config.given:
        raise SettingError(
            "one of inter.broker.listener.name and security.inter.broker.protocol must be given, not both"
        )
    names = [listener.name for listener in config.bound_listeners]
    if config.inter_broker_listener not in names:
        raise SettingError(
            f"inter.broker.listener.name must be one of the listeners {', '.join(names)}, not"
            f" {config.inter_broker_listener!r}"
        )


def _check_times(config: "BrokerConfig") -> None:
    if config.replica_fetch_wait_max_ms > config.replica_lag_time_max_ms:
        raise SettingError(
            f"replica.fetch.wait.max.ms ({config.replica_fetch_wait_max_ms}) must not be above replica.lag.time.max.ms"
            f" ({config.replica_lag_time_max_ms})"
        )
    if config.replica_socket_timeout_ms <= config.replica_fetch_wait_max_ms:
        raise SettingError(
            f"replica.socket.timeout.ms ({config.replica_socket_timeout_ms}) must be above replica.fetch.wait.max.ms"
            f" ({config.replica_fetch_wait_max_ms})"
        )


def _check_directory(config: "BrokerConfig", on_command_line: frozenset[str]) -> None:
    if config.cordoned_log_dirs not in ((), (EVERY_DIRECTORY,), config.log_dirs):
        raise SettingError(
            f"cordoned.log.dirs must be {EVERY_DIRECTORY}, the directory of log.dirs, or empty, not"
            f" {','.join(config.cordoned_log_dirs)!r}"
        )
    if config.eosin_durability != "memory":
        return
    if "eosin.durability" not in on_command_line:
        raise SettingError(
            "eosin.durability memory must be given on the command line to join a quorum: it is for tests"
        )
    factors = (config.offsets_topic_replication_factor, config.transaction_state_log_replication_factor)
    if config.min_insync_replicas == 1 and min(factors) == 1:
        raise SettingError(
            "eosin.durability memory loses internal topics of one replica at a stop: raise min.insync.replicas, or"
            " offsets.topic.replication.factor and transaction.state.log.replication.factor, to 2 or more"
        )


def quorum_voters(config: QuorumSettings) -> tuple[QuorumVoter, ...]:
    """`controller.quorum.voters`, checked before."""
    return tuple(parse_voter(text) for text in config.controller_quorum_voters)


def bootstrap_servers(config: QuorumSettings) -> tuple[tuple[str, int], ...]:
    """The addresses to ask for the quorum's leader, as hosts and ports. The settings were checked before."""
    found: dict[tuple[str, int], Any] = {
        parse_server(text, key="controller.quorum.bootstrap.servers"): None
        for text in config.controller_quorum_bootstrap_servers
    }
    return tuple(found)


def inter_broker_listener(config: QuorumSettings) -> str:
    """The name of the listener on which brokers reach each other."""
    return (config.inter_broker_listener_name or config.security_inter_broker_protocol).upper()


def controller_protocol(names: Sequence[str], protocols: Mapping[str, str]) -> str:
    """The protocol of the controllers' listener, which is the first of `names`. `protocols` is
    `listener.security.protocol.map`."""
    name = names[0].upper() if names else ""
    return protocols.get(name, name if name in PROTOCOLS else PLAINTEXT)


def joined_values(given: Mapping[str, str]) -> dict[str, Any]:
    """The defaults that differ in joined mode, by field, for what `given` does not set."""
    return {key.replace(".", "_"): value for key, value in JOINED_DEFAULTS.items() if key not in given}
