"""What a task of Spark does for the route `executors`, without Spark."""

import gc
import sys
from types import ModuleType
from typing import Any

import pytest
from local_broker import SOCKET, local_broker

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import ConsumedRecord, Consumer
from eosin.client.errors import BrokerError
from eosin.client.producer import Producer
from eosin.pipeline.common.retrying_client import RetryingClient
from eosin.pipeline.common.security import PLAIN
from eosin.pipeline.common.worker_heap import exempt_modules_from_collection
from eosin.pipeline.sink.executors_route import TaskPlan, TaskWriter
from eosin.pipeline.sink.lease_client import Leases
from eosin.pipeline.sink.lease_server import LeaseServer
from eosin.protocol.names import TopicPartition

LOOPBACK = "127.0.0.1"


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
        return TaskPlan(
            bootstrap=self.address,
            name="totals batch 0",
            transactional_id="totals",
            identity=self.driver.share(),
            transaction_version=self.driver.transaction_version,
            topic="out",
            partitions=2,
            largest_batch=None,
            timestamp=1,
            task_timeout_ms=10_000,
            request_timeout_ms=10_000,
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


def test_the_modules_of_a_worker_are_exempt_from_garbage_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.unfreeze()
    try:
        monkeypatch.setitem(sys.modules, "a_module_that_is_new", ModuleType("a_module_that_is_new"))
        monkeypatch.setattr("eosin.pipeline.common.worker_heap._modules_seen", 0)
        exempt_modules_from_collection()
        exempt = gc.get_freeze_count()
        assert exempt > 1000
        later = [[index] for index in range(5000)]
        exempt_modules_from_collection()
        assert gc.get_freeze_count() <= exempt, "nothing new was imported"
        assert len(later) == 5000
    finally:
        gc.unfreeze()
