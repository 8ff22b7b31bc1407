"""Variables of Kafka's images as settings: names, values, order, and what is said of them."""

from collections.abc import Mapping

import pytest

from eosin.settings import sources
from eosin.settings.environment.directories import data_directory
from eosin.settings.environment.translation import translate
from eosin.settings.settings import SettingError
from eosin.settings.sources import LoadedConfig


def loaded(
    variables: Mapping[str, str], *, properties: str = "", flags: Mapping[str, str] | None = None
) -> LoadedConfig:
    environment = translate(variables)
    return sources.load_config(environment=environment, properties=properties, flags=flags, host="this-host")


def refusal(variables: Mapping[str, str]) -> str:
    with pytest.raises(SettingError) as refused:
        loaded(variables)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_variables_of_three_images_give_the_same_setting() -> None:
    for variable in ("KAFKA_LOG_RETENTION_HOURS", "KAFKA_CFG_LOG_RETENTION_HOURS"):
        found = loaded({variable: " 5\n"})
        assert found.config.log_retention_hours == 5
        assert found.origins["log.retention.hours"] == variable


def test_two_underscores_are_one_and_three_are_a_dash() -> None:
    variables = {
        "KAFKA_LISTENERS": "MY_SASL://0.0.0.0:9092",
        "KAFKA_ADVERTISED_LISTENERS": "MY_SASL://localhost:9092",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "MY_SASL:SASL_PLAINTEXT",
        "KAFKA_LISTENER_NAME_MY__SASL_SASL_ENABLED_MECHANISMS": "SCRAM-SHA-512",
        "KAFKA_LISTENER_NAME_MY__SASL_SCRAM___SHA___512_SASL_JAAS_CONFIG": "unread",
    }
    overrides = loaded(variables).config.overrides
    assert overrides["listener.name.my_sasl.sasl.enabled.mechanisms"] == ("SCRAM-SHA-512",)
    assert "listener.name.my_sasl.scram-sha-512.sasl.jaas.config" in overrides


def test_bitnamis_single_underscore_means_the_listener_that_is_there() -> None:
    variables = {
        "KAFKA_CFG_LISTENERS": "SASL_SSL://:9092",
        "KAFKA_CFG_LISTENER_NAME_SASL_SSL_SASL_ENABLED_MECHANISMS": "SCRAM-SHA-256",
        "KAFKA_CLIENT_USERS": "app",
        "KAFKA_CLIENT_PASSWORDS": "secret",
    }
    assert "listener.name.sasl_ssl.sasl.enabled.mechanisms" in loaded(variables).config.overrides


def test_a_name_with_dashes_is_read_as_it_stands() -> None:
    variables = {
        "KAFKA_LISTENERS": "SECURE://0.0.0.0:9094",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "SECURE:SASL_SSL",
        "KAFKA_LISTENER_NAME_SECURE_SCRAM-SHA-512_SASL_JAAS_CONFIG": "unread",
    }
    assert "listener.name.secure.scram-sha-512.sasl.jaas.config" in loaded(variables).config.overrides


def test_the_command_line_counts_most_then_variables_then_the_file() -> None:
    variables = {"KAFKA_NUM_PARTITIONS": "2", "KAFKA_LOG_RETENTION_HOURS": "3"}
    found = loaded(
        variables,
        properties="num.partitions=1\nlog.retention.hours=1\nnode.id=4",
        flags={"log.retention.hours": "9"},
    )
    assert (found.config.num_partitions, found.config.log_retention_hours, found.config.node_id) == (2, 9, 4)
    origins = {key: found.origins[key] for key in ("num.partitions", "log.retention.hours", "node.id")}
    assert origins == {
        "num.partitions": "KAFKA_NUM_PARTITIONS",
        "log.retention.hours": "command line",
        "node.id": "file",
    }


def test_an_empty_variable_is_not_given() -> None:
    assert loaded({"KAFKA_LOG_RETENTION_HOURS": "", "KAFKA_FOO_BAR": " "}).warnings == ()


