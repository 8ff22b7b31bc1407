"""Settings: where they come from, what they may be, and what a topic inherits."""

import dataclasses
import re

import pytest
from sources import ROOMS, sources, text_of

from eosin.node.configuration import load_config
from eosin.settings.broker import BROKER_SETTINGS, BrokerConfig
from eosin.settings.kafka_keys import UNUSED
from eosin.settings.listeners import Listener, parse_listener
from eosin.settings.settings import SettingError, SettingKind, value_text
from eosin.settings.topics import TOPIC_CONFIGS, parse_topic_config, with_overrides
from eosin.storage.log.config import LogConfig


def test_without_anything_given_the_defaults_are_kafkas() -> None:
    config = load_config().config
    assert config.transaction_max_timeout_ms == 900_000
    assert config.topic_defaults == LogConfig()
    assert config.bound_listeners == (Listener("PLAINTEXT", "127.0.0.1", 9092),)
    assert config.given == {}


def test_the_later_source_wins() -> None:
    loaded = load_config(
        properties="num.partitions=2\nfetch.max.bytes=2048\nmessage.max.bytes=5",
        assignments=["num.partitions=3", "fetch.max.bytes=4096"],
        flags={"num.partitions": "4"},
    )
    assert (loaded.config.num_partitions, loaded.config.fetch_max_bytes, loaded.config.message_max_bytes) == (
        4,
        4096,
        5,
    )
    assert loaded.config.given == {"num.partitions": "4", "fetch.max.bytes": "4096", "message.max.bytes": "5"}


def test_an_unknown_setting_is_refused_with_its_nearest_neighbour() -> None:
    with pytest.raises(SettingError, match=r"unknown setting 'num\.partition'; did you mean num\.partitions\?"):
        load_config(assignments=["num.partition=1"])


def test_kafka_settings_without_a_use_here_are_listed_in_one_warning() -> None:
    loaded = load_config(properties="num.io.threads=8\nssl.provider=SunJSSE\nbroker.id=7")
    assert loaded.warnings == ("Kafka settings that Eosin does not use: num.io.threads, ssl.provider",)
    assert loaded.config.node_id == 7


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("transaction.max.timeout.ms=0", "transaction.max.timeout.ms must be an integer in ms of at least 1, not '0'"),
        ("num.partitions=many", "num.partitions must be an integer of at least 1, not 'many'"),
        ("num.partitions=1_0", "num.partitions must be an integer of at least 1, not '1_0'"),
        ("num.partitions=2147483648", "num.partitions must be an integer of at least 1, not '2147483648'"),
        ("auto.create.topics.enable=yes", "auto.create.topics.enable must be true or false, not 'yes'"),
        ("eosin.transaction.version=3", "eosin.transaction.version must be an integer from 0 to 2, not '3'"),
        ("eosin.durability=disk", "eosin.durability must be one of fsync, os, memory, not 'disk'"),
        ("log.cleanup.policy=shred", "log.cleanup.policy must be a list of delete, compact, not 'shred'"),
        (
            "log.cleaner.min.cleanable.ratio=nan",
            "log.cleaner.min.cleanable.ratio must be a number from 0 to 1, not 'nan'",
        ),
        ("log.retention.hours=0", "log.retention.hours must be -1 or at least 1, not '0'"),
        ("log.dirs=a,b", "log.dirs must name one directory, not 2"),
        ("nothing", "--set takes name=value, not 'nothing'"),
    ],
)
def test_a_value_that_cannot_be_used_is_one_sentence_with_the_key(assignment: str, sentence: str) -> None:
    with pytest.raises(SettingError) as refused:
        load_config(assignments=[assignment])
    assert str(refused.value) == sentence


def test_a_migration_policy_is_the_same_in_capital_letters() -> None:
    config = load_config(assignments=["group.consumer.migration.policy=Upgrade"]).config
    assert config.group_consumer_migration_policy == "upgrade"


