"""Java's share consumer and Kafka Streams with group.protocol=streams, each as a user who has no more rights than it
needs, on brokers of both kinds where every connection is SASL_SSL (cluster.md 7, share-partitions.md, streams-groups.md
3.4)."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from cluster_topics import ClusterTopics
from confluent_kafka import Consumer, Producer
from joined_broker import JoinedBroker
from real_clients import share, streams
from real_clients.base import ClientRefused
from real_clients.share import ShareMember
from secured_cluster import PASSWORDS, SecuredCluster
from toolchains import skipped_without
from waiting import HANG_S, wait_until
from wire import unique

from eosin.cli.__main__ import main
from eosin.client.client import Client
from eosin.client.security.connection_security import ConnectionSecurity
from eosin.client.security.settings import read_settings
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    InitializeStatePartition,
)
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic

pytestmark = [pytest.mark.full, pytest.mark.long, pytest.mark.timeout(900)]

NODES: Final = (21, 22, 23)
THEIRS: Final = 23
PASSWORD: Final = "of-a-user"
RECORDS: Final = 90
LINES: Final = [f"{'ab'[number % 2]} word {number % 7}" for number in range(200)]
SETTINGS: Final = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "2",
    "share.coordinator.state.topic.min.isr": "1",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "0",
}


class Secured:
    """Two brokers of ours and one of Apache Kafka, and what their users do."""

    def __init__(self, cluster: SecuredCluster, broker: JoinedBroker, bootstrap: str) -> None:
        self.cluster = cluster
        self.broker = broker
        self.bootstrap = bootstrap
        self.topics = ClusterTopics(broker.address, cluster.admin())

    def run(self, *words: str) -> None:
        """A command of ours, by the administrator."""
        assert main([*words, "--bootstrap-server", self.broker.address, "--command-config", self.cluster.admin()]) == 0

    def user(self, name: str) -> dict[str, str]:
        """A new user, who may do nothing; the settings of its Java clients."""
        password = self.cluster.folder / "password"
        password.write_text(PASSWORD)
        self.run("users", "add", name, "--password-file", str(password))
        lines = Path(self.cluster.command_config(name, PASSWORD)).read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def allow(self, user: str, operations: str, *resource: str) -> None:
        """Give a user rights."""
        self.run("acls", "add", "--principal", f"User:{user}", "--allow", operations, *resource)

    def librdkafka(self, **own: Any) -> dict[str, Any]:
        """The settings of the administrator's client."""
        access = self.cluster.access(self.broker, "admin", PASSWORDS["admin"])
        return {"bootstrap.servers": self.bootstrap, **access.librdkafka, **own}

    def write(self, topic: str, *values: str, partitions: int) -> None:
        producer = Producer(self.librdkafka(acks="all"))
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % partitions)
        assert producer.flush(HANG_S) == 0

    def read(self, topic: str, count: int) -> list[tuple[str, str]]:
        """Keys and values of so many committed records."""
        settings = {"group.id": unique("g"), "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        consumer = Consumer(self.librdkafka(**settings))
        consumer.subscribe([topic])
        found: list[tuple[str, str]] = []
        for _ in range(count):
            message = consumer.poll(HANG_S)
            assert message is not None, f"{len(found)} of {count}"
            assert message.error() is None, message.error()
            found.append(((message.key() or b"").decode(), (message.value() or b"").decode()))
        consumer.close()
        return found


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with skipped_without():
        cluster = SecuredCluster(tmp_path_factory.mktemp("groups"))
        share.LAUNCHED.get()
    with (
        cluster,
        cluster.broker(NODES[0], SETTINGS) as first,
        cluster.broker(NODES[1], SETTINGS) as second,
        cluster.kafka_broker(THEIRS, SETTINGS) as third,
    ):
        made = Secured(cluster, first, f"{first.address},{second.address},{third.address}")
        made.topics.wait_for_brokers(*NODES)
        yield made
        assert "Traceback" not in first.log + second.log


def test_share_consumers_need_to_read_group_and_topic_and_nothing_else(secured: Secured) -> None:
    topic = secured.topics.create((21, 22), (22, 23), (23, 21))
    group, user, letters = unique("workers"), unique("worker"), f"dlq.{topic}"
    secured.topics.create((22, 23), name=letters, configs={"errors.deadletterqueue.group.enable": "true"})
    for setting in ("share.auto.offset.reset=earliest", f"errors.deadletterqueue.topic.name={letters}"):
        secured.run("configs", "alter", "--group", group, "--set", setting)
    settings = {**secured.user(user), "share.acknowledgement.mode": "explicit"}
    launched = share.LAUNCHED.get()

    def opened() -> ShareMember:
        own = {name.replace(".", "_"): value for name, value in settings.items()}
        return ShareMember.opened(launched, secured.bootstrap, group, [topic], **own)

    assert _refusal(opened()) == "TOPIC_AUTHORIZATION_FAILED"
    secured.allow(user, "READ", "--topic", topic)
    assert _refusal(opened()) == "GROUP_AUTHORIZATION_FAILED"
    secured.allow(user, "READ", "--group", group)
    values = [str(number) for number in range(RECORDS)]
    secured.write(topic, *values, partitions=3)
    members = [opened(), opened()]
    done: Counter[str] = Counter()
    rejected: set[str] = set()

    def work() -> bool:
        for member in members:
            found = member.poll()
            for each in found:
                is_bad = each.value.endswith("7")
                member.acknowledge(each, "REJECT" if is_bad else "ACCEPT")
            errors = member.commit() if found else {}
            assert not any(errors.values()), errors
            done.update(each.value for each in found)
            rejected.update(each.value for each in found if each.value.endswith("7"))
        return len(done) == RECORDS

    wait_until(work, lambda: sorted(done))
    assert set(done.values()) == {1}, done
    # The letters are written by the brokers: nobody has given the user a right on their topic.
    assert len(secured.read(letters, len(rejected))) == len(rejected) > 0
    for member in members:
        member.close()


def _refusal(member: ShareMember) -> str:
    """The error that a member's polls come to."""
    found: list[str] = []

    def is_refused() -> bool:
        try:
            member.poll()
        except ClientRefused as refused:
            found.append(str(refused))
        return bool(found)

    wait_until(is_refused)
    member.close()  # else it joins when it may, and has partitions of which it reads nothing
    return next((name for name in ("GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED") if name in found[0]), "")


def test_a_client_is_no_broker_to_the_share_coordinator(secured: Secured) -> None:
    """The brokers' own requests (keys 83 to 87) go through in the test above: each leads states for the others."""
    topic, user = secured.topics.create((21,)), unique("worker")
    secured.user(user)
    group = unique("workers")
    secured.allow(user, "ALL", "--group", group)
    secured.allow(user, "ALL", "--topic", topic)
    security = ConnectionSecurity.of(read_settings(secured.cluster.command_config(user, PASSWORD)))

    async def begun(node: int) -> tuple[int, int]:
        async with Client(secured.bootstrap, security=security) as client:
            named = MetadataRequest((MetadataRequestTopic(name=topic),), False)
            (found,) = (await client.request(ApiKey.METADATA, named)).topics
            state = InitializeStateData(found.topic_id, (InitializeStatePartition(0, 1, 0),))
            request = InitializeShareGroupStateRequest(group, (state,))
            told = await client.request(ApiKey.INITIALIZE_SHARE_GROUP_STATE, request, node=node)
            (part,) = told.results[0].partitions
            return int(part.error_code), int(found.error_code)

    for node in NODES:
        assert asyncio.run(begun(node)) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.NONE), node


