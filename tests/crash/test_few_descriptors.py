"""A real broker with few descriptors, more clients and partitions than fit: nothing goes offline, nothing is lost."""

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from waiting import HANG_S

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import Consumer
from eosin.client.errors import ClientError
from eosin.client.producer import Producer
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord

PARTITIONS = 150
KEYS = 5
COMMITS = int(os.environ.get("EOSIN_DESCRIPTOR_COMMITS", "40"))
"""The work goes on until so many transactions were committed, however long a busy machine takes for them."""

SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "eosin.log.level": "info",
    "transaction.state.log.num.partitions": "5",
    "offsets.topic.num.partitions": "5",
}


class Work:
    """What all workers do together."""

    def __init__(self) -> None:
        self._left = COMMITS

    @property
    def is_done(self) -> bool:
        return self._left <= 0

    def committed(self) -> None:
        """One transaction more."""
        self._left -= 1


class Worker:
    """A client that comes, commits transactions of records in several partitions, and goes, again and again."""

    def __init__(self, bootstrap: str, number: int, work: Work) -> None:
        self._bootstrap = bootstrap
        self._work = work
        self._number = number
        self._chance = random.Random(number)
        self._count = 0
        self.committed: list[bytes] = []
        self.doubtful: list[bytes] = []
        self.refused = 0

    async def run(self) -> None:
        while not self._work.is_done:
            # Each needs two connections at a time, so that those who got one must give it up now and then; on a busy
            # machine nobody would ever get two who gives up as early each time.
            patience_ms = min(500 * 2**self.refused, 20_000)
            try:
                async with Client(self._bootstrap, retry_timeout_ms=patience_ms, request_timeout_ms=20_000) as client:
                    await self._stay(client)
            except ClientError:
                self.refused += 1
                await asyncio.sleep(self._chance.random())

    async def _stay(self, client: Client) -> None:
        producer = Producer(client, f"worker-{self._number}", transaction_timeout_ms=2000)
        await producer.init()
        for _ in range(3):
            if self._work.is_done:
                return
            values = []
            producer.begin()
            records: dict[TopicPartition, list[NewRecord]] = {}
            for partition in self._chance.sample(range(PARTITIONS), 8):
                values.append(b"%d-%d" % (self._number, self._count))
                self._count += 1
                records[TopicPartition("plain", partition)] = [NewRecord(key=None, value=values[-1] + b"." * 2000)]
            key = b"%d" % self._chance.randrange(KEYS)
            records[TopicPartition("compacted", self._number % 4)] = [NewRecord(key=key, value=b"." * 1000)]
            await producer.send_all(records)
            try:
                await producer.commit()
            except ClientError:
                self.doubtful += values
                raise
            self.committed += values
            self._work.committed()


async def _work(address: str, clients: int) -> list[Worker]:
    async with Client(address) as client:
        admin = Admin(client)
        await admin.create_topic("plain", PARTITIONS, configs={"segment.ms": "300"})
        await admin.create_topic(
            "compacted",
            4,
            configs={"segment.ms": "300", "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
        )
    work = Work()
    workers = [Worker(address, number, work) for number in range(clients)]
    async with asyncio.timeout(HANG_S), asyncio.TaskGroup() as group:
        for worker in workers:
            group.create_task(worker.run())
    return workers


async def _read(address: str, wanted: set[bytes]) -> list[bytes]:
    """What readers of committed records see, as soon as that has all of `wanted`: markers may be on their way, and a
    transaction that a refused client left open hides what is behind it until its timeout."""
    async with Client(address) as client, asyncio.timeout(HANG_S):
        while True:
            consumer = Consumer(client, partition_max_bytes=100_000)
            consumer.assign({TopicPartition("plain", partition): 0 for partition in range(PARTITIONS)})
            values = [each.record.value or b"" for each in await consumer.read_to_end(30_000)]
            found = [bytes(value).rstrip(b".") for value in values]
            if wanted <= set(found):
                return found
            await asyncio.sleep(0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "durability", "loop", "clients"),
    [
        (64, "fsync", "uvloop", 60),
        (120, "os", "asyncio", 120),
        pytest.param(256, "fsync", "asyncio", 250, marks=pytest.mark.long),
    ],
)
def test_with_few_descriptors_no_partition_goes_offline_and_no_committed_record_is_lost(
    tmp_path: Path, limit: int, durability: str, loop: str, clients: int
) -> None:
    settings = SETTINGS | {"eosin.event.loop": loop}
    broker = BrokerProcess(tmp_path / "data", durability=durability, settings=settings, descriptors=limit)
    with broker:
        workers = asyncio.run(_work(broker.address, clients))
        committed = {value for worker in workers for value in worker.committed}
        doubtful = {value for worker in workers for value in worker.doubtful}
        assert committed
        found = asyncio.run(_read(broker.address, committed))
        assert len(found) == len(set(found))
        assert set(found) <= committed | doubtful
        assert "too many connections, the limit of" in broker.log
        assert broker.stop() == 0
    with broker:
        assert sorted(asyncio.run(_read(broker.address, committed))) == sorted(found), "also after a start with as few"
    assert "offline" not in broker.log
    assert "Traceback" not in broker.log
    assert " ERROR " not in broker.log
    checked = subprocess.run(
        [sys.executable, "-m", "eosin.cli", "check", str(broker.data_dir)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout


@pytest.mark.slow
def test_a_descriptor_limit_that_is_too_low_ends_the_start_with_one_sentence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "eosin.cli", "serve", "--data-dir", str(tmp_path / "data")]
    limited = ["sh", "-c", 'ulimit -n 63 && exec "$@"', "sh", *command]
    refused = subprocess.run(limited, capture_output=True, text=True, check=False, timeout=HANG_S)
    assert refused.returncode == 2
    assert refused.stderr == (
        "eosin serve: the limit on open files is 63, and a broker needs 64: raise it (ulimit -n)\n"
    )
