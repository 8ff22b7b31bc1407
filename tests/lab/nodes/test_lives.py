"""Nodes of real brokers: they die, stand still and come back, while the broker behind them crashes or is copied."""

import socket
from pathlib import Path

import pytest
from confluent_kafka import Producer
from waiting import HANG_S, wait_until

from eosin.lab.async_broker import AsyncBroker
from eosin.lab.broker import Broker
from eosin.lab.broker_api import BrokerApi
from eosin.lab.common.errors import LabError
from eosin.lab.crash.snapshot import Snapshot
from eosin.lab.process_broker import ProcessBroker

pytestmark = pytest.mark.process

ORDERS = {"orders": 3}


def leaders(broker: BrokerApi, topic: str = "orders") -> list[int]:
    found = {each.partition: seen.node for seen in broker.nodes() for each in seen.leads if each.topic == topic}
    return [node for _, node in sorted(found.items())]


def states(broker: BrokerApi) -> list[str]:
    return [each.state for each in broker.nodes()]


def refuses(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=HANG_S):
            return False
    except ConnectionRefusedError:
        return True


def test_a_crash_changes_nothing_about_nodes() -> None:
    with Broker(topics=ORDERS, nodes=3) as broker:
        broker.move_leader("orders", 0, to=2)
        broker.node(3).down()
        before, epoch = broker.nodes(), broker.move_leader("orders", 0, to=2)
        broker.crash(power=True)
        assert broker.nodes() == before
        assert refuses(broker.node(3).now().address)
        assert broker.move_leader("orders", 0, to=1) > epoch + 1
        broker.node(3).up()
        assert not refuses(broker.node(3).now().address)
        broker.restart()
        assert states(broker) == ["up", "up", "up"]


def test_copies_have_the_leaders_and_the_dead_of_their_original(tmp_path: Path) -> None:
    with Broker(topics=ORDERS, nodes=3) as broker:
        broker.produce("orders", "a")
        first = broker.move_leader("orders", 0, to=3)
        broker.node(2).down()
        kept = broker.snapshot()
        kept.save(tmp_path / "kept.tar")
        broker.node(2).up()
        broker.move_leader("orders", 0, to=2)
        with broker.fork() as fork:
            assert (leaders(fork), states(fork)) == ([2, 3, 3], ["up", "up", "up"])
        broker.restore(kept)
        assert (leaders(broker), states(broker)) == ([3, 3, 3], ["up", "down", "up"])
        with Broker(nodes=3, snapshot=Snapshot.load(tmp_path / "kept.tar")) as other:
            assert (leaders(other), states(other)) == ([3, 3, 3], ["up", "down", "up"])
        with Broker(snapshot=kept) as alone:
            assert alone.move_leader("orders") > first
            assert alone.topic("orders").values() == [b"a"]


def test_epochs_of_real_files_do_not_go_back_in_the_next_process(tmp_path: Path) -> None:
    with Broker(topics=ORDERS, disk=tmp_path / "data") as broker:
        for _ in range(5):
            epoch = broker.move_leader("orders")
        broker.produce("orders", "a")
    with Broker(disk=tmp_path / "data") as broker:
        assert broker.move_leader("orders") > epoch
        broker.produce("orders", "b")
        assert broker.topic("orders").values() == [b"a", b"b"]


def test_a_client_that_knows_the_dead_node_alone_goes_on_when_that_comes_back() -> None:
    with Broker(topics=ORDERS, nodes=3) as broker:
        node = broker.node(2)
        node.down()
        producer = Producer({**broker.conf(), "bootstrap.servers": node.now().address})
        producer.produce("orders", b"a", partition=1)
        assert refuses(node.now().address)
        node.up()
        assert producer.flush(HANG_S) == 0
        assert leaders(broker) == [1, 3, 3]
        assert broker.topic("orders").values() == [b"a"]


def test_a_client_that_is_connected_goes_on_at_the_new_leader_when_its_node_dies() -> None:
    with Broker(topics=ORDERS, nodes=3) as broker:
        producer = Producer(broker.conf(enable_idempotence=True))
        producer.produce("orders", b"a", partition=1)
        assert producer.flush(HANG_S) == 0
        broker.node(2).down()
        producer.produce("orders", b"b", partition=1)
        assert producer.flush(HANG_S) == 0
        assert broker.topic("orders").values() == [b"a", b"b"]