@pytest.mark.parametrize("level", ["0", "1"])
def test_two_phase_commit_without_the_second_transaction_protocol_is_refused(level: str) -> None:
    settings = ["transaction.two.phase.commit.enable=true", f"eosin.transaction.version={level}"]
    with pytest.raises(
        SettingError, match=r"^transaction\.two\.phase\.commit\.enable needs eosin\.transaction\.version 2"
    ):
        load_config(assignments=settings)
    assert load_config(assignments=settings[:1]).config.transaction_two_phase_commit_enable


@pytest.mark.parametrize("kind", ["consumer", "share"])
@pytest.mark.parametrize("name", ["session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"])
def test_a_range_of_groups_without_a_value_in_it_is_refused_with_both_keys(kind: str, name: str) -> None:
    lowest, highest = f"group.{kind}.min.{name}", f"group.{kind}.max.{name}"
    with pytest.raises(SettingError) as refused:
        load_config(assignments=[f"{lowest}=50001", f"{highest}=50000"])
    assert str(refused.value) == f"{lowest} (50001) must not be above {highest} (50000)"
    assert load_config(assignments=[f"{lowest}=50000", f"{highest}=50000"]).config.value(lowest) == 50_000


def test_the_classic_protocol_cannot_be_left_out_and_others_can() -> None:
    key = "group.coordinator.rebalance.protocols"
    assert load_config(assignments=[]).config.value(key) == ("classic", "consumer", "streams")
    loaded = load_config(assignments=[f"{key}=classic,consumer,share"])
    assert (loaded.config.value(key), loaded.warnings) == (("classic", "consumer", "share"), ())
    for given, complaint in {
        "consumer": "must name classic",
        "": "must name classic",
        "classic,raft": "a list of",
    }.items():
        with pytest.raises(SettingError, match=complaint):
            load_config(assignments=[f"{key}={given}"])


def test_memory_beside_a_data_directory_is_refused() -> None:
    with pytest.raises(SettingError, match="memory writes nothing"):
        load_config(flags={"log.dirs": "somewhere", "eosin.durability": "memory"})


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("127.0.0.1:9092", Listener("PLAINTEXT", "127.0.0.1", 9092)),
        ("INSIDE=broker:9092", Listener("INSIDE", "broker", 9092)),
        ("PLAINTEXT://localhost:0", Listener("PLAINTEXT", "localhost", 0)),
        ("[::1]:9092", Listener("PLAINTEXT", "::1", 9092)),
        (":9092", Listener("PLAINTEXT", "", 9092)),
    ],
)
def test_a_listener_is_read_in_both_forms(text: str, listener: Listener) -> None:
    assert parse_listener(text, key="listeners") == listener
    assert parse_listener(str(listener), key="listeners") == listener


@pytest.mark.parametrize("text", ["", "9092", "host", "host:port", "host:65536", "a b:1", "NAME=host"])
def test_a_bad_listener_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="listeners"):
        parse_listener(text, key="listeners")


@pytest.mark.parametrize(
    ("listeners", "advertised", "complaint"),
    [
        ("0.0.0.0:9092", "", r"--advertise PLAINTEXT=HOST:9092"),
        (":9092", "", r"binds every address"),
        ("[::]:9092", "", r"binds every address"),
        ("a:1,b:2", "", r"names PLAINTEXT twice"),
        ("a:1", "OTHER=b:2", r"no listener has that name"),
        ("a:1", "0.0.0.0:1", r"that clients can connect to"),
        ("a:1", "a:0", r"that clients can connect to"),
    ],
)
def test_listeners_that_clients_could_not_reach_are_refused(listeners: str, advertised: str, complaint: str) -> None:
    with pytest.raises(SettingError, match=complaint):
        load_config(flags={"listeners": listeners, "advertised.listeners": advertised})


def test_every_address_may_be_bound_when_clients_are_told_another() -> None:
    config = load_config(flags={"listeners": "0.0.0.0:9092", "advertised.listeners": "broker.example:19092"}).config
    assert config.announced_listeners == (Listener("PLAINTEXT", "broker.example", 19092),)


@pytest.mark.parametrize(
    ("settings", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}, 3),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_a_topics_default_comes_from_the_finest_broker_setting(settings: dict[str, str], retention_ms: int) -> None:
    assert load_config(flags=settings).config.topic_defaults.retention_ms == retention_ms