def test_unknown_variables_share_one_line_with_what_was_meant() -> None:
    (said,) = loaded({"KAFKA_CFG_LISTENERS_SECURITY_PROTOCOL_MAP": "A:PLAINTEXT", "KAFKA_FROBNICATE": "1"}).warnings
    assert "KAFKA_FROBNICATE" in said
    assert "did you mean KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP?" in said


def test_settings_that_kafka_knows_and_eosin_does_not_are_one_note() -> None:
    found = loaded({"KAFKA_PASSWORD_ENCODER_ITERATIONS": "1", "KAFKA_NUM_IO_THREADS": "8"})
    assert found.warnings == ()
    assert found.notes[0] == "Kafka settings that Eosin does not use: password.encoder.iterations"


@pytest.mark.parametrize(
    "variables",
    [
        {"KAFKA_PORT": "tcp://10.0.0.1:9092", "KAFKA_PORT_9092_TCP_ADDR": "10.0.0.1", "KAFKA_SERVICE_HOST": "10.0.0.1"},
        {"KAFKA_SVC_SERVICE_PORT_CLIENT": "9092", "KAFKA_UI_PORT": "tcp://10.0.0.1:80", "KAFKA_SERVICE_PORT": "1"},
        {"KAFKA_HEAP_OPTS": "-Xmx1G", "KAFKA_JMX_PORT": "9101", "KAFKA_OPTS": "-javaagent:x.jar", "KAFKA_HOME": "/x"},
        {"KAFKA_ZOOKEEPER_CONNECT": "zk:2181", "KAFKA_ZOOKEEPER_TLS_TYPE": "x", "KAFKA_CUB_ZK_TIMEOUT": "3"},
        {"KAFKA_REST_HOST_NAME": "x", "KAFKA_CLUSTERS_0_NAME": "local", "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "0"},
        {"KAFKA_GROUP_COORDINATOR_REBALANCE_PROTOCOLS": "classic", "KAFKA_UNSTABLE_API_VERSIONS_ENABLE": "true"},
        {"KAFKA_INTER_BROKER_LISTENER_NAME": "X", "KAFKA_SECURITY_INTER_BROKER_PROTOCOL": "nonsense"},
        {"KAFKA_CFG_MAX_REQUEST_SIZE": "1", "ALLOW_PLAINTEXT_LISTENER": "yes", "KAFKA_ENABLE_KRAFT": "yes"},
    ],
)
def test_what_is_no_setting_of_a_lone_broker_is_passed_over_without_a_word(variables: dict[str, str]) -> None:
    found = loaded(variables)
    assert found.warnings == ()
    assert len(found.notes) == 1, "only the one about open listeners"
    assert found.config.listeners == ("PLAINTEXT://0.0.0.0:9092",)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"KAFKA_NUM_PARTITIONS": "many"}, ("KAFKA_NUM_PARTITIONS", "'many'")),
        ({"KAFKA_PROCESS_ROLES": "controller"}, ("Eosin has no controller", "docs/cluster.md")),
        ({"BROKER_ID_COMMAND": "hostname | cut -c1"}, ("BROKER_ID_COMMAND", "shell code")),
        ({"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://_{HOSTNAME_COMMAND}:9092"}, ("shell code",)),
        ({"KAFKA_PRINCIPAL_BUILDER_CLASS": "org.example.Mine"}, ("KAFKA_PRINCIPAL_BUILDER_CLASS", "who is who")),
        ({"KAFKA_AUTHORIZER_CLASS_NAME": "org.example.Mine"}, ("org.example.Mine", "cannot run")),
        ({"CLUSTER_ID": "a b"}, ("CLUSTER_ID", "1 to 64 characters")),
        ({"KAFKA_CREATE_TOPICS": "orders:x"}, ("KAFKA_CREATE_TOPICS", "'orders:x'")),
        ({"KAFKA_LISTENERS": "nonsense"}, ("listeners must be",)),
    ],
)
def test_nonsense_and_code_are_refused_in_one_sentence(variables: dict[str, str], words: tuple[str, ...]) -> None:
    said = refusal(variables)
    assert all(word in said for word in words), said


