"""One producer identity on several connections (A7): what the executors' route of the sink rests on.

Asked of Eosin and of Apache Kafka, by both transaction protocols.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from itertools import count

import pytest
from broker_process import BrokerProcess

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import LATEST, Consumer
from eosin.client.errors import BrokerError
from eosin.client.producer import TV1, TV2, Producer
from eosin.pipeline.sink.lease_client import Leases, LeasingProducer
from eosin.pipeline.sink.lease_server import LeaseServer
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.protocol.records.batch import NewRecord

pytestmark = [pytest.mark.process, pytest.mark.slow]

PARTITIONS = 3
STALE = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
_names = count()


@pytest.fixture(scope="module", params=["eosin", "apache-kafka"])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of each kind in a process of its own."""
    if request.param == "eosin":
        with BrokerProcess(tmp_path_factory.mktemp("eosin") / "data", durability="memory") as broker:
            yield broker.address
    else:
        yield request.getfixturevalue("apache_kafka")


@pytest.fixture(params=[TV1, TV2], ids=["TV1", "TV2"])
def version(request: pytest.FixtureRequest) -> int:
    """The transaction protocol that the clients use."""
    assert isinstance(request.param, int)
    return request.param


class Party:
    """A driver and its tasks, each with connections of its own, and a topic of three partitions."""

    def __init__(self, bootstrap: str, version: int, clients: AsyncExitStack) -> None:
        self.topic = f"topic-{next(_names)}"
        self.version = version
        self._bootstrap = bootstrap
        self._clients = clients

    async def client(self) -> Client:
        return await self._clients.enter_async_context(Client(self._bootstrap))

    async def driver(self) -> Producer:
        client = await self.client()
        await Admin(client).create_topic(self.topic, PARTITIONS)
        producer = Producer(client, self.topic, transaction_version=self.version)
        await producer.init()
        producer.begin()
        return producer

    async def task(self, driver: Producer) -> Producer:
        producer = Producer(await self.client(), self.topic, transaction_version=self.version)
        await producer.act_as(driver.identity)
        producer.begin()
        return producer

    async def send(self, producer: Producer, partition: int, *values: bytes) -> int:
        return await producer.send(
            TopicPartition(self.topic, partition), [NewRecord(None, value) for value in values], timestamp=1
        )

    async def settled(self) -> None:
        """Wait until no transaction is open in the topic. EndTxn is answered when the outcome is decided; markers may
        be written after that, and until then the epoch may still append."""
        client = await self.client()
        seen, all_there = Consumer(client), Consumer(client, isolation=IsolationLevel.READ_UNCOMMITTED)
        for index in range(PARTITIONS):
            partition = TopicPartition(self.topic, index)
            end = (await all_there.list_offset(partition, LATEST)).offset
            while (await seen.list_offset(partition, LATEST)).offset < end:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def visible(self) -> list[tuple[int, bytes | None]]:
        """What a reader sees, each value with its partition."""
        consumer = Consumer(await self.client())
        await consumer.assign_from([TopicPartition(self.topic, index) for index in range(PARTITIONS)])
        return sorted((each.partition.partition, each.record.value) for each in await consumer.read_to_end())


@pytest.fixture
async def party(bootstrap: str, version: int) -> AsyncIterator[Party]:
    """Who takes part, with nothing sent yet."""
    async with AsyncExitStack() as clients:
        yield Party(bootstrap, version, clients)


async def test_tasks_on_disjoint_partitions_commit_as_one(party: Party) -> None:
    driver = await party.driver()
    tasks = [await party.task(driver), await party.task(driver)]
    sends = (party.send(tasks[0], 0, b"a", b"b"), party.send(tasks[1], 1, b"c"), party.send(tasks[0], 0, b"d"))
    await asyncio.gather(*sends, party.send(driver, 2, b"marker"))
    assert await party.visible() == []
    await driver.commit()
    await party.settled()
    assert await party.visible() == [(0, b"a"), (0, b"b"), (0, b"d"), (1, b"c"), (2, b"marker")]