def test_kafka_streams_counts_exactly_once_with_the_rights_that_the_docs_list(secured: Secured, tmp_path: Path) -> None:
    source = secured.topics.create((21, 22), (23, 21))
    target = secured.topics.create((22, 23))
    name, user = unique("count"), unique("counter")
    settings = secured.user(user)
    secured.allow(user, "READ", "--topic", source)
    secured.allow(user, "WRITE", "--topic", target)
    secured.allow(user, "READ", "--group", name)
    secured.allow(user, "WRITE", "--transactional-id", f"{name}-", "--prefixed")
    secured.allow(user, "CREATE,READ,WRITE,DELETE", "--topic", f"{name}-", "--prefixed")
    secured.write(source, *LINES, partitions=2)
    words = Counter(word for line in LINES for word in line.split())
    given = {
        **settings,
        "group.protocol": "streams",
        "session.timeout.ms": "",
        "processing.guarantee": "exactly_once_v2",
    }
    with skipped_without():
        application = streams.Application(
            streams.WITH_STREAMS_GROUPS,
            streams.WORD_COUNT,
            (name, secured.bootstrap, source, target),
            0,
            tmp_path / "count",
            [f"{key}={value}" for key, value in given.items()],
        )
    with application:
        total = sum(words.values())
        counts: dict[str, list[int]] = {}
        for word, count in secured.read(target, total):
            counts.setdefault(word, []).append(int(count))
        assert counts == {word: list(range(1, count + 1)) for word, count in words.items()}
        assert "AuthorizationException" not in application.log, application.log[-3000:]