@pytest.mark.parametrize("text", ["ignored", "-1", ""])
def test_a_node_id_that_is_none_is_the_default(text: str) -> None:
    found = loaded({"KAFKA_NODE_ID": text})
    assert found.config.node_id == 1
    assert found.warnings == ()


def test_of_two_node_ids_the_newer_name_counts() -> None:
    found = loaded({"KAFKA_NODE_ID": "2", "KAFKA_BROKER_ID": "3"})
    assert found.config.node_id == 2
    assert found.warnings == ("KAFKA_NODE_ID=2 counts, not KAFKA_BROKER_ID=3",)


def test_bitnamis_prefix_counts_more_than_its_alias() -> None:
    found = loaded({"KAFKA_CFG_NUM_PARTITIONS": "2", "KAFKA_NUM_PARTITIONS": "3"})
    assert found.config.num_partitions == 2
    assert found.warnings == ("KAFKA_CFG_NUM_PARTITIONS counts, and KAFKA_NUM_PARTITIONS with another value does not",)


def test_the_cluster_id_is_any_text() -> None:
    for text in ("agentexec-dev-cluster-01", "B3lQc2gyQlNKRzh5TUpTRw==", "MkU3OEVBNTcwNTJENDM2Qk"):
        assert loaded({"CLUSTER_ID": text}).config.eosin_cluster_id == text


def test_of_several_data_directories_the_first_is_used() -> None:
    found = loaded({"KAFKA_LOG_DIRS": "/a, /b"})
    assert found.config.log_dirs == ("/a",)
    assert "/b" in found.warnings[0]


def test_listeners_without_an_advertised_address_get_the_name_of_the_machine() -> None:
    found = loaded(
        {"KAFKA_LISTENERS": "IN://:1,OUT://0.0.0.0:2,HERE://localhost:3", "KAFKA_ADVERTISED_LISTENERS": "IN://:9"}
    )
    assert found.config.advertised_listeners == ("IN://this-host:9", "OUT://this-host:2")


def test_an_own_host_is_advertised_where_nothing_names_a_listener() -> None:
    own = {"EOSIN_ADVERTISED_HOST": "localhost"}
    assert loaded(own).config.advertised_listeners == ("PLAINTEXT://localhost:9092",)
    found = loaded({**own, "KAFKA_LISTENERS": "PLAINTEXT://:9092"})
    assert found.config.advertised_listeners == ("PLAINTEXT://this-host:9092",)


def test_an_advertised_listener_that_is_not_there_is_refused() -> None:
    variables = {"KAFKA_LISTENERS": "A://:1", "KAFKA_ADVERTISED_LISTENERS": "B://kafka:1"}
    assert refusal(variables) == "advertised.listeners names B, but no listener has that name"


def test_controllers_are_dropped_by_their_names_and_by_the_usual_one() -> None:
    named = {"KAFKA_LISTENERS": "A://:1,KRAFT://:2", "KAFKA_CONTROLLER_LISTENER_NAMES": "KRAFT"}
    told = {"KAFKA_ADVERTISED_LISTENERS": "A://a:1,KRAFT://a:2,"}
    assert loaded({**named, **told}).config.advertised_listeners == ("A://a:1",)
    usual = {"KAFKA_LISTENERS": "A://:1,CONTROLLER://:2", "KAFKA_NODE_ID": "1"}
    with_voters = {**usual, "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:2"}
    assert loaded(with_voters).config.listeners == ("A://:1",)


