"""Elections by the controllers: preferred, from the eligible leader replicas, unclean (cluster.md 4.12)."""

from collections.abc import Iterator, Sequence

import pytest
from cluster_topics import NOBODY, ClusterTopics
from joined_broker import JoinedBroker, replicated, stop_and_compare
from kraft_node import SHORT_SESSIONS, QuorumController
from real_clients import confluent
from real_clients.base import read_all
from toolchains import skipped_without
from waiting import wait_until
from wire import unique

from eosin.protocol.errors import ErrorCode

pytestmark = pytest.mark.full

Brokers = Sequence[JoinedBroker]


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuorumController]:
    """A cluster of this module's own, with eligible leader replicas (KIP-966)."""
    with skipped_without():
        made = QuorumController(
            tmp_path_factory.mktemp("elections") / "controller",
            settings=SHORT_SESSIONS,
            features={"eligible.leader.replicas.version": 1},
        )
    with made:
        yield made


@pytest.fixture(scope="module")
def all_brokers(controller: QuorumController, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    folder = tmp_path_factory.mktemp("brokers")
    made = [
        JoinedBroker(folder / str(each), controller, node_id=each, durability="fsync", settings=replicated(2))
        for each in (1, 2)
    ]
    with made[0], made[1]:
        yield made


@pytest.fixture
def brokers(all_brokers: Brokers) -> Brokers:
    """Both, running: a test may have killed them."""
    for each in all_brokers:
        if not each.running:
            each.start()
    return all_brokers


class Watched:
    """A partition on both brokers, and what the cluster says of it."""

    def __init__(self, brokers: Brokers, **configs: str) -> None:
        self._addresses = ",".join(each.address for each in brokers)
        self._topics = ClusterTopics(self._addresses)
        self.name = self._topics.create(
            (1, 2), configs={name.replace("_", "."): each for name, each in configs.items()}
        )

    def wait_for(self, *, leader: int | None = None, isr: set[int] | None = None, elr: set[int] | None = None) -> None:
        def is_so() -> bool:
            now = self._topics.partition(self.name)
            return (
                (leader is None or now.leader == leader)
                and (isr is None or now.isr == isr)
                and (elr is None or now.elr == elr)
            )

        wait_until(is_so, lambda: self._topics.partition(self.name), every_s=0.1)

    def elect_any(self) -> None:
        assert self._topics.elect(self.name, unclean=True) is ErrorCode.NONE

    def write(self, *values: bytes) -> None:
        """Acknowledged by all that are in sync."""
        producer = confluent.CLIENT.producer(self._addresses)
        for value in values:
            producer.send(self.name, value, partition=0)
        producer.flush()
        producer.close()

    def read(self, count: int) -> list[bytes | None]:
        consumer = confluent.CLIENT.consumer(self._addresses, group=unique("readers"))
        consumer.assign({(self.name, 0): 0})
        try:
            return [each.value for each in read_all(consumer, count)]
        finally:
            consumer.close()


def test_a_preferred_election_gives_a_partition_back_to_its_first_replica(
    controller: QuorumController, brokers: Brokers
) -> None:
    topic = Watched(brokers)
    topic.wait_for(leader=1, isr={1, 2})
    brokers[0].kill()
    topic.wait_for(leader=2)
    topic.write(b"a")
    brokers[0].start()
    topic.wait_for(leader=2, isr={1, 2})
    at = ("--bootstrap-server", ",".join(each.address for each in brokers))
    which = ("--election-type", "preferred", "--topic", topic.name, "--partition", "0")
    assert "Successfully completed" in controller.run("kafka-leader-election.sh", *at, *which)
    topic.wait_for(leader=1)
    topic.write(b"b")
    assert topic.read(2) == [b"a", b"b"]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_replica_that_is_eligible_leads_though_the_last_leader_is_gone(end: str, brokers: Brokers) -> None:
    first, second = brokers
    topic = Watched(brokers, min_insync_replicas="2")
    topic.wait_for(leader=1, isr={1, 2})
    topic.write(b"a", b"b")
    if end == "stop":
        assert second.stop() == 0
    else:
        second.kill()  # at durability fsync the controller counts on what it has all the same (cluster.md 2.9)
    topic.wait_for(leader=1, isr={1}, elr={2})  # it lacks nothing: without it no write is acknowledged
    first.kill()
    second.start()
    topic.wait_for(leader=2, elr={1})
    # Below min.insync.replicas the high watermark stands still: records may be read when both are in sync again.
    first.start()
    topic.wait_for(isr={1, 2})
    assert topic.read(2) == [b"a", b"b"]
    topic.write(b"c")
    assert topic.read(3) == [b"a", b"b", b"c"]
    stop_and_compare(*brokers)


def test_an_unclean_election_gives_up_what_only_the_lost_leader_had(
    brokers: Brokers,
) -> None:
    first, second = brokers
    topic = Watched(brokers, min_insync_replicas="1")
    topic.wait_for(leader=1, isr={1, 2})
    topic.write(b"both")
    second.kill()
    topic.wait_for(leader=1, isr={1})
    topic.write(b"only on the first")
    first.kill()
    second.start()
    topic.wait_for(leader=NOBODY)
    wait_until(lambda: f"{topic.name}-0 has no leader" in second.log, every_s=0.3)
    assert "This broker has a complete copy, as far as others can be asked, up to 1, and is not electable" in second.log
    topic.elect_any()
    topic.wait_for(leader=2)
    topic.write(b"after")
    assert topic.read(2) == [b"both", b"after"]
    first.start()
    topic.wait_for(isr={1, 2})
    assert topic.read(2) == [b"both", b"after"]
    stop_and_compare(*brokers)