def test_a_node_that_stands_still_answers_nobody_until_it_goes_on() -> None:
    with Broker(topics=ORDERS, nodes=3) as broker:
        producer = Producer(broker.conf())
        producer.produce("orders", b"a", partition=1)
        assert producer.flush(HANG_S) == 0
        broker.node(2).pause()
        broker.network.heal()
        assert states(broker) == ["up", "paused", "up"]
        producer.produce("orders", b"b", partition=1)
        producer.produce("orders", b"elsewhere", partition=0)
        wait_until(lambda: producer.poll(0) or len(producer) == 1, "what is for another node")
        assert broker.topic("orders").values() == [b"elsewhere", b"a"]
        broker.node(2).up()
        assert producer.flush(HANG_S) == 0
        assert broker.topic("orders").values() == [b"elsewhere", b"a", b"b"]


def test_a_copy_of_a_broker_has_no_node_that_stands_still() -> None:
    with Broker(topics=ORDERS, nodes=3) as broker:
        producer = Producer(broker.conf())
        producer.produce("orders", b"a", partition=1)
        assert producer.flush(HANG_S) == 0
        kept = broker.snapshot()
        broker.node(2).pause()
        broker.crash()
        assert states(broker) == ["up", "paused", "up"]
        broker.restore(kept)
        assert states(broker) == ["up", "up", "up"]
        producer.produce("orders", b"b", partition=1)
        assert producer.flush(HANG_S) == 0


def test_a_request_that_is_held_meets_the_leader_of_the_moment_in_which_it_goes_on() -> None:
    with Broker(topics=ORDERS, nodes=3) as broker:
        producer = Producer(broker.conf(enable_idempotence=True))
        with broker.faults.on("Produce", node=1).hold("writing").once() as rule:
            producer.produce("orders", b"a", partition=0)
            producer.poll(0)
            rule.wait_fired()
            broker.move_leader("orders", 0, to=3)
            rule.release()
            assert producer.flush(HANG_S) == 0
        seen = [(each.code, each.link and each.link.node) for each in broker.history.requests("Produce")]
        assert seen == [("NOT_LEADER_OR_FOLLOWER", 1), ("NONE", 3)]
        assert [each.code for each in broker.history.requests("Produce", node=3)] == ["NONE"]
        assert broker.topic("orders").values() == [b"a"]


def test_markers_wait_for_a_leader() -> None:
    with Broker(topics=ORDERS, nodes=3) as broker:
        broker.produce("orders", "a", partition=2, transactional_id="t", commit=False)
        broker.node(3).down(elect=False)
        assert broker.zombie("t").commit() == "NONE"
        assert broker.transactions("t").state == "PrepareCommit"
        broker.node(3).down()
        wait_until(lambda: broker.transactions("t").state == "CompleteCommit", "the markers")
        assert broker.topic("orders").values() == [b"a"]


@pytest.mark.full
def test_a_node_of_a_broker_in_another_process_dies() -> None:
    with ProcessBroker(topics=ORDERS, nodes=2) as broker:
        assert broker.bootstrap == ",".join(each.address for each in broker.nodes())
        broker.node(2).down()
        assert (leaders(broker), states(broker)) == ([1, 1, 1], ["up", "down"])
        with pytest.raises(LabError, match="the nodes 1 to 2, and no 3"):
            broker.node(3).up()


async def test_nodes_are_awaited_in_a_test_of_asyncio() -> None:
    async with AsyncBroker(topics=ORDERS, nodes=3) as broker:
        await broker.node(2).down()
        assert [each.state for each in await broker.nodes()] == ["up", "down", "up"]
        await broker.node(2).up()
        assert await broker.move_coordinator("group", "g", to=2) == 2
        epoch = await broker.move_leader("orders", to=3)
        assert await broker.move_leader("orders", to=3) == epoch + 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"nodes": 0}, "nodes is 1 to 9, not 0"),
        ({"nodes": "3"}, "nodes is 1 to 9, not '3'"),
        ({"nodes": 3, "settings": {"node.id": 1}}, "leave out the setting node.id"),
        ({"nodes": 3, "settings": {"listeners": "A://:1"}}, "is one, for all of them, named by its protocol"),
        ({"nodes": 3, "settings": {"listeners": "SSL://:1,PLAINTEXT://:2"}}, "as SASL_SSL://127.0.0.1:0, not 'SSL"),
        ({"nodes": 3, "port": 65534}, "need the ports 65534 to 65536, and the highest is 65535"),
    ],
)
def test_a_number_of_nodes_that_cannot_be_is_refused(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(LabError, match=sentence):
        Broker(**options)  # type: ignore[arg-type]
