"""A broker that crashes, at any point, and comes back: nothing that it has acknowledged is lost or halved."""

import asyncio
import os
import socket
import threading
from collections.abc import Iterator

import pytest
from scripted_points import ScriptedPoints
from waiting import HANG_S

from eosin.lab.broker import Broker, ThreadedBroker
from eosin.lab.broker_api import BrokerApi
from eosin.lab.common.errors import LabError
from eosin.lab.disk.points import APPENDED, DURABLE, MARKER, PREPARED, Moment
from eosin.lab.options import options_of

pytestmark = pytest.mark.process

ID = "tx"


class Scripted(Broker):
    """A broker whose points a test scripts."""

    def __init__(self, *, topics: dict[str, int], seed: int = 1, settings: dict[str, str] | None = None) -> None:
        self.points = ScriptedPoints()
        # Its response to the end of a transaction waits for the markers, so that a crash there is one in the call.
        options = options_of(topics=topics, seed=seed, settings=settings or {}, behaviour="eosin")
        self._held = ThreadedBroker(options, points=self.points).start()  # type: ignore[misc]

    def crash_at(self, point: str, *, nth: int = 1, power: bool = False, topic: str | None = None) -> None:
        """Crash when the point is reached for the nth time."""
        left = nth

        def happens(moment: Moment) -> None:
            nonlocal left
            if topic is not None and moment.topic != topic:
                return
            left -= 1
            if not left:
                self.points.clear()
                self._held.broker.crash_here(power=power)

        self.points.at(point, happens)


@pytest.fixture
def broker() -> Iterator[Scripted]:
    with Scripted(topics={"orders": 3}) as started:
        yield started


def write_open(broker: BrokerApi, *values: str) -> None:
    """A transaction with one record in each partition of `orders`, left open."""
    broker.produce("orders", values[0], partition=0, transactional_id=ID, commit=False)
    zombie = broker.zombie(ID)
    for partition, value in enumerate(values[1:], 1):
        assert zombie.write("orders", value, partition=partition) == "NONE"


def commit_into_crash(broker: BrokerApi) -> None:
    with pytest.raises(LabError, match="crashed in the middle of this call"):
        broker.zombie(ID).commit()


def connected(bootstrap: str) -> bool:
    host, _, port = bootstrap.rpartition(":")
    try:
        socket.create_connection((host, int(port))).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_crash_between_the_decision_and_the_first_marker_rolls_forward(broker: Scripted) -> None:
    write_open(broker, "a", "b", "c")
    broker.crash_at(PREPARED)
    commit_into_crash(broker)
    assert broker.topic("orders").values() == [b"a", b"b", b"c"]
    assert (broker.transactions(ID).state, broker.transactions(ID).outcomes) == ("CompleteCommit", ["commit"])


AT_THE_DECISION = pytest.mark.parametrize(("point", "topic"), [(PREPARED, None), (DURABLE, "__transaction_state")])


@AT_THE_DECISION
def test_a_transaction_that_timed_out_into_a_crash_has_timed_out(
    broker: Scripted, point: str, topic: str | None
) -> None:
    write_open(broker, "a", "b", "c")
    broker.crash_at(point, topic=topic)
    with pytest.raises(LabError, match="crashed in the middle of this call"):
        broker.clock.advance(minutes=2)
    assert (broker.transactions(ID).state, broker.transactions(ID).outcomes) == ("CompleteAbort", ["timeout"])


@AT_THE_DECISION
def test_a_transaction_that_was_fenced_into_a_crash_was_fenced(broker: Scripted, point: str, topic: str | None) -> None:
    write_open(broker, "a", "b", "c")
    broker.crash_at(point, topic=topic)
    with pytest.raises(LabError, match="crashed in the middle of this call"):
        broker.successor(ID)
    assert broker.transactions(ID).outcomes == ["fenced"]


@AT_THE_DECISION
def test_a_transaction_that_was_aborted_into_a_crash_was_aborted(
    broker: Scripted, point: str, topic: str | None
) -> None:
    write_open(broker, "a", "b", "c")
    broker.crash_at(point, topic=topic)
    with pytest.raises(LabError, match="crashed in the middle of this call"):
        broker.zombie(ID).abort()
    assert broker.transactions(ID).outcomes == ["abort"]


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
def test_after_one_of_three_markers_all_partitions_end_alike(broker: Scripted, power: bool) -> None:
    write_open(broker, "a", "b", "c")
    broker.crash_at(MARKER, power=power)
    commit_into_crash(broker)
    assert broker.topic("orders").values() == [b"a", b"b", b"c"]
    assert [broker.topic("orders").open(partition) for partition in range(3)] == [[], [], []]
    markers = {each.partition: each.marker for each in broker.topic("orders").batches() if each.marker}
    assert markers == {0: "commit", 1: "commit", 2: "commit"}


