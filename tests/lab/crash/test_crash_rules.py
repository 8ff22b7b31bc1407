"""Rules at the points inside a broker: each fires, and what a client sees of a crash there."""

from typing import Literal

import pytest
from waiting import HANG_S

from eosin.lab.broker import Broker
from eosin.lab.common.errors import LabError

pytestmark = pytest.mark.process

ID = "tx"
CRASHED = "crashed in the middle of this call"


@pytest.mark.parametrize("how", ["kill", "power"])
@pytest.mark.parametrize("point", ["prepared", "marker", "complete"])
def test_a_crash_at_a_point_of_a_decided_transaction_ends_in_its_outcome(
    point: str, how: Literal["kill", "power"]
) -> None:
    waits = {"eosin.end.txn.marker.wait.ms": 1000}  # its response waits for markers, on a slow machine, too
    with Broker(topics={"orders": 2}, seed=2, behaviour="eosin", settings=waits) as broker:
        broker.produce("orders", "a", partition=0, transactional_id=ID, commit=False)
        zombie = broker.zombie(ID)
        assert zombie.write("orders", "b", partition=1) == "NONE"
        rule = broker.faults.on(transactional_id=ID).at(point).crash(how)
        with pytest.raises(LabError, match=CRASHED):
            zombie.commit()
        assert broker.topic("orders").values() == [b"a", b"b"]
        assert broker.transactions(ID).outcomes == ["commit"]
        assert rule.fired == 1


@pytest.mark.parametrize("point", ["appended", "durable", "disk"])
def test_a_crash_at_a_point_of_an_append_leaves_all_of_it_or_nothing(point: str) -> None:
    with Broker(topics=["orders"]) as broker:
        broker.produce("orders", "before")
        match = {"call": "append", "path": "*/orders-0/*"} if point == "disk" else {"topic": "orders"}
        rule = broker.faults.on(**match).at(point).crash()
        with pytest.raises(LabError, match=CRASHED):
            broker.produce("orders", "a")
        assert broker.topic("orders").values() == [b"before"] + ([] if point == "disk" else [b"a"])
        assert rule.fired == 1


@pytest.mark.parametrize("at", ["request", "handled"])
def test_a_crash_in_a_request_of_a_real_client_is_one_that_it_lives_through(at: str) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    with Broker(topics=["orders"]) as broker:
        producer = confluent.Producer(broker.conf(transactional_id=ID))
        producer.init_transactions(HANG_S)
        producer.begin_transaction()
        producer.produce("orders", b"a")
        rule = broker.faults.on("EndTxn").at(at).crash("power")
        producer.commit_transaction(HANG_S)
        assert rule.fired == 1
        assert broker.topic("orders").values() == [b"a"]
        assert broker.transactions(ID).outcomes == ["commit"]


def test_markers_that_a_rule_holds_are_written_when_it_lets_go() -> None:
    with Broker(topics=["orders"]) as broker:
        broker.produce("orders", "a", transactional_id=ID, commit=False)
        rule = broker.faults.on(transactional_id=ID).at("prepared").hold()
        assert broker.zombie(ID).commit() == "NONE"
        rule.wait_fired()
        assert broker.transactions(ID).state == "PrepareCommit"
        rule.release()
        assert broker.topic("orders").values() == [b"a"]


def test_a_rule_at_a_point_that_is_never_reached_is_refused() -> None:
    with Broker(topics=["orders"], durability="os") as broker, pytest.raises(LabError, match='durability="fsync"'):
        broker.faults.on(topic="orders").at("appended").crash()
