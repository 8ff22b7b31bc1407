"""A cluster in which every connection is SASL_SSL: clients, brokers among themselves, and brokers to the controller
(cluster.md 7)."""

from collections.abc import Iterator

import confluent_kafka
import pytest
from certificates import Authority
from cluster_topics import ClusterTopics
from joined_broker import JoinedBroker
from secured_clients import with_confluent
from secured_cluster import PASSWORDS, SecuredCluster, login
from toolchains import skipped_without
from waiting import HANG_S
from wire import unique

PASSWORD = "of-alice"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with skipped_without():
        made = SecuredCluster(tmp_path_factory.mktemp("secured"))
    with made:
        yield made


@pytest.fixture(scope="module")
def pair(cluster: SecuredCluster) -> Iterator[tuple[JoinedBroker, JoinedBroker]]:
    with cluster.broker(1) as first, cluster.broker(2) as second:
        yield first, second
        assert "Traceback" not in first.log + second.log


def outcome(cluster: SecuredCluster, broker: JoinedBroker, user: str, password: str, topic: str) -> int:
    """The error code of one record; 0 when it was kept."""
    errors: list[int] = []
    access = cluster.access(broker, user, password)
    producer = confluent_kafka.Producer({"bootstrap.servers": access.address, **access.librdkafka})
    producer.produce(topic, b"v", on_delivery=lambda error, _: errors.append(0 if error is None else error.code()))
    assert producer.flush(HANG_S) == 0
    return errors[0]


def test_a_transaction_runs_over_sasl_ssl_alone_with_rights_and_users_of_the_quorum(
    cluster: SecuredCluster, pair: tuple[JoinedBroker, JoinedBroker]
) -> None:
    topic = unique("secured")
    first, second = pair
    to = ("--bootstrap-server", first.address, "--command-config", cluster.admin())
    run = cluster.controller.run
    run("kafka-topics.sh", *to, "--create", "--topic", topic, "--replica-assignment", "2:1")
    scram = f"SCRAM-SHA-512=[iterations=4096,password={PASSWORD}]"
    run("kafka-configs.sh", *to, "--alter", "--add-config", scram, "--entity-type", "users", "--entity-name", "alice")
    assert outcome(cluster, second, "alice", PASSWORD, topic) == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED
    everything = ("--allow-principal", "User:alice", "--operation", "All")
    run("kafka-acls.sh", *to, "--add", *everything, "--topic", topic)
    run("kafka-acls.sh", *to, "--add", *everything, "--transactional-id", topic)
    run("kafka-acls.sh", *to, "--add", *everything, "--group", topic)
    # The topic is led by the second broker: fetchers, markers and verification cross between the two.
    assert with_confluent(cluster.access(first, "alice", PASSWORD), topic) == [b"kept"]
    told = run("kafka-topics.sh", *to, "--describe", "--topic", topic)
    assert "Isr: 1,2" in told or "Isr: 2,1" in told
    listed = run("kafka-acls.sh", *to, "--list", "--principal", "User:alice")
    assert "resourceType=TRANSACTIONAL_ID" in listed
    described = run("kafka-configs.sh", *to, "--describe", "--entity-type", "users", "--entity-name", "alice")
    assert "SCRAM-SHA-512=iterations=4096" in described
    code, said = cluster.controller.outcome("kafka-delegation-tokens.sh", *to, "--describe")
    assert (code, "Delegation Token feature is not enabled" in said) == (1, True), said
    # A request that is passed on is judged by the client's own rights, not by the broker's.
    alice = ("--bootstrap-server", first.address, "--command-config", cluster.command_config("alice", PASSWORD))
    code, said = cluster.controller.outcome("kafka-topics.sh", *alice, "--create", "--topic", unique("not-hers"))
    assert code != 0
    assert "Authorization failed" in said


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {
                "listener.name.controller.scram-sha-512.sasl.jaas.config": login(
                    "SCRAM-SHA-512", "broker", "another-password"
                )
            },
            "refuses 'broker' with SCRAM-SHA-512",
        ),
        ({"ssl.truststore.location": "other-ca.pem"}, "shows a certificate that is not trusted"),
    ],
    ids=["password", "certificate"],
)
def test_a_broker_that_is_not_one_is_refused_with_a_sentence(
    cluster: SecuredCluster, settings: dict[str, str], sentence: str
) -> None:
    settings = dict(settings)
    if settings.get("ssl.truststore.location") == "other-ca.pem":
        settings["ssl.truststore.location"] = Authority.root("other").write(cluster.folder / "other-ca.pem")
    broker = cluster.broker(9, {**settings, "initial.broker.registration.timeout.ms": "3000"})
    said = broker.refusal()
    assert sentence in said.splitlines()[-1]
    assert "Traceback" not in said
    assert PASSWORDS["broker"] not in said


@pytest.mark.long
def test_brokers_that_reach_the_controller_in_three_ways_and_one_of_apache_kafka_are_one_cluster(
    cluster: SecuredCluster,
) -> None:
    with (
        cluster.broker(11, cluster.by_certificate()) as first,
        cluster.broker(12, cluster.by_password()) as second,
        cluster.kafka_broker(13),
    ):
        # Each leads one partition and follows the others.
        topics = ClusterTopics(first.address, cluster.admin())
        topic = topics.create((11, 12, 13), (12, 13, 11), (13, 11, 12))
        admin = PASSWORDS["admin"]
        access = cluster.access(second, "admin", admin)
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": access.address, **access.librdkafka, "transactional.id": topic, "acks": "all"}
        )
        producer.init_transactions(HANG_S)
        producer.begin_transaction()
        for partition in range(3):
            producer.produce(topic, b"v", partition=partition)
        producer.commit_transaction(HANG_S)
        assert with_confluent(cluster.access(first, "admin", admin), unique("own")) == [b"kept"]
        assert {each.isr for each in topics.partitions(topic)} == {frozenset((11, 12, 13))}
        assert "Traceback" not in first.log + second.log