def test_every_synonym_of_a_topic_config_is_a_broker_setting_with_the_same_default() -> None:
    for config in TOPIC_CONFIGS.values():
        for synonym in config.synonyms:
            assert synonym.name in BROKER_SETTINGS, synonym.name
    assert BrokerConfig().topic_defaults == LogConfig()


def test_a_topic_config_for_every_field_of_a_log_config() -> None:
    fields = {each.name for each in dataclasses.fields(LogConfig)} - {"internal_segment_bytes"}
    assert {config.field_name for config in TOPIC_CONFIGS.values()} == fields


def test_the_default_of_every_setting_reads_back_as_itself() -> None:
    for setting in (*BROKER_SETTINGS.values(), *TOPIC_CONFIGS.values()):
        text = value_text(setting.default)
        if text is not None:
            value = setting.parse(text)
            assert (frozenset(value) if isinstance(setting.default, frozenset) else value) == setting.default


def test_every_setting_is_documented_and_in_one_list_only() -> None:
    for name, setting in BROKER_SETTINGS.items():
        assert setting.doc.endswith((".", ")")), name
        assert name not in UNUSED, name
        if (
            setting.kind in (SettingKind.INT, SettingKind.LONG, SettingKind.SHORT) and name != "log.retention.bytes"
        ):  # below 0: no limit
            assert setting.at_least is not None, f"{name} has no lower limit"


def test_every_setting_is_used_somewhere() -> None:
    code = "\n".join(text_of(path) for path in sources(*ROOMS) if path.name not in ("config.py", "kafka_keys.py"))
    code = re.sub(r"^    \w+: .*= setting\(", "", code, flags=re.MULTILINE)  # a declaration is no use
    synonyms = {synonym.name for config in TOPIC_CONFIGS.values() for synonym in config.synonyms}
    idle = [
        name
        for name, setting in BROKER_SETTINGS.items()
        if name not in synonyms and setting.field_name not in code and f'"{name}"' not in code
    ]
    assert not idle


def test_a_topics_own_configs_override_the_defaults() -> None:
    config = with_overrides(LogConfig(), {"retention.ms": "5", "cleanup.policy": "compact,delete"})
    assert config == LogConfig(retention_ms=5, cleanup_policy=frozenset({"compact", "delete"}))
    assert with_overrides(LogConfig(), {"internal.segment.bytes": "100"}).segment_limit_bytes == 100


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("retention.sm", "1", "Unknown topic config name: retention.sm"),
        ("message.format.version", "2.0", "Unknown topic config name"),
        ("segment.bytes", "100", "at least 1048576"),
        ("remote.storage.enable", "true", "no tiered storage"),
        ("compression.gzip.level", "0", "from 1 to 9"),
        ("cleanup.policy", "delete,burn", "a list of delete, compact"),
        ("local.retention.ms", "-3", "at least -2"),
        ("local.retention.bytes", "-3", "at least -2"),
        ("retention.ms", "-2", "at least -1"),
        *(
            (f"{side}.replication.throttled.replicas", text, r"partition:broker")
            for side in ("leader", "follower")
            for text in ("x", "0:", "a:b", "0:1,*", "*,*", "-1:0", "0:-1", "0:1:2", "0 :1")
        ),
    ],
)
def test_a_topic_config_that_cannot_be_used_is_refused(name: str, text: str, complaint: str) -> None:
    with pytest.raises(SettingError, match=complaint):
        parse_topic_config(name, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retention.bytes", "-2"),
        ("local.retention.ms", "1000"),
        ("local.retention.ms", "-1"),
        ("local.retention.bytes", "1000"),
        ("leader.replication.throttled.replicas", ""),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:1, 2:3,"),
        ("follower.replication.throttled.replicas", "99999999999:1"),
    ],
)
def test_a_topic_config_that_apache_kafka_takes_is_taken(name: str, text: str) -> None:
    assert with_overrides(LogConfig(), {name: text})


def test_compaction_lags_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(SettingError, match=r"min\.compaction\.lag\.ms \(6\) must not be above"):
        with_overrides(LogConfig(), {"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"})
