"""Rows of the failure matrix (cluster.md 8) on real processes: two Eosin brokers, a controller, proxies between them.

In each: what was acknowledged is read once and in order, by readers of committed data, and the brokers' logs are equal
at the end.
"""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import confluent_kafka as ck
import pytest
from cluster_topics import ClusterTopics
from free_ports import free_port
from joined_broker import JoinedBroker, replicated, stop_and_compare
from kraft_node import SHORT_SESSIONS, QuorumController
from real_clients import confluent
from real_clients.base import ClientRefused, read_all
from small_disk import NotMounted, fill, small_disk
from tcp_proxy import TcpProxy, Way
from toolchains import skipped_without
from waiting import HANG_S, wait_until
from wire import Wire, now_ms, produced, unique

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.schemas.produce import ProduceRequest

pytestmark = pytest.mark.long

_LONGER_THAN_A_SESSION_S = 5.0
"""The controller's `broker.session.timeout.ms` is 3000 here, `replica.lag.time.max.ms` 2000."""
_SETTINGS = {
    **replicated(2),
    "inter.broker.listener.name": "REPLICATION",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT,CONTROLLER:PLAINTEXT",
}


class Cluster:
    """A controller and two brokers; each is reached by the others through a proxy of its own."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.to_controller = stack.enter_context(TcpProxy())
        with skipped_without():
            self.controller = QuorumController(
                folder / "controller",
                settings={
                    **SHORT_SESSIONS,
                    "advertised.listeners": f"CONTROLLER://{self.to_controller.address}",
                    "metadata.log.max.record.bytes.between.snapshots": "2000",
                },
            )
        self.to_controller.target = self.controller.port
        stack.enter_context(self.controller)
        self.to_broker: dict[int, TcpProxy] = {}
        self.brokers: dict[int, JoinedBroker] = {}
        for node_id in (1, 2):
            proxy = self.to_broker[node_id] = stack.enter_context(TcpProxy(free_port()))
            broker = JoinedBroker(
                folder / f"broker-{node_id}",
                self.controller,
                node_id=node_id,
                durability="fsync",
                settings={**_SETTINGS, "controller.quorum.bootstrap.servers": self.to_controller.address},
            )
            listener = ("--listen", f"REPLICATION=127.0.0.1:{proxy.target}")
            broker.options = (*broker.options, *listener, "--advertise", f"REPLICATION={proxy.address}")
            self.brokers[node_id] = stack.enter_context(broker)

    @property
    def address(self) -> str:
        return ",".join(each.address for each in self.brokers.values())

    @property
    def topics(self) -> ClusterTopics:
        return ClusterTopics(self.address)

    def create(self, **configs: str) -> str:
        """A topic on both, led by the first."""
        name = self.topics.create((1, 2), configs={key.replace("_", "."): value for key, value in configs.items()})
        self.wait_for(name, leader=1, isr={1, 2})
        return name

    def wait_for(self, topic: str, *, leader: int, isr: set[int]) -> None:
        """Until the cluster says so."""
        self.topics.wait_for(topic, leader=leader, isr=isr)

    def settle(self, topic: str, sent: list[bytes]) -> None:
        """Everything runs again: `sent` is read once and in order, and the brokers' directories agree."""
        for broker in self.brokers.values():
            if not broker.running:
                broker.start()
        wait_until(self.topics.are_in_sync)
        assert read(self.address, topic, len(sent)) == sent
        stop_and_compare(*self.brokers.values())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(tmp_path_factory.mktemp("failures"), stack)


@pytest.fixture
def cluster(whole: Cluster) -> Cluster:
    """With both brokers running: a test may have stopped them."""
    for broker in whole.brokers.values():
        if not broker.running:
            broker.start()
    return whole


class Committing:
    """Commits one record after the other to a partition, until it is told to stop; goes on after any error, as a
    supervised application does, and never takes an unknown outcome for a success."""

    def __init__(self, address: str, topic: str) -> None:
        self.sent: list[bytes] = []
        self._address, self._topic = address, topic
        self._id = unique("tx")
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.is_set():
            producer = confluent.CLIENT.producer(self._address, transactional_id=self._id)
            try:
                producer.init()
                known = self._committed()
                assert known in (self.sent, [*self.sent, b"%d" % len(self.sent)]), "committed is what was acknowledged"
                self.sent = known
                while not self._stopped.is_set():
                    value = b"%d" % len(self.sent)
                    producer.begin()
                    producer.send(self._topic, value, partition=0)
                    producer.commit()
                    self.sent.append(value)
                    time.sleep(0.01)
            except (ClientRefused, ck.KafkaException):
                time.sleep(0.2)
            finally:
                producer.close()

    def _committed(self) -> list[bytes]:
        """What is there after the id was fenced: the outcome of a commit that got no answer."""
        return read(self._address, self._topic, len(self.sent))

    def progress(self) -> None:
        """Wait until ten more are committed."""
        before = len(self.sent)
        wait_until(lambda: len(self.sent) >= before + 10)

    def stop(self) -> list[bytes]:
        self._stopped.set()
        self._thread.join(HANG_S)
        assert not self._thread.is_alive(), "the producer did not come to an end"
        return self.sent


