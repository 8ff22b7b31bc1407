"""The example of docs/two-phase-commit.md, killed at each of its steps, alone or together with the broker.

Whatever happened, a run that lives finds the same orders in the database and in Kafka. While nothing runs, Kafka never
has one that the database lacks, and lacks at most one that is decided already.
"""

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from waiting import HANG_S

from eosin.client.client import Client
from eosin.client.consumer import Consumer
from eosin.client.transactions import TransactionAdmin
from eosin.protocol.names import TopicPartition

PAGE = Path(__file__).resolve().parents[2] / "docs" / "two-phase-commit.md"
# The longest wait for markers, so that a slow disk does not hide from the example what it has just committed.
SETTINGS = {"transaction.two.phase.commit.enable": "true", "eosin.end.txn.marker.wait.ms": "1000"}
KILLED = 70
ALL = range(100)
SOME = (2, 4, 11, 15, 16, 17)
"""Numbers of steps: tables are made, a producer recovers, a record is sent, an order is decided and carried out."""

STEPS = """\
import os, signal, sqlite3
from eosin.client.connection import Connection
from eosin.client.two_phase import TwoPhaseProducer
from eosin.protocol.keys import ApiKey

passed = 0

def step(name):
    global passed
    passed += 1
    print(passed, name, flush=True)
    if passed == int(os.environ["CRASH_AT"]):
        if os.environ["BROKER"]:
            os.kill(int(os.environ["BROKER"]), signal.SIGKILL)
        os._exit(70)

def stepping(name, method):
    async def call(*arguments, **how):
        step(f"before {name}")
        result = await method(*arguments, **how)
        step(f"after {name}")
        return result
    return call

for name in ("recover", "send", "prepare", "complete"):
    setattr(TwoPhaseProducer, name, stepping(name, getattr(TwoPhaseProducer, name)))

submit = Connection.submit

def submit_and_die(connection, key, *arguments, **how):
    answer = submit(connection, key, *arguments, **how)
    if key in (ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN):
        step(f"{key.name} is sent")
    return answer

Connection.submit = submit_and_die

class Database(sqlite3.Connection):
    def __exit__(self, *error):
        step("before the database commits")
        result = super().__exit__(*error)
        step("after the database commits")
        return result

connect = sqlite3.connect
sqlite3.connect = lambda path: connect(path, factory=Database)
"""
"""Put before the example. The first step is the creation of the tables."""


def example() -> str:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert "127.0.0.1:9092" in code
    return str(code)


class Shop:
    """The example's folder, and the broker that it uses."""

    def __init__(self, folder: Path, broker: BrokerProcess) -> None:
        self.folder = folder
        self.broker = broker
        folder.mkdir()

    def run(
        self, *, crash_at: int = 0, with_broker: bool = False, steps: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run the example once, up to a step."""
        code = example().replace("127.0.0.1:9092", self.broker.address)
        environment = {
            **os.environ,
            "CRASH_AT": str(crash_at),
            "BROKER": str(self.broker.pid) if with_broker else "",
        }
        return subprocess.run(
            [sys.executable, "-c", STEPS + code if steps else code],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )

    def ordered(self) -> list[str]:
        """What the database has."""
        database = sqlite3.connect(self.folder / "shop.db")
        try:
            return [book for (book,) in database.execute("SELECT book FROM orders")]
        finally:
            database.close()

    async def published(self) -> list[str]:
        """What readers of committed records get."""
        async with Client(self.broker.address) as client:
            consumer = Consumer(client)
            await consumer.assign_from([TopicPartition("orders", 0)])
            return [(each.record.value or b"").decode() for each in await consumer.read_to_end()]

    async def open_transactions(self) -> list[str]:
        async with Client(self.broker.address) as client:
            listed = await TransactionAdmin(client).list_transactions(states=["Ongoing"])
            return [each.transactional_id for each in listed]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with BrokerProcess(tmp_path / "data", durability="fsync", settings=SETTINGS) as broker:
        yield Shop(tmp_path / "shop", broker)


def test_the_documented_example_runs_and_prints_the_same_orders_twice(shop: Shop) -> None:
    for books in (["book 1"], ["book 1", "book 2"]):
        done = shop.run(steps=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{books}\n{books}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("with_broker", "numbers"),
    [
        pytest.param(False, ALL, id="the producer", marks=pytest.mark.full),
        pytest.param(True, ALL, id="the producer and the broker", marks=pytest.mark.full),
        pytest.param(True, SOME, id="the producer and the broker, at some steps"),
    ],
)
def test_after_a_crash_at_any_step_database_and_topic_have_the_same_orders(
    shop: Shop, with_broker: bool, numbers: Collection[int]
) -> None:
    done = shop.run()
    assert done.returncode == 0, done.stderr
    steps = [line for line in done.stdout.splitlines() if line[0].isdigit()]
    assert len(steps) >= 18
    waited = 0
    for number in sorted(set(range(1, len(steps) + 1)).intersection(numbers)):
        died = shop.run(crash_at=number, with_broker=with_broker)
        assert died.returncode == KILLED, died.stderr
        if with_broker:
            shop.broker.kill()
            shop.broker.start()
        # It has finished what the run before was at, or left it as it was; and maybe decided something of its own.
        ordered, published = shop.ordered(), asyncio.run(shop.published())
        assert ordered[: len(published)] == published, steps[number - 1]
        assert len(ordered) - len(published) in (0, 1), steps[number - 1]
        waited += len(ordered) - len(published)
    assert waited > 0, "it never died between the decision and its being carried out"
    done = shop.run()
    assert done.returncode == 0, done.stderr
    assert asyncio.run(shop.published()) == shop.ordered()
    assert asyncio.run(shop.open_transactions()) == []


@pytest.mark.slow
def test_a_crash_during_recovery_is_recovered_from(shop: Shop) -> None:
    done = shop.run()
    steps = [line for line in done.stdout.splitlines() if line[0].isdigit()]
    decided = next(
        number
        for number, line in enumerate(steps, start=1)
        if line.endswith("after the database commits") and any("after prepare" in each for each in steps[:number])
    )
    last_of_recovery = next(number for number, line in enumerate(steps, start=1) if line.endswith("after complete"))
    assert shop.run(crash_at=decided).returncode == KILLED
    for number in range(1, last_of_recovery):
        assert shop.run(crash_at=number, with_broker=bool(number % 2)).returncode == KILLED
        if number % 2:
            shop.broker.kill()
            shop.broker.start()
        assert len(shop.ordered()) == 2
    done = shop.run()
    assert done.returncode == 0, done.stderr
    assert asyncio.run(shop.published()) == shop.ordered() == ["book 1", "book 2", "book 3"]
