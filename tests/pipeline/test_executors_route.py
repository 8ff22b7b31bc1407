"""What a task of Spark does for the route `executors`, without Spark."""

import gc
import sys
from types import ModuleType

import pytest
from local_broker import SOCKET, local_broker

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import Consumer
from eosin.client.producer import Producer
from eosin.pipeline.common.security import PLAIN
from eosin.pipeline.common.worker_heap import exempt_modules_from_collection
from eosin.pipeline.sink.executors_route import TaskPlan, TaskWriter
from eosin.pipeline.sink.lease_client import Leases
from eosin.pipeline.sink.lease_server import LeaseServer
from eosin.protocol.names import TopicPartition

LOOPBACK = "127.0.0.1"


@pytest.mark.virtual
async def test_all_tasks_of_a_batch_use_the_partition_count_of_the_driver() -> None:
    """Partitions that are added meanwhile would split the rows of one key between tasks."""
    pyarrow = pytest.importorskip("pyarrow")
    leases = LeaseServer()
    async with local_broker(listeners=SOCKET) as broker, Client(broker.addresses[0]) as client:
        await Admin(client).create_topic("out", 2)
        driver = Producer(client, "totals")
        await driver.init()
        driver.begin()
        plan = TaskPlan(
            security=PLAIN,
            bootstrap=broker.addresses[0],
            name="totals batch 0",
            transactional_id="totals",
            identity=driver.share(),
            transaction_version=driver.transaction_version,
            topic="out",
            partitions=2,
            largest_batch=None,
            timestamp=1,
            task_timeout_ms=10_000,
            request_timeout_ms=10_000,
        )
        await Admin(client).create_partitions("out", 8)
        writer = TaskWriter(plan, Leases(await leases.start(LOOPBACK, LOOPBACK), 0))
        await writer.start()
        names = [str(number) for number in range(50)]
        await writer.write(pyarrow.record_batch({"key": names, "value": names}))
        await writer.finish(50)
        await writer.close(None)
        await leases.close()
        await driver.commit()
        consumer = Consumer(client)
        await consumer.assign_from([TopicPartition("out", index) for index in range(8)])
        written = await consumer.read_to_end()
    assert len(written) == 50
    assert {each.partition.partition for each in written} == {0, 1}


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