@contextmanager
def paused(broker: JoinedBroker) -> Iterator[None]:
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def test_commits_go_on_while_the_quorum_is_lost_and_leaders_move_when_it_is_back(cluster: Cluster) -> None:
    topic = cluster.create()
    committing = Committing(cluster.address, topic)
    committing.progress()
    cluster.controller.kill()
    time.sleep(_LONGER_THAN_A_SESSION_S)
    committing.progress()
    cluster.controller.start()
    committing.progress()
    cluster.brokers[1].kill()
    committing.progress()
    cluster.settle(topic, committing.stop())


def test_a_leader_that_is_paused_longer_than_its_session_is_succeeded_and_follows(cluster: Cluster) -> None:
    topic = cluster.create()
    committing = Committing(cluster.address, topic)
    committing.progress()
    with paused(cluster.brokers[1]):
        committing.progress()
    committing.progress()
    cluster.settle(topic, committing.stop())


def test_a_follower_that_is_paused_costs_latency_and_nothing_else(cluster: Cluster) -> None:
    topic = cluster.create()
    committing = Committing(cluster.address, topic)
    committing.progress()
    with paused(cluster.brokers[2]):
        time.sleep(_LONGER_THAN_A_SESSION_S)
        committing.progress()
    cluster.wait_for(topic, leader=1, isr={1, 2})
    cluster.settle(topic, committing.stop())


def test_a_leader_cut_off_from_the_controllers_acknowledges_nothing_more(cluster: Cluster) -> None:
    topic = cluster.create()
    first, second = cluster.brokers[1], cluster.brokers[2]
    sent = [b"before"]
    write(cluster.address, topic, b"before")
    with cluster.to_controller.cut(pid=first.pid):
        ClusterTopics(second.address).wait_for(topic, leader=second.node_id)
        # Sent by no client that would find the successor for itself.
        told = asyncio.run(written_straight_to(first, TopicPartition(topic, 0), b"never acknowledged"))
        assert told in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER), "two leaders have acknowledged"
        write(second.address, topic, b"by the successor")
        sent.append(b"by the successor")
    cluster.wait_for(topic, leader=2, isr={1, 2})
    cluster.settle(topic, sent)


@pytest.mark.parametrize("way", [Way.BOTH, Way.THERE, Way.BACK], ids=["both ways", "requests", "responses"])
def test_a_leader_cut_off_from_its_follower_goes_on_alone_only_where_one_replica_is_enough(
    cluster: Cluster, way: Way
) -> None:
    topic, strict = cluster.create(), cluster.create(min_insync_replicas="2")
    with cluster.to_broker[1].cut(way):
        write(cluster.address, topic, b"alone")
        cluster.wait_for(topic, leader=1, isr={1})
        with pytest.raises(ClientRefused):
            write(cluster.address, strict, b"refused", timeout_ms=5000)
        cluster.wait_for(strict, leader=1, isr={1})
    cluster.wait_for(topic, leader=1, isr={1, 2})
    cluster.wait_for(strict, leader=1, isr={1, 2})
    write(cluster.address, strict, b"together")
    cluster.settle(topic, [b"alone"])


def test_a_slow_link_between_brokers_keeps_the_follower_in_sync(cluster: Cluster) -> None:
    topic = cluster.create()
    with cluster.to_broker[1].slow(0.2), cluster.to_broker[2].slow(0.2):
        committing = Committing(cluster.address, topic)
        committing.progress()
        time.sleep(_LONGER_THAN_A_SESSION_S)
        cluster.wait_for(topic, leader=1, isr={1, 2})
        sent = committing.stop()
    cluster.settle(topic, sent)