def test_a_broker_of_a_quorum_joins_it() -> None:
    variables = {
        "KAFKA_PROCESS_ROLES": "broker",
        "KAFKA_NODE_ID": "4",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@c1:9093,2@c2:9093,3@c3:9093",
        "KAFKA_LISTENERS": "PLAINTEXT://broker:9092",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    assert loaded(variables).config.is_joined


def test_names_of_old_say_what_is_advertised_if_nothing_newer_does() -> None:
    old = {"KAFKA_ADVERTISED_HOST_NAME": "docker", "KAFKA_ADVERTISED_PORT": "32000"}
    config = loaded(old).config
    assert (config.listeners, config.advertised_listeners) == (
        ("PLAINTEXT://0.0.0.0:9092",),
        ("PLAINTEXT://docker:32000",),
    )
    newer = {**old, "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://new:1"}
    assert loaded(newer).config.advertised_listeners == ("PLAINTEXT://new:1",)


def test_own_settings_have_variables_too() -> None:
    found = loaded({"EOSIN_DURABILITY": "os", "KAFKA_EOSIN_HTTP_LISTENER": "9100", "EOSIN_BOOTSTRAP_SERVER": "x:1"})
    assert (found.config.eosin_durability, found.config.eosin_http_listener) == ("os", "9100")


def test_brokers_that_were_to_share_a_zookeeper_are_said_to_be_no_cluster() -> None:
    found = loaded({"KAFKA_ZOOKEEPER_CONNECT": "zk:2181", "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "3"})
    assert "they are no cluster" in found.warnings[0]


def test_the_log_level_of_kafka_is_the_brokers() -> None:
    for level, own in (("TRACE", "debug"), ("WARN", "warning"), ("OFF", "error")):
        assert loaded({"KAFKA_LOG4J_ROOT_LOGLEVEL": level}).config.eosin_log_level == own


def test_segments_that_kafka_allows_and_eosin_does_not_get_the_least() -> None:
    found = loaded({"KAFKA_LOG_SEGMENT_BYTES": "1000"})
    assert found.config.log_segment_bytes == 1_048_576
    assert "KAFKA_LOG_SEGMENT_BYTES=1000" in found.warnings[0]


def test_listeners_are_open_only_where_no_variable_asks_for_a_proof() -> None:
    assert loaded({}).config.eosin_allow_open_listeners
    assert "--allow-open" in loaded({}).notes[0]
    with_rights = {"KAFKA_AUTHORIZER_CLASS_NAME": "kafka.security.authorizer.AclAuthorizer"}
    config = loaded(with_rights).config
    assert config.has_authorizer
    assert not config.eosin_allow_open_listeners


def test_a_listener_beside_secured_ones_is_open_only_if_somebody_says_so() -> None:
    listeners = {"KAFKA_LISTENERS": "PLAINTEXT://:1,SECURE://:2"}
    silent = {**listeners, "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "SECURE:SASL_SSL"}
    assert "say PLAINTEXT:PLAINTEXT" in refusal(silent)
    assert loaded({**silent, "EOSIN_ALLOW_OPEN_LISTENERS": "true"}).config.eosin_allow_open_listeners
    said = {**listeners, "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "SECURE:SASL_SSL,PLAINTEXT:PLAINTEXT"}
    found = loaded(said)
    assert found.config.eosin_allow_open_listeners
    assert found.warnings[0].startswith("everybody who reaches PLAINTEXT may read and write")
    near = {**said, "KAFKA_LISTENERS": "PLAINTEXT://localhost:1,SECURE://:2"}
    assert not loaded(near).config.eosin_allow_open_listeners


@pytest.mark.parametrize(
    ("mounted", "found"),
    [
        ([], "/var/lib/eosin"),
        (["/var/lib/eosin", "/bitnami"], "/bitnami/kafka/data"),
        (["/var/lib/eosin", "/bitnami/kafka"], "/bitnami/kafka/data"),
        (["/var/lib/eosin", "/kafka", "/var/lib/kafka/data"], "/var/lib/kafka/data"),
        (["/tmp/kraft-combined-logs"], "/tmp/kraft-combined-logs"),
    ],
)
def test_data_go_to_the_volume_that_is_mounted(mounted: list[str], found: str) -> None:
    text = "".join(f"overlay {place} ext4 rw 0 0\n" for place in ("/", "/proc", *mounted))
    assert data_directory(text) == found
