"""Settings of a broker that joins a quorum: Kafka's names and defaults, and one sentence for what cannot be."""

import pytest
from manual_clock import ManualClock

from eosin.cluster import opened_logs
from eosin.node.configuration import load_config
from eosin.runtime.chance import SystemChance
from eosin.settings.broker import BrokerConfig
from eosin.settings.quorum import QUORUM_SETTINGS, QuorumVoter
from eosin.settings.settings import SettingError
from eosin.settings.sources import LoadedConfig
from eosin.storage.disk.memory import MemoryDisk

JOINED = {
    "node.id": "3",
    "controller.quorum.bootstrap.servers": "c1:9093,c2:9093",
    "controller.listener.names": "CONTROLLER",
}


def loaded(settings: dict[str, str] | None = None, *, command_line: tuple[str, ...] = ()) -> LoadedConfig:
    """A broker that joins a quorum, with these settings over the ones that it needs; an empty one is left out."""
    lines = {**JOINED, **(settings or {})}
    text = "".join(f"{name}={value}\n" for name, value in lines.items() if value)
    return load_config(properties=text, assignments=command_line)


def joined(settings: dict[str, str] | None = None) -> BrokerConfig:
    return loaded(settings).config


def refusal(settings: dict[str, str], *, command_line: tuple[str, ...] = ()) -> str:
    with pytest.raises(SettingError) as refused:
        loaded(settings, command_line=command_line)
    return str(refused.value)


def test_a_broker_that_is_told_where_controllers_are_joins_their_cluster() -> None:
    config = joined({"controller.quorum.voters": "1000@c1:9093, 1001@[::1]:9094"})
    assert config.is_joined
    assert config.controllers == (("c1", 9093), ("c2", 9093))
    assert config.voters == (QuorumVoter(1000, "c1", 9093), QuorumVoter(1001, "::1", 9094))
    assert not load_config().config.is_joined


def test_voters_alone_are_enough_to_join() -> None:
    assert joined({"controller.quorum.bootstrap.servers": "", "controller.quorum.voters": "1@c:9093"}).is_joined


def test_defaults_are_those_of_apache_kafka() -> None:
    config = joined()
    expected = {
        "broker.heartbeat.interval.ms": 2000,
        "broker.session.timeout.ms": 9000,
        "initial.broker.registration.timeout.ms": 60_000,
        "controller.quorum.request.timeout.ms": 2000,
        "controller.quorum.fetch.timeout.ms": 2000,
        "controller.quorum.retry.backoff.ms": 20,
        "controller.quorum.fetch.max.bytes": 1_048_576,
        "controller.quorum.fetch.snapshot.max.bytes": 1_048_576,
        "controller.socket.timeout.ms": 30_000,
        "replica.lag.time.max.ms": 30_000,
        "num.replica.fetchers": 1,
        "replica.fetch.wait.max.ms": 500,
        "replica.fetch.min.bytes": 1,
        "replica.fetch.max.bytes": 1_048_576,
        "replica.fetch.response.max.bytes": 10_485_760,
        "replica.fetch.backoff.ms": 1000,
        "replica.socket.timeout.ms": 30_000,
        "replica.high.watermark.checkpoint.interval.ms": 5000,
        "log.dir.failure.timeout.ms": 30_000,
        "offsets.topic.replication.factor": 3,
        "transaction.state.log.replication.factor": 3,
        "transaction.state.log.min.isr": 2,
    }
    assert {name: config.value(name) for name in expected} == expected
    assert config.broker_rack is None
    assert config.inter_broker_listener == "PLAINTEXT"


