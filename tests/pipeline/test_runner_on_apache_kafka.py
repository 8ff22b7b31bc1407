"""The asyncio runner with Apache Kafka at both ends."""

import asyncio
from collections.abc import Iterable, Iterator

import pytest
from apache_kafka import ApacheKafka
from runner_job import Job
from toolchains import skipped_without
from waiting import until

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import ConsumedRecord
from eosin.client.transactions import TransactionAdmin
from eosin.pipeline.common.errors import DataLoss, MissingTopic, TransactionTimedOut
from eosin.pipeline.common.partitioning import partition_of
from eosin.pipeline.runner.runner import Output

pytestmark = [pytest.mark.process, pytest.mark.slow]


FORGETS = {
    "transactional.id.expiration.ms": "5000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where Apache Kafka answers, which soon forgets ids that nobody uses."""
    with skipped_without():
        kafka = ApacheKafka(tmp_path_factory.mktemp("kafka"), settings=FORGETS)
    with kafka:
        yield kafka.address


@pytest.fixture
async def job(bootstrap: str) -> Job:
    """An application with topics of its own."""
    job = Job(bootstrap)
    job.settings["request.timeout.ms"] = "5000"
    return await job.create()


async def test_each_record_is_transformed_once_across_runs_and_in_partitions_that_were_added(job: Job) -> None:
    await job.feed("a", "b", "c", "d")
    await job.run_until(job.runner(), lambda: job.records_in() == 4)
    runner = job.runner(**{"metadata.max.age.ms": "50"})
    running = asyncio.create_task(runner.run())
    await job.feed("e")
    await until(lambda: job.records_in() == 5)
    async with Client(job.address) as client:
        await Admin(client).create_partitions(job.input, 4)
        await Admin(client).create_partitions(job.output, 5)
    await until(lambda: len(runner.partitions) == 4)
    await job.feed("f", partition=3)
    fed = await job.feed_until_it_writes_to(2, fed=6)
    runner.stop()
    await running
    written = await job.outputs()
    assert len({each.record.key for each in written}) == len(written) == fed
    for each in written:
        assert each.partition.partition in {partition_of(each.record.key, None, count) for count in (2, 5)}


async def test_an_input_that_was_deleted_and_created_anew_is_not_taken_for_the_old_one(job: Job) -> None:
    await job.feed("a", "b", partition=0)
    running = asyncio.create_task(job.runner().run())
    await until(lambda: job.records_in() == 2)
    await job.create_input_anew()
    await job.feed("c", "d", "e", partition=0)
    with pytest.raises(DataLoss, match=f"topic {job.input} was deleted and created anew"):
        await running
    await job.run_until(job.runner(), lambda: job.records_in() == 5)
    assert await job.written() == ["A", "B", "C", "D", "E"]


async def test_a_missing_output_and_a_transaction_that_took_too_long_are_reported(job: Job) -> None:
    await job.feed("a")
    with pytest.raises(MissingTopic, match="output topic nowhere does not exist"):
        await job.runner(lambda _: [Output("nowhere", b"")]).run()

    async def slow(consumed: ConsumedRecord) -> Iterable[Output]:
        if consumed.record.value == b"slow":
            await until(lambda: job.is_in("CompleteAbort"))
        return job.upper(consumed)

    settings = {"commit.interval.ms": "60000", "transaction.timeout.ms": "500"}
    runner = job.runner(slow, **settings)
    running = asyncio.create_task(runner.run())
    await job.is_transforming(runner)
    await job.feed("slow")
    with pytest.raises(TransactionTimedOut, match=r"was aborted after transaction\.timeout\.ms=500"):
        await running
    await job.run_until(job.runner(), lambda: job.records_in() == 2)
    assert await job.written() == ["A", "SLOW"]


async def test_a_runner_whose_id_was_forgotten_initialises_it_again_and_goes_on(
    job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    await job.feed("a", "b")
    running = asyncio.create_task((runner := job.runner()).run())
    await until(lambda: job.records_in() == 2)
    await until(lambda: is_forgotten(job))
    await job.feed("c", "d")
    await until(lambda: job.records_in() == 4)
    runner.stop()
    await running
    assert await job.written() == ["A", "B", "C", "D"]
    assert "initialises its producer id again" in caplog.text


async def is_forgotten(job: Job) -> bool:
    async with Client(job.address) as client:
        listed = await TransactionAdmin(client).list_transactions()
    return f"app-{job.name}" not in {each.transactional_id for each in listed}