def test_a_broker_that_was_away_longer_than_the_metadata_log_goes_back_finds_what_was_deleted(
    cluster: Cluster,
) -> None:
    gone, topic = cluster.create(), cluster.create()
    write(cluster.address, gone, b"gone")
    write(cluster.address, topic, b"kept")
    assert cluster.brokers[2].stop() == 0
    left = ClusterTopics(cluster.brokers[1].address)
    left.delete(gone)
    snapshots = len(list(cluster.controller.folder.glob("data/__cluster_metadata-0/*.checkpoint")))
    for _ in range(3):  # a snapshot every 2000 bytes
        left.create(*[(1,)] * 30)
    wait_until(
        lambda: len(list(cluster.controller.folder.glob("data/__cluster_metadata-0/*.checkpoint"))) > snapshots,
    )
    cluster.brokers[2].start()
    cluster.wait_for(topic, leader=1, isr={1, 2})
    wait_until(lambda: not (cluster.brokers[2].data_dir / f"{gone}-0").exists())
    cluster.settle(topic, [b"kept"])


def test_acknowledged_records_survive_a_kill_of_all_brokers_at_once(cluster: Cluster) -> None:
    topic = cluster.create()
    committing = Committing(cluster.address, topic)
    for _ in range(2):
        committing.progress()
        for broker in cluster.brokers.values():
            broker.kill()
        for broker in cluster.brokers.values():
            broker.start()
        committing.progress()
    cluster.settle(topic, committing.stop())


def test_another_broker_leads_while_the_disk_of_the_leader_stays_full(cluster: Cluster, tmp_path: Path) -> None:
    settings = {**_SETTINGS, "eosin.disk.full.fence.ms": "2000"}
    with ExitStack() as stack:
        try:
            disk = stack.enter_context(small_disk(tmp_path / "disk", mebibytes=96))
        except NotMounted as refused:
            pytest.skip(str(refused))
        folders = {3: disk / "data", 4: tmp_path / "data"}
        pair = [
            JoinedBroker(folder, cluster.controller, node_id=node_id, settings=settings)
            for node_id, folder in folders.items()
        ]
        for broker in pair:  # by which the other two send it the markers of transactions, too
            broker.options = (*broker.options, "--listen", f"REPLICATION=127.0.0.1:{free_port()}")
            stack.enter_context(broker)
        address = ",".join(each.address for each in pair)
        topic = ClusterTopics(address).create((3, 4))
        cluster.wait_for(topic, leader=3, isr={3, 4})
        committing = Committing(address, topic)
        committing.progress()
        ballast = disk / "ballast"
        fill(ballast)
        cluster.wait_for(topic, leader=4, isr={4})
        committing.progress()
        ballast.unlink()
        cluster.wait_for(topic, leader=4, isr={3, 4})
        committing.progress()
        sent = committing.stop()
        assert read(address, topic, len(sent)) == sent


def test_a_broker_that_the_others_cannot_dial_is_named_in_their_logs(cluster: Cluster, tmp_path: Path) -> None:
    with JoinedBroker(tmp_path / "data", cluster.controller, node_id=5):
        told = "broker 5 has no listener REPLICATION"
        wait_until(lambda: all(told in each.log for each in cluster.brokers.values()))


async def written_straight_to(broker: JoinedBroker, partition: TopicPartition, value: bytes) -> int:
    """The code with which this broker, and no other, answers a record that all in sync are to have."""
    wire = await Wire.open(broker.address)
    try:
        request = wire.produce_request(partition, build_batch([NewRecord(None, value)], timestamp=now_ms()))
        return produced(
            await wire.ask(ProduceRequest(acks=-1, timeout_ms=4000, topic_data=request.topic_data), 11)
        ).error_code
    finally:
        await wire.close()


def read(address: str, topic: str, count: int) -> list[bytes]:
    """The first committed records: so many, and one more if there is any."""
    consumer = confluent.CLIENT.consumer(address, group=unique("readers"))
    consumer.assign({(topic, 0): 0})
    try:
        return [each.value or b"" for each in read_all(consumer, count)]
    finally:
        consumer.close()


def write(address: str, topic: str, *values: bytes, timeout_ms: int = 30_000) -> None:
    """Acknowledged by all that are in sync. Raises ClientRefused if a record is not."""
    producer = ck.Producer({"bootstrap.servers": address, "message.timeout.ms": timeout_ms, "acks": "all"})
    failed: list[ck.KafkaError] = []
    for value in values:
        producer.produce(
            topic, value, partition=0, on_delivery=lambda error, _: failed.append(error) if error else None
        )
    left = producer.flush(timeout_ms / 1000 + 5)
    if failed or left:
        raise ClientRefused("other", str(failed))