def test_replication_of_internal_topics_is_as_asked() -> None:
    asked = {"offsets.topic.replication.factor": "1", "transaction.state.log.min.isr": "1"}
    config = joined(asked)
    assert (config.offsets_topic_replication_factor, config.transaction_state_log_replication_factor) == (1, 3)
    assert config.transaction_state_log_min_isr == 1
    assert load_config().config.offsets_topic_replication_factor == 1


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"process.roles": "controller"},
            "process.roles=controller: Eosin has no controller; use Apache Kafka for this node (docs/cluster.md)",
        ),
        (
            {"process.roles": "broker,controller"},
            "process.roles=broker,controller with several controllers: Eosin is a broker only; run one node alone, or"
            " let brokers with process.roles=broker join controllers of Apache Kafka (docs/cluster.md)",
        ),
        (
            {"node.id": ""},
            "node.id must be given to join a quorum: an integer from 0 to 2147483647 of this broker alone",
        ),
        (
            {"controller.quorum.bootstrap.servers": "c1"},
            "controller.quorum.bootstrap.servers must be a list of HOST:PORT, not 'c1'",
        ),
        (
            {"controller.quorum.voters": "c1:9093"},
            "controller.quorum.voters must be a list of ID@HOST:PORT, not 'c1:9093'",
        ),
        (
            {"controller.quorum.voters": "1@c1"},
            "controller.quorum.voters must be a list of ID@HOST:PORT, not '1@c1'",
        ),
        (
            {"controller.quorum.voters": "3@c1:9093"},
            "node.id must not be a controller's, and controller.quorum.voters has a controller 3",
        ),
        (
            {"controller.listener.names": ""},
            "controller.listener.names must name the listener of the controllers, as CONTROLLER",
        ),
        (
            {"controller.listener.names": "PLAINTEXT"},
            "controller.listener.names must not name a listener of this broker, and PLAINTEXT is one",
        ),
        (
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
            "listener.security.protocol.map must map CONTROLLER, the first of controller.listener.names",
        ),
        (
            {"listeners": "SSL://127.0.0.1:9092", "security.inter.broker.protocol": "SSL"},
            "listener.security.protocol.map must say what CONTROLLER speaks, as in CONTROLLER:PLAINTEXT or"
            " CONTROLLER:SASL_SSL",
        ),
        (
            {"inter.broker.listener.name": "INSIDE"},
            "inter.broker.listener.name must be one of the listeners PLAINTEXT, not 'INSIDE'",
        ),
        (
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
            "one of inter.broker.listener.name and security.inter.broker.protocol must be given, not both",
        ),
        (
            {"security.inter.broker.protocol": "SSL"},
            "inter.broker.listener.name must be one of the listeners PLAINTEXT, not 'SSL'",
        ),
        (
            {"replica.fetch.wait.max.ms": "40000"},
            "replica.fetch.wait.max.ms (40000) must not be above replica.lag.time.max.ms (30000)",
        ),
        (
            {"replica.socket.timeout.ms": "500"},
            "replica.socket.timeout.ms (500) must be above replica.fetch.wait.max.ms (500)",
        ),
        (
            {"cordoned.log.dirs": "elsewhere"},
            "cordoned.log.dirs must be *, the directory of log.dirs, or empty, not 'elsewhere'",
        ),
        (
            {"eosin.transaction.version": "2"},
            "eosin.transaction.version is for a broker that runs alone; leave it out: the finalized"
            " transaction.version of the cluster counts",
        ),
        (
            {"eosin.cluster.id": "x"},
            "--cluster-id must be 22 characters of URL-safe base64, as kafka-storage random-uuid prints them",
        ),
        (
            {"eosin.durability": "memory"},
            "eosin.durability memory must be given on the command line to join a quorum: it is for tests",
        ),
    ],
)
def test_a_setting_that_cannot_be_is_refused_in_one_sentence_with_its_key(
    settings: dict[str, str], sentence: str
) -> None:
    assert refusal(settings) == sentence


def test_memory_needs_other_replicas_and_tells_so() -> None:
    memory = ("eosin.durability=memory",)
    alone = {"offsets.topic.replication.factor": "1"}
    assert "internal topics of one replica" in refusal(alone, command_line=memory)
    assert loaded(command_line=memory).warnings[0].startswith("durability memory")


def test_a_listener_on_every_address_may_go_without_an_advertised_one() -> None:
    assert joined({"listeners": "PLAINTEXT://:9092"}).bound_listeners[0].is_wildcard


def test_heartbeats_that_may_come_too_late_are_warned_of() -> None:
    (warning,) = loaded({"broker.heartbeat.interval.ms": "5000"}).warnings
    assert warning.startswith(
        "broker.heartbeat.interval.ms (5000) is more than half of broker.session.timeout.ms (9000)"
    )


def test_a_directory_can_be_cordoned_by_its_name_or_with_all() -> None:
    assert joined({"cordoned.log.dirs": "data"}).cordoned_log_dirs == ("data",)
    assert joined({"cordoned.log.dirs": "*"}).cordoned_log_dirs == ("*",)


def test_the_role_of_a_broker_without_controllers_is_refused() -> None:
    with pytest.raises(SettingError, match=r"^process\.roles=broker.* is for brokers of a quorum"):
        load_config(assignments=["process.roles=broker"])


def test_a_broker_that_runs_alone_is_told_which_settings_it_does_not_use() -> None:
    warnings = load_config(properties="broker.rack=r1\nreplica.lag.time.max.ms=5\nnum.io.threads=8").warnings
    assert warnings == (
        "Settings of brokers in a quorum, which a broker that runs alone does not use: broker.rack,"
        " replica.lag.time.max.ms",
        "Kafka settings that Eosin does not use: num.io.threads",
    )


def test_every_setting_of_a_quorum_has_a_line_about_its_meaning() -> None:
    assert all(setting.doc.endswith((".", ")")) for setting in QUORUM_SETTINGS.values())


def test_high_watermarks_are_saved_as_often_as_the_setting_says(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, object] = {}
    monkeypatch.setattr(opened_logs, "LogManager", lambda *_, **settings: given.update(settings))
    config = joined({"replica.high.watermark.checkpoint.interval.ms": "700"})
    opened_logs.open_logs(config, clock=ManualClock(), chance=SystemChance(), disk=MemoryDisk())
    assert given["high_watermark_interval_ms"] == 700
