"""Replicas of which there is nothing to say, when something happens to them: their leader stands still, their topic is
deleted and made anew, their coordinators go to and fro. Clients are librdkafka's."""

import itertools
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from asked_broker import KILLED
from cluster_topics import ClusterTopics
from real_clients import confluent
from real_clients.base import read_all
from three_brokers import ThreeBrokers
from toolchains import skipped_without
from waiting import wait_until
from wire import unique

from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC

pytestmark = [pytest.mark.process, pytest.mark.full]

PARTITIONS = 9
INTERNAL_PARTITIONS = 4
GROUPS = 60
PATIENCE = {"socket.timeout.ms": 6000}
"""librdkafka asks a broker that stands still for a minute, before it asks another one."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeBrokers]:
    with skipped_without():
        made = ThreeBrokers(tmp_path_factory.mktemp("rest"), durability="fsync")
    with made:
        yield made


@pytest.fixture
def topics(cluster: ThreeBrokers) -> ClusterTopics:
    return ClusterTopics(cluster.address)


def replicas(first: int) -> tuple[int, int, int]:
    """All brokers, `first` in front of the others."""
    return tuple(1 + (first + each) % 3 for each in range(3))  # type: ignore[return-value]


@contextmanager
def asleep(cluster: ThreeBrokers, node_id: int) -> Iterator[None]:
    """Nothing of a broker runs meanwhile."""
    pid = cluster.nodes[node_id].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def written(cluster: ThreeBrokers, topic: str, *values: str, partitions: int = PARTITIONS) -> None:
    producer = confluent.CLIENT.producer(cluster.address)
    for number, value in enumerate(values):
        producer.send(topic, value.encode(), partition=number % partitions)
    producer.flush()
    producer.close()


def values_in(cluster: ThreeBrokers, topic: str, count: int, partitions: int = PARTITIONS) -> Counter[str]:
    """The committed values of a topic, of which there are to be `count`."""
    reader = confluent.CLIENT.consumer(cluster.address)
    reader.assign({(topic, index): 0 for index in range(partitions)})
    try:
        return Counter((each.value or b"").decode() for each in read_all(reader, count))
    finally:
        reader.close()


def test_a_leader_that_stands_still_while_its_followers_rest_takes_nothing_back(
    cluster: ThreeBrokers, topics: ClusterTopics
) -> None:
    name = topics.create(*(replicas(index) for index in range(PARTITIONS)))
    expected = [f"{number}" for number in range(PARTITIONS)]
    written(cluster, name, *expected)
    cluster.wait_replicated()
    transaction = confluent.CLIENT.producer(
        cluster.address, transactional_id=unique("tx"), transaction_timeout_ms=120_000, security=PATIENCE
    )
    transaction.init()
    others = confluent.CLIENT.producer(cluster.address, security=PATIENCE)
    others.send(name, b"first")
    others.flush()
    expected.append("first")
    for paused in (1, 2):
        transaction.begin()
        for index in range(PARTITIONS):
            transaction.send(name, f"{paused} open {index}".encode(), partition=index)
        with asleep(cluster, paused):
            for index in range(PARTITIONS):
                others.send(name, f"{paused} beside {index}".encode(), partition=index)
            transaction.commit()
            others.flush()
            # Whoever sleeps still takes itself for the leader when it wakes, and has requests in its sockets.
            beside = ClusterTopics(addresses_beside(cluster, paused))
            wait_until(lambda seen=beside, node=paused: all(each.leader != node for each in seen.partitions(name)))
        expected += [f"{paused} {kind} {index}" for kind in ("open", "beside") for index in range(PARTITIONS)]
        written(cluster, name, f"{paused} after")
        expected.append(f"{paused} after")
        cluster.wait_replicated()
        assert values_in(cluster, name, len(expected)) == Counter(expected), cluster.logs
    transaction.close()
    others.close()
    cluster.roll(KILLED)
    assert values_in(cluster, name, len(expected)) == Counter(expected), cluster.logs


def addresses_beside(cluster: ThreeBrokers, node_id: int) -> str:
    """The bootstrap servers but for one broker."""
    return ",".join(node.address for each, node in cluster.nodes.items() if each != node_id)


def test_a_topic_that_is_deleted_and_made_anew_while_its_replicas_rest_has_no_record_of_the_old_one(
    cluster: ThreeBrokers, topics: ClusterTopics
) -> None:
    name = unique("again")
    for life in range(6):
        topics.create(*(replicas(index) for index in range(PARTITIONS)), name=name)
        expected = [f"{life}: {number}" for number in range(PARTITIONS * (1 + life % 3))]
        written(cluster, name, *expected)
        cluster.wait_replicated()
        assert values_in(cluster, name, len(expected)) == Counter(expected), cluster.logs
        if life % 2:  # one broker hears of the end of the old one and of the new one together
            beside = ClusterTopics(addresses_beside(cluster, 1 + life // 2))
            with asleep(cluster, 1 + life // 2):
                beside.delete(name)
                wait_until(lambda seen=beside: name not in seen.names())
                beside.create(*(replicas(index) for index in range(PARTITIONS)), name=name, all_alive=False)
            written(cluster, name, "short")
            cluster.wait_replicated()
            assert values_in(cluster, name, 1) == Counter(["short"]), cluster.logs
        topics.delete(name)
        wait_until(lambda: name not in topics.names())
    topics.create(*(replicas(index) for index in range(PARTITIONS)), name=name)
    cluster.roll(KILLED)
    written(cluster, name, "last")
    assert values_in(cluster, name, 1) == Counter(["last"]), cluster.logs


class Commits:
    """Groups that commit one offset after the other, until they are to stop."""

    def __init__(self, cluster: ThreeBrokers, topic: str) -> None:
        self._topic = topic
        names = [unique(f"group-{number}") for number in range(GROUPS)]
        self._consumers = {name: confluent.CLIENT.consumer(cluster.address, group=name) for name in names}
        self.acknowledged = dict.fromkeys(self._consumers, 0)
        self._tried = dict.fromkeys(self._consumers, 0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Commits":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        for offset in itertools.count(1):
            for name, consumer in self._consumers.items():
                if self._stop.is_set():
                    return
                self._tried[name] = offset
                try:
                    consumer.commit({(self._topic, 0): offset})
                except confluent.ClientRefused:
                    continue  # the next one tells
                self.acknowledged[name] = offset

    def check(self) -> None:
        """What was acknowledged last is there, or what was tried after it."""
        for name, consumer in self._consumers.items():
            found = consumer.committed(self._topic, 0)
            assert found is not None, name
            assert self.acknowledged[name] <= found <= self._tried[name], name
            consumer.close()


def test_coordinators_that_go_to_and_fro_lose_no_commit_and_tear_no_transaction(
    cluster: ThreeBrokers, topics: ClusterTopics
) -> None:
    name = topics.create(*(replicas(index) for index in range(PARTITIONS)))
    reader, other_reader = (confluent.CLIENT.consumer(cluster.address, group=unique("reader")) for _ in range(2))
    still_open = confluent.CLIENT.producer(cluster.address, transactional_id=unique("open"))
    short = confluent.CLIENT.producer(cluster.address, transactional_id=unique("short"))
    still_open.init()
    short.init()
    expected: list[str] = []
    internal = (TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC)
    places = [(topic, index) for topic in internal for index in range(INTERNAL_PARTITIONS)]
    with Commits(cluster, name) as commits:
        wait_until(lambda: all(commits.acknowledged.values()))
        still_open.begin()
        for turn in range(8):
            topics.move({(topic, index): replicas(index + turn) for topic, index in places})
            for topic, index in places:
                topics.elect(topic, partition=index)
            still_open.send(name, f"{turn} open".encode(), partition=turn)
            still_open.send_offsets({(name, turn): turn}, other_reader)
            expected.append(f"{turn} open")
            for outcome in (short.abort, short.commit):
                short.begin()
                for index in range(PARTITIONS):
                    short.send(name, f"{turn} {outcome.__name__} {index}".encode(), partition=index)
                short.send_offsets({(name, index): turn for index in range(PARTITIONS)}, reader)
                outcome()
            expected += [f"{turn} commit {index}" for index in range(PARTITIONS)]
        still_open.commit()
    commits.check()
    assert values_in(cluster, name, len(expected)) == Counter(expected), cluster.logs
    assert [reader.committed(name, index) for index in range(PARTITIONS)] == [7] * PARTITIONS
    assert [other_reader.committed(name, index) for index in range(8)] == list(range(8))
    for each in (reader, other_reader, still_open, short):
        each.close()
    cluster.wait_replicated()