def test_a_decision_that_was_not_durable_is_none_after_a_loss_of_power(broker: Scripted) -> None:
    write_open(broker, "a")
    broker.disk.lose_unsynced()
    broker.crash_at(APPENDED, topic="__transaction_state", power=True)
    commit_into_crash(broker)
    assert broker.transactions(ID).state == "Ongoing"
    assert broker.zombie(ID).commit() == "NONE"
    assert broker.topic("orders").values() == [b"a"]


def test_a_record_that_was_synced_is_there_though_nobody_was_told(broker: Scripted) -> None:
    broker.crash_at(DURABLE, topic="orders", power=True)
    with pytest.raises(LabError, match="crashed in the middle"):
        broker.produce("orders", "synced", partition=0)
    assert broker.topic("orders").values() == [b"synced"]


@pytest.mark.parametrize("seed", range(6))
def test_a_loss_of_power_at_any_call_of_the_disk_loses_nothing_acknowledged(seed: int) -> None:
    with Scripted(topics={"orders": 2}, seed=seed) as broker:
        acknowledged: list[bytes] = []
        calls = 0

        def crash(moment: Moment) -> None:
            nonlocal calls
            calls -= 1
            if not calls:
                broker.points.clear()
                broker._held.broker.crash_here(power=True)

        for step in range(4):
            calls = 2 + 3 * seed + step
            broker.points.at("disk", crash)
            for number in range(3):
                value = f"{step}-{number}"
                try:
                    broker.produce("orders", value, partition=number % 2, transactional_id=ID)
                except LabError:
                    continue
                acknowledged.append(value.encode())
            broker.points.clear()
        found = broker.topic("orders").values()
        assert set(acknowledged) <= set(found)
        assert len(found) == len(set(found)), "nothing is there twice"
        assert broker.explain("orders")


def test_held_at_a_point_a_commit_is_decided_and_unknown_to_partitions(broker: Scripted) -> None:
    broker.produce("orders", "a", partition=0, transactional_id=ID, commit=False)
    is_held = threading.Event()
    held: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def hold(moment: Moment) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        held.append((loop, loop.create_future()))
        is_held.set()
        return held[0][1]

    broker.points.at(PREPARED, hold)
    assert broker.zombie(ID).commit() == "NONE"
    assert is_held.wait(HANG_S)
    assert broker.transactions(ID).state == "PrepareCommit"
    broker.points.clear()
    (loop, future), *_ = held
    loop.call_soon_threadsafe(future.set_result, None)
    assert broker.topic("orders").values() == [b"a"]
    assert broker.points.passed == [Moment(PREPARED, None, None, ID, 0, 1, True)]


def test_the_address_stays_and_nobody_listens_there_meanwhile(broker: Scripted) -> None:
    before = broker.bootstrap
    assert connected(before)
    broker.crash(restart=False)
    assert not connected(before)
    with pytest.raises(LabError, match="does not run: start"):
        broker.produce("orders", "a")
    broker.start()
    assert (broker.bootstrap, connected(before)) == (before, True)
    broker.stop()
    assert not connected(before)
    broker.start()
    assert connected(before)


def test_a_clean_restart_takes_other_settings_and_a_wrong_one_leaves_it_as_it_was(broker: Scripted) -> None:
    broker.produce("orders", "a", partition=0)
    broker.restart(settings={"transaction.max.timeout.ms": 1234})
    assert broker._held.broker.node.config.transaction_max_timeout_ms == 1234
    with pytest.raises(LabError, match=r"transaction\.max\.timeout"):
        broker.restart(clean=False, settings={"transaction.max.timeout.ms": "often"})
    assert broker.topic("orders").values() == [b"a"]


def test_connections_are_gone_after_a_crash(broker: Scripted) -> None:
    host, _, port = broker.bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), HANG_S) as connection:
        while not broker.connections():
            pass
        broker.crash()
        assert connection.recv(1) == b""
    assert broker.connections() == []


@pytest.mark.parametrize("lives", [20, pytest.param(200, marks=pytest.mark.full)])
def test_crashes_and_restarts_leave_no_thread_and_no_descriptor(lives: int) -> None:
    with Broker(topics=["orders"]) as broker:
        broker.crash()
        before = (threading.active_count(), len(os.listdir("/proc/self/fd")))
        for number in range(lives // 2):
            broker.crash(power=number % 2 == 0)
            broker.restart()
        assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == before


def test_without_a_disk_of_the_lab_nothing_crashes() -> None:
    with Broker(disk="memory") as broker, pytest.raises(LabError, match="keeps nothing"):
        broker.crash()
