"""A disk that is full, fails, is slow, or ends its broker, and what a client sees of it."""

import threading
from collections.abc import Iterator

import pytest
from lab_writes import written_once
from waiting import HANG_S

from eosin.lab.broker import Broker
from eosin.lab.common.errors import LabError

pytestmark = pytest.mark.process

ID = "tx"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2}, seed=3) as started:
        started.produce("orders", "before", partition=0)
        started.produce("orders", "before", partition=1)
        yield started


def test_a_full_disk_refuses_records_and_heals(broker: Broker) -> None:
    instance = broker.successor(ID)
    broker.disk.full()
    writes: list[str] = []
    thread = threading.Thread(target=lambda: writes.append(instance.write("orders", "kept")))
    thread.start()  # its client tries again and again
    while broker.disk.calls("append") < 1 or not broker.warnings:
        pass
    broker.disk.free()
    thread.join(HANG_S)
    assert writes == ["NONE"]
    assert instance.commit() == "NONE"
    assert broker.topic("orders").values(partition=0) == [b"before", b"kept"]
    assert any("no space left" in each for each in broker.warnings)


def test_a_failed_sync_takes_that_partition_offline_until_the_next_start(broker: Broker) -> None:
    broker.disk.fail("sync", "orders-0/*")
    assert broker.call(written_once, 0, "lost?") == "KAFKA_STORAGE_ERROR"
    assert broker.call(written_once, 1, "elsewhere") == "NONE"
    broker.disk.heal()
    assert broker.call(written_once, 0, "late") == "KAFKA_STORAGE_ERROR", "the disk is well again, the log is not"
    broker.restart()
    broker.produce("orders", "after", partition=0)
    assert broker.topic("orders").values(partition=0)[-1] == b"after"
    assert broker.topic("orders").values(partition=1) == [b"before", b"elsewhere"]


def test_a_torn_append_leaves_no_half_batch(broker: Broker) -> None:
    broker.disk.tear("orders-0/*", keep=30)
    assert broker.call(written_once, 0, "torn") == "KAFKA_STORAGE_ERROR"
    broker.crash()
    broker.produce("orders", "after", partition=0)
    assert broker.topic("orders").values(partition=0) == [b"before", b"after"]


def test_a_slow_sync_delays_the_answer_and_nothing_else(broker: Broker) -> None:
    broker.disk.slow("sync", 1, jitter=1)
    broker.produce("orders", "slow", partition=0)
    broker.disk.heal()
    assert broker.topic("orders").values(partition=0) == [b"before", b"slow"]


def test_a_slow_append_delays_the_broker_and_loses_nothing(broker: Broker) -> None:
    broker.disk.slow("append", 1)
    broker.produce("orders", "slow", partition=0)
    assert broker.topic("orders").values(partition=0) == [b"before", b"slow"]


@pytest.mark.parametrize("call", range(1, 6))
def test_a_broker_that_stops_at_a_call_of_the_disk_comes_back(broker: Broker, call: int) -> None:
    broker.disk.stop_at(call)
    with pytest.raises(LabError, match="crashed in the middle of this call"):
        broker.produce("orders", *map(str, range(9)), partition=0, transactional_id=ID)
    assert broker.topic("orders").values(partition=0) in ([b"before"], [b"before", *(b"%d" % n for n in range(9))])
    assert broker.topic("orders").open(0) == [] or broker.transactions(ID).state == "Ongoing"


def test_what_was_not_synced_goes_with_the_power() -> None:
    with Broker(topics=["orders"], durability="os") as broker:
        broker.produce("orders", "kept")
        broker.crash()
        assert broker.topic("orders").values() == [b"kept"]
        broker.produce("orders", "lost")
        broker.disk.lose_unsynced()
        broker.crash(power=True)
        assert b"lost" not in broker.topic("orders").values()


def test_what_a_disk_cannot_do_is_said_with_what_it_can(broker: Broker) -> None:
    with pytest.raises(LabError, match=r'no call of a disk "synch"; did you mean sync\?'):
        broker.disk.fail("synch")
    with pytest.raises(LabError, match=r'no error of a disk "EOI"; did you mean EIO\?'):
        broker.disk.fail("sync", error="EOI")
    with pytest.raises(LabError, match="can be slow"):
        broker.disk.slow("reed", 5)
    with pytest.raises(LabError, match="1 or more"):
        broker.disk.stop_at(0)