async def test_tasks_that_alternate_in_a_partition_continue_its_sequence_numbers(party: Party) -> None:
    driver = await party.driver()
    server = LeaseServer()
    address = await server.start("127.0.0.1", "127.0.0.1")
    sent: list[tuple[int, bytes | None]] = []

    async def write(task: int) -> None:
        async with Leases(address, task) as leases:
            producer = LeasingProducer(await party.client(), party.topic, leases, transaction_version=party.version)
            await producer.act_as(driver.identity)
            producer.begin()
            for number in range(12):  # more than the broker remembers of a producer
                values = [b"%d-%d-%d" % (task, number, each) for each in range(1 + task)]
                await party.send(producer, number % 2, *values)
                sent.extend((number % 2, value) for value in values)
            await leases.done(0, 0)

    await asyncio.gather(*(write(task) for task in range(3)))
    await server.close()
    await party.send(driver, 2, b"marker")
    await driver.commit()
    await party.settled()
    assert await party.visible() == sorted([*sent, (2, b"marker")])


async def test_an_abort_by_the_driver_discards_what_tasks_wrote(party: Party) -> None:
    driver = await party.driver()
    task = await party.task(driver)
    await party.send(task, 0, b"a")
    await party.send(driver, 1, b"marker")
    await driver.abort()
    assert await party.visible() == []


async def test_an_abort_by_a_driver_without_rows_discards_the_rows_of_its_tasks_and_fences_them(party: Party) -> None:
    driver = await party.driver()
    task = await party.task(driver)
    await party.send(task, 0, b"a")
    driver.share()
    await driver.abort()
    await party.settled()
    assert await party.visible() == []
    with pytest.raises(BrokerError) as refused:
        await party.send(task, 0, b"late")
    assert refused.value.code in STALE


async def test_a_second_writer_in_a_partition_adds_nothing_to_it(party: Party) -> None:
    driver = await party.driver()
    first, second, third = [await party.task(driver) for _ in range(3)]
    offset = await party.send(first, 0, b"a", b"b")
    # As many records: taken for a repetition, although they are others. This is why a task holds a lease.
    assert await party.send(second, 0, b"x", b"y") == offset
    # Another number of records: Apache Kafka refuses it, Eosin says that it was there already. Neither appends it.
    try:
        await party.send(third, 0, b"z")
    except BrokerError as refused:
        assert refused.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER  # noqa: PT017
    await party.send(driver, 1, b"marker")
    await driver.commit()
    await party.settled()
    assert await party.visible() == [(0, b"a"), (0, b"b"), (1, b"marker")]


async def test_in_a_fresh_epoch_every_earlier_holder_is_fenced(party: Party) -> None:
    driver = await party.driver()
    tasks = [await party.task(driver), await party.task(driver)]
    await party.send(tasks[0], 0, b"a")
    await party.send(driver, 1, b"marker")
    await driver.commit()
    await party.settled()
    if party.version == TV1:
        await driver.init(keep=True)
    for partition, task in enumerate(tasks):
        with pytest.raises(BrokerError) as refused:
            await party.send(task, partition, b"late")
        assert refused.value.code in STALE
    driver.begin()
    await party.send(driver, 1, b"next")
    await driver.commit()
    await party.settled()
    assert await party.visible() == [(0, b"a"), (1, b"marker"), (1, b"next")]


async def test_without_a_fresh_epoch_a_late_task_opens_a_transaction_that_the_next_epoch_aborts(
    bootstrap: str,
) -> None:
    async with AsyncExitStack() as clients:
        party = Party(bootstrap, TV1, clients)
        driver = await party.driver()
        task = await party.task(driver)
        await party.send(driver, 1, b"marker")
        await driver.commit()
        await party.send(task, 0, b"late")
        await driver.init(keep=True)
        driver.begin()
        await party.send(driver, 1, b"next")
        await driver.commit()
        await party.settled()
        assert await party.visible() == [(1, b"marker"), (1, b"next")]
