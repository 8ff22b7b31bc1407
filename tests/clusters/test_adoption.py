"""The directory of a broker that ran alone becomes that of the first broker of a quorum (cluster.md 1.9)."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from cluster_topics import ClusterTopics
from committing import read_all
from confluent_kafka import Consumer
from joined_broker import JoinedBroker
from kafka_releases import SECOND
from kraft_node import QuorumController
from real_clients import confluent
from toolchains import skipped_without
from waiting import HANG_S
from wire import unique

from eosin.cli.__main__ import main
from eosin.client.client import Client
from eosin.client.groups import GroupAdmin, GroupDescription
from eosin.client.transactions import DescribedTransaction, TransactionAdmin

_ALONE = {"transaction.state.log.num.partitions": "3", "offsets.topic.num.partitions": "5", "num.partitions": "2"}


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[QuorumController]:
    """One that is formatted by the test, and stopped at its end."""
    with skipped_without():
        made = QuorumController(tmp_path / "controller", release=SECOND)  # 4.4 takes no topics over
    yield made
    made.stop()


def transact(address: str, topic: str, transactional_id: str, values: list[bytes], *, group: str | None = None) -> None:
    """Commit these values, and the position behind them for a group."""
    producer = confluent.CLIENT.producer(address, transactional_id=transactional_id)
    producer.init()
    producer.begin()
    for value in values:
        producer.send(topic, value, partition=0)
    if group is not None:
        consumer = confluent.CLIENT.consumer(address, group=group)
        producer.send_offsets({(topic, 0): len(values)}, consumer)
        consumer.close()
    producer.commit()


def read_in_group(address: str, topic: str, group: str, count: int) -> list[bytes]:
    """The next records for a consumer group, committed. Its static member goes away and keeps its place."""
    member = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "group.protocol": "consumer",
            "group.instance.id": "stays",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    member.subscribe([topic])
    found = member.consume(count, HANG_S)
    assert not [each.error() for each in found if each.error()]
    member.commit(asynchronous=False)
    member.close()
    return [each.value() or b"" for each in found]


def described(address: str, transactional_id: str) -> DescribedTransaction:
    async def ask() -> DescribedTransaction:
        async with Client(address) as client:
            return await TransactionAdmin(client).describe(transactional_id)

    return asyncio.run(ask())


def consumer_group(address: str, group: str) -> GroupDescription:
    async def ask() -> GroupDescription:
        async with Client(address) as client:
            return await GroupAdmin(client).describe(group)

    return asyncio.run(ask())


@pytest.mark.full
def test_records_that_a_broker_has_committed_alone_are_its_clusters(
    controller: QuorumController, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, topic, transactional_id, group = tmp_path / "data", unique("topic"), unique("tx"), unique("group")
    before, after = ([b"%s-%d" % (word, each) for each in range(50)] for word in (b"alone", b"joined"))
    with BrokerProcess(data, durability="fsync", settings=_ALONE) as alone:
        admin = confluent.CLIENT.admin(alone.address)
        admin.create_topic(topic, 2, {"retention.ms": "123456789"})
        admin.close()
        transact(alone.address, topic, transactional_id, before, group=group)
        assert read_in_group(alone.address, topic, f"{group}-848", 20) == before[:20]
        kept = consumer_group(alone.address, f"{group}-848")
        assert len(kept.members) == 1
        limit = ["quotas", "set", "--bootstrap-server", alone.address, "--user", "a", "producer_byte_rate=1048576"]
        assert main(limit) == 0
        left = described(alone.address, transactional_id)
        assert alone.stop() == 0
    cluster_id = dict(row.split("=", 1) for row in (data / "meta.properties").read_text().splitlines())["cluster.id"]
    controller.format(cluster_id)
    command = ["format", "--cluster-id", cluster_id, "--node-id", "1", "--data-dir", str(data)]
    command += ["--adopt", str(controller.folder / "data")]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "its controller begins with 3 topics of 10 partitions" in said
    assert said.endswith("consumer groups that go on: 1\n")
    first = JoinedBroker(data, controller, node_id=1, durability="fsync")
    second = JoinedBroker(tmp_path / "second", controller, node_id=2, durability="fsync")
    with controller, first, second:
        assert ClusterTopics(first.address).settings(topic)["retention.ms"] == "123456789"
        assert read_all(first.address, topic, len(before)) == before
        assert read_in_group(first.address, topic, f"{group}-848", 30) == before[20:]
        taken_over = consumer_group(first.address, f"{group}-848")
        assert (taken_over.epoch, len(taken_over.members)) == (kept.epoch, 1)
        assert main(["quotas", "list", "--bootstrap-server", first.address]) == 0
        assert "producer_byte_rate=1048576" in capsys.readouterr().out
        # This broker's settings say four partitions of each internal topic; the topics decide.
        assert described(first.address, transactional_id).producer_id == left.producer_id
        consumer = confluent.CLIENT.consumer(first.address, group=group)
        assert consumer.committed(topic, 0) == len(before)
        consumer.close()
        transact(first.address, topic, transactional_id, after)
        taken = described(first.address, transactional_id)
        assert (taken.producer_id, taken.producer_epoch > left.producer_epoch) == (left.producer_id, True)
        new = unique("tx")
        transact(first.address, topic, new, [b"new"])
        assert described(first.address, new).producer_id > left.producer_id
        of = {topic: 2, "__transaction_state": 3, "__consumer_offsets": 5}
        moves = {(name, index): (1, 2) for name, count in of.items() for index in range(count)}
        ClusterTopics(first.address).move(moves)  # a replica of everything for the second
        assert first.stop() == 0
        assert read_all(second.address, topic, 101) == [*before, *after, b"new"]
        transact(second.address, topic, transactional_id, [b"last"])
        assert described(second.address, transactional_id).producer_id == left.producer_id


@pytest.mark.full
def test_a_controller_that_was_started_takes_no_topics_over(
    controller: QuorumController, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    with BrokerProcess(data) as alone:
        assert alone.stop() == 0
    with controller:
        pass
    written = (controller.folder / "data" / "bootstrap.checkpoint").read_bytes()
    cluster_id = controller.cluster_id
    meta = data / "meta.properties"
    meta.write_text(re.sub("cluster.id=.*", f"cluster.id={cluster_id}", meta.read_text()))
    command = ["format", "--cluster-id", cluster_id, "--node-id", "1", "--data-dir", str(data)]
    assert main([*command, "--adopt", str(controller.folder / "data")]) == 2
    assert "was started: only one that never was takes topics over" in capsys.readouterr().err
    assert (controller.folder / "data" / "bootstrap.checkpoint").read_bytes() == written
    assert "eosin.cluster" not in meta.read_text()
