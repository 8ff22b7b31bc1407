"""Snapshots: a broker goes on from one, a fork leaves the original alone, and files keep one for later."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import HANG_S

from eosin.client.client import Client
from eosin.lab.async_broker import AsyncBroker
from eosin.lab.broker import Broker
from eosin.lab.broker_api import BrokerApi
from eosin.lab.common.errors import LabError
from eosin.lab.crash.snapshot import Snapshot
from eosin.lab.process_broker import ProcessBroker

pytestmark = pytest.mark.process

ID = "tx"


def test_a_restored_broker_goes_on_from_its_snapshot_at_the_same_address() -> None:
    with Broker() as broker:
        broker.produce("orders", "a", transactional_id=ID, commit=False)
        before, snapshot = broker.bootstrap, broker.snapshot()
        broker.produce("orders", "b", transactional_id=ID)
        broker.restore(snapshot)
        assert (broker.bootstrap, broker.transactions(ID).state) == (before, "Ongoing")
        assert broker.zombie(ID).commit() == "NONE"
        assert broker.topic("orders").values() == [b"a"]


def test_transactions_of_a_fork_do_not_touch_the_original() -> None:
    with Broker() as broker:
        broker.produce("orders", "a", transactional_id=ID, commit=False)
        with broker.fork() as fork:
            assert fork.bootstrap != broker.bootstrap
            assert fork.zombie(ID).commit() == "NONE"
            fork.produce("orders", "b", transactional_id=ID)
            assert fork.topic("orders").values() == [b"a", b"b"]
        assert (broker.topic("orders").values(), broker.transactions(ID).state) == ([], "Ongoing")
        assert broker.zombie(ID).abort() == "NONE"
        assert broker.topic("orders").values() == []


def test_a_fork_is_in_the_same_time() -> None:
    with Broker(clock="frozen") as broker:
        broker.clock.advance(days=8)
        with broker.fork() as fork:
            assert fork.clock.now_ms() >= broker.clock.now_ms()


def test_a_saved_snapshot_starts_another_broker(tmp_path: Path) -> None:
    with Broker(topics={"orders": 2}) as broker:
        broker.produce("orders", "a", partition=1, transactional_id=ID)
        broker.snapshot().save(tmp_path / "state.tar")
    with Broker(snapshot=Snapshot.load(tmp_path / "state.tar")) as again:
        assert again.topic("orders").values(partition=1) == [b"a"]


def test_a_broker_starts_from_a_copy_of_a_data_directory(tmp_path: Path) -> None:
    with Broker(disk=tmp_path / "data") as broker:
        broker.produce("orders", "a")
        broker.restart()
        assert broker.topic("orders").values() == [b"a"]
        with pytest.raises(LabError, match="are real: a crash, a loss of power and a copy need"):
            broker.crash()
    with Broker(snapshot=Snapshot.from_directory(tmp_path / "data")) as copy:
        copy.produce("orders", "b")
        assert copy.topic("orders").values() == [b"a", b"b"]
    with Broker(disk=tmp_path / "data") as broker:
        assert broker.topic("orders").values() == [b"a"]


STATES: dict[str, tuple[str | None, list[bytes], int]] = {
    "open-transaction": ("Ongoing", [b"before"], 1),
    "open-at-last-epoch": ("Ongoing", [b"before"], 1),
    "prepared-commit": ("CompleteCommit", [b"before", b"open"], 0),
    "prepared-abort": ("CompleteAbort", [b"before"], 0),
    "hanging": ("Empty", [b"before"], 1),
    "expired-id": (None, [b"before"], 0),
    "aborted-tail": ("CompleteAbort", [b"committed"], 0),
}


@pytest.mark.parametrize("name", STATES)
def test_a_ready_made_snapshot_is_what_its_name_says(name: str) -> None:
    with Broker(snapshot=name) as broker:
        topic, transactions = broker.topic("orders"), broker.transactions("tx")
        broker.settle()  # what was decided is written soon after the start
        assert (transactions.state, topic.values(), len(topic.open(0))) == STATES[name]
        if name == "open-at-last-epoch":
            assert transactions.epoch == 32765
        if name == "aborted-tail":
            assert topic.batches()[-1].marker == "abort"


def test_a_big_group_has_one_record_left_in_each_of_its_partitions() -> None:
    with Broker(snapshot="big-group") as broker:
        group = broker.group("big")
        assert (group.state, group.offset("orders", 99), group.lag()) == ("Empty", 1, 100)


def test_the_cluster_of_a_broker_for_tests_says_so_in_its_id(tmp_path: Path) -> None:
    with Broker() as one, Broker(disk="memory") as two, Broker(disk=tmp_path / "data") as three:
        ids = [asyncio.run(_cluster_id(each.bootstrap)) for each in (one, two, three)]
        assert len(set(ids)) == 3
        assert all(each.startswith("lab-") for each in ids)
        one.restart()
        assert asyncio.run(_cluster_id(one.bootstrap)) == ids[0]
    with Broker(settings={"eosin.cluster.id": "mine"}) as chosen:
        assert asyncio.run(_cluster_id(chosen.bootstrap)) == "mine"


async def _cluster_id(bootstrap: str) -> str:
    async with Client(bootstrap) as client:
        return (await client.fetch_metadata()).cluster_id or ""


def test_what_is_no_snapshot_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"did you mean open-transaction\?"):
        Broker(snapshot="open-transactions")
    (tmp_path / "other").write_bytes(b"no tar")
    with pytest.raises(LabError, match=r"is no snapshot of a broker: Snapshot\.save"):
        Snapshot.load(tmp_path / "other")
    with pytest.raises(LabError, match=r"it has no meta\.properties"):
        Snapshot.from_directory(tmp_path)
    with pytest.raises(LabError, match="No such file"):
        Snapshot.load(tmp_path / "missing")


def test_serve_refuses_the_directory_of_a_broker_for_tests(tmp_path: Path) -> None:
    Broker(disk=tmp_path / "data").close()
    serve = [
        sys.executable,
        "-m",
        "eosin.cli",
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        str(tmp_path / "data"),
    ]
    ended = subprocess.run(serve, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert ended.returncode == 2
    assert "is that of a broker for tests: name another with --data-dir" in ended.stderr


def test_the_directory_of_another_broker_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    with pytest.raises(LabError, match="is not for tests: start from a copy"):
        Broker(disk=tmp_path)


def lives(broker: BrokerApi) -> None:
    """Some of everything."""
    broker.produce("lives", "a", transactional_id="lives", commit=False)
    snapshot = broker.snapshot()
    broker.crash(power=True)
    assert broker.zombie("lives").commit() == "NONE"
    broker.stop()
    broker.start()
    assert (broker.topic("lives").values(), broker.transactions("lives").outcomes) == ([b"a"], ["commit"])
    broker.restore(snapshot)
    assert broker.successor("lives").write("lives", "b") == "NONE"
    assert broker.disk.calls("append") > 0


def test_a_broker_in_a_process_lives_alike() -> None:
    with ProcessBroker(snapshot="aborted-tail") as broker:
        assert broker.topic("orders").values() == [b"committed"]
        lives(broker)


@pytest.mark.full
def test_a_broker_in_a_process_forks_into_another() -> None:
    with ProcessBroker(topics=["orders"]) as broker:
        broker.produce("orders", "a")
        with broker.fork() as fork:
            assert fork.topic("orders").values() == [b"a"]
            assert fork.pid != broker.pid


async def test_an_awaited_broker_lives_and_forks_alike() -> None:
    async with AsyncBroker() as broker:
        await broker.produce("orders", "a", transactional_id=ID, commit=False)
        snapshot = await broker.snapshot()
        await broker.crash(power=True)
        zombie = await broker.zombie(ID)
        assert await zombie.commit() == "NONE"
        await broker.stop()
        await broker.start()
        async with await broker.fork() as fork:
            assert await fork.topic("orders").values() == [b"a"]
        await broker.restore(snapshot)
        assert await broker.topic("orders").values() == []
        await broker.disk.fail("append")
        assert await broker.disk.calls("append") > 0
