"""What a task of Spark does for the route `executors`, without Spark."""

import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from local_broker import SOCKET, local_broker

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import ConsumedRecord, Consumer
from eosin.client.errors import BrokerError
from eosin.client.producer import Producer
from eosin.pipeline.common.loop_thread import LoopThread
from eosin.pipeline.common.retrying_client import RetryingClient
from eosin.pipeline.common.security import PLAIN
from eosin.pipeline.sink.executors_route import ExecutorsRoute, TaskPlan, TaskWriter
from eosin.pipeline.sink.lease_client import Leases
from eosin.pipeline.sink.lease_server import LeaseServer
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition

py4j_errors = pytest.importorskip("py4j.protocol")

LOOPBACK = "127.0.0.1"
PROPERTY = "eosin.batch"
PLAN = TaskPlan(
    bootstrap="127.0.0.1:1",
    name="totals batch 0",
    transactional_id="totals",
    identity=ProducerIdAndEpoch(1, 0),
    transaction_version=2,
    topic="out",
    partitions=2,
    largest_batch=None,
    timestamp=1,
    task_timeout_ms=10_000,
    request_timeout_ms=10_000,
)


class Batch:
    """The open transaction of a batch, and the tasks that write into it."""

    def __init__(self, client: Client, address: str) -> None:
        self.client, self.address = client, address
        self.driver = Producer(client, "totals")
        self.leases = LeaseServer()

    async def begin(self) -> TaskPlan:
        """The plan of its tasks."""
        await self.driver.init()
        self.driver.begin()
        self.at = await self.leases.start(LOOPBACK, LOOPBACK)
        return replace(
            PLAN,
            bootstrap=self.address,
            identity=self.driver.share(),
            transaction_version=self.driver.transaction_version,
        )

    async def task(self, plan: TaskPlan, number: int, kept: dict[Any, RetryingClient] | None = None) -> None:
        pyarrow = pytest.importorskip("pyarrow")
        writer = TaskWriter(plan, PLAIN, Leases(self.at, number), kept)
        await writer.start()
        try:
            names = [str(number) for number in range(50)]
            await writer.write(pyarrow.record_batch({"key": names, "value": names}))
            await writer.finish(50)
        except BaseException as error:
            await writer.close(error)
            raise
        await writer.close(None)

    async def commit(self) -> None:
        await self.leases.close()
        await self.driver.commit()

    async def written(self, partitions: int) -> list[ConsumedRecord]:
        consumer = Consumer(self.client)
        await consumer.assign_from([TopicPartition("out", index) for index in range(partitions)])
        return await consumer.read_to_end()


@pytest.mark.virtual
async def test_all_tasks_of_a_batch_use_the_partition_count_of_the_driver() -> None:
    """Partitions that are added meanwhile would split the rows of one key between tasks."""
    async with local_broker(listeners=SOCKET) as broker, Client(broker.addresses[0]) as client:
        await Admin(client).create_topic("out", 2)
        batch = Batch(client, broker.addresses[0])
        plan = await batch.begin()
        await Admin(client).create_partitions("out", 8)
        await batch.task(plan, 0)
        await batch.commit()
        written = await batch.written(8)
    assert len(written) == 50
    assert {each.partition.partition for each in written} == {0, 1}


@pytest.mark.virtual
async def test_a_task_writes_by_the_connections_of_the_one_before_even_if_the_topic_is_another_one_now() -> None:
    kept: dict[Any, RetryingClient] = {}
    async with local_broker(listeners=SOCKET) as broker, Client(broker.addresses[0]) as client:
        await Admin(client).create_topic("out", 2)
        for number in range(2):
            batch = Batch(client, broker.addresses[0])
            plan = await batch.begin()
            await batch.task(plan, 0, kept)
            if number == 0:
                (first,) = kept.values()
                await batch.task(plan, 1, kept)
                await batch.commit()
                await Admin(client).delete_topics(["out"])
                await Admin(client).create_topic("out", 2)
                client.forget_topics()
            else:
                await batch.commit()
            assert list(kept.values()) == [first]
        assert len(await batch.written(2)) == 50
        await first.close()


@pytest.mark.virtual
async def test_the_connections_of_a_task_that_failed_are_closed() -> None:
    kept: dict[Any, RetryingClient] = {}
    async with local_broker(listeners=SOCKET) as broker, Client(broker.addresses[0]) as client:
        await Admin(client).create_topic("out", 2)
        batch = Batch(client, broker.addresses[0])
        plan = await batch.begin()
        await batch.driver.abort()
        with pytest.raises(BrokerError):
            await batch.task(plan, 0, kept)
        await batch.leases.close()
    assert not kept


class Context:
    """Of Spark, in which a batch runs."""

    master = "local[2]"

    def __init__(self) -> None:
        self.properties: dict[str, str | None] = {}
        self.is_gone = False

    def setLocalProperty(self, name: str, value: str | None) -> None:
        if self.is_gone:
            raise py4j_errors.Py4JNetworkError("Java is gone")
        self.properties[name] = value


class Job:
    """What Spark has planned for a batch: it finds the batch's property, and does what a test says."""

    def __init__(self, context: Context, outcome: Callable[[], int]) -> None:
        self.context, self.outcome = context, outcome

    def count(self) -> int:
        assert self.context.properties[PROPERTY] is not None
        return self.outcome()


@pytest.fixture
def route() -> Iterator[ExecutorsRoute]:
    """The route, and its loop."""
    loop = LoopThread("test")
    yield ExecutorsRoute(loop)
    loop.close()


@pytest.mark.process
def test_a_batch_leaves_no_property_behind_for_later_jobs_however_it_ends(route: ExecutorsRoute) -> None:
    def fail() -> int:
        raise py4j_errors.Py4JNetworkError("the job has failed")

    context: Any = Context()
    assert route.write(context, Job(context, lambda: 0), PLAN).rows == 0
    assert context.properties[PROPERTY] is None
    with pytest.raises(py4j_errors.Py4JNetworkError, match="the job has failed"):
        route.write(context, Job(context, fail), PLAN)
    assert context.properties[PROPERTY] is None


@pytest.mark.process
def test_the_leases_of_a_batch_end_with_it_even_if_java_is_gone(route: ExecutorsRoute) -> None:
    def vanish() -> int:
        context.is_gone = True
        raise py4j_errors.Py4JNetworkError("Java is gone")

    context: Any = Context()
    with pytest.raises(py4j_errors.Py4JNetworkError, match="Java is gone"):
        route.write(context, Job(context, vanish), PLAN)
    port = json.loads(context.properties[PROPERTY])[1]["port"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, port))
