"""A second driver of a pipeline beside one that works, and beside one that was killed (H5)."""

import asyncio

import pytest
from pipeline_job import Job, rows
from virtual_broker import VirtualBroker

from eosin.client.client import Client
from eosin.pipeline.common.errors import PipelineAtWork, PipelineFenced
from eosin.pipeline.sink.batch_transactions import BatchTransactions
from eosin.pipeline.sink.present_driver import refuse_before_planning
from eosin.runtime.clock import SystemClock

pytestmark = pytest.mark.virtual


@pytest.fixture
async def job() -> Job:
    """A pipeline without batches."""
    broker = VirtualBroker({})
    await broker.start()
    return await Job(broker.address).create()


class Driver:
    """Commits a batch each second, until it is stopped."""

    def __init__(self, job: Job, client: Client, run: str) -> None:
        self.job, self.run = job, run
        self.transactions: BatchTransactions = job.driver(client)
        self.batch = 0

    async def start(self) -> "Driver":
        await self.transactions.start("q", self.run)
        return self

    async def commit(self, batches: int) -> None:
        for _ in range(batches):
            await self.job.batch(self.transactions, self.batch)
            self.batch += 1
            await asyncio.sleep(1)


async def test_a_second_driver_is_refused_while_the_first_works_and_the_first_goes_on(job: Job) -> None:
    async with job.client() as client, job.client() as other:
        first = await Driver(job, client, "first").start()
        await first.commit(3)
        working = asyncio.create_task(first.commit(4))
        with pytest.raises(PipelineAtWork, match=r"has committed batch \d after batch \d while this one was starting"):
            await Driver(job, other, "second").start()
        await working
    assert await job.visible() == rows(*range(7))


async def test_a_driver_that_was_killed_is_replaced_though_its_last_commit_arrives_late(job: Job) -> None:
    async with job.client() as client, job.client() as other:
        first = await Driver(job, client, "first").start()
        await first.commit(3)
        late = asyncio.create_task(first.commit(1))
        begun_ms = SystemClock().elapsed_ms()
        second = await Driver(job, other, "second").start()
        assert SystemClock().elapsed_ms() - begun_ms < 3_000
        await late
        second.batch = 4
        await second.commit(1)
        with pytest.raises(PipelineFenced):
            await first.commit(1)
    assert await job.visible() == rows(*range(5))


@pytest.mark.parametrize(("batches", "pause_s"), [(1, 0), (3, 5)], ids=["one batch", "quiet for long"])
async def test_a_start_waits_for_nobody_whose_next_batch_cannot_be_expected(
    job: Job, batches: int, pause_s: float
) -> None:
    async with job.client() as client, job.client() as other:
        await (await Driver(job, client, "first").start()).commit(batches)
        await asyncio.sleep(pause_s)
        begun_ms = SystemClock().elapsed_ms()
        await Driver(job, other, "second").start()
        assert SystemClock().elapsed_ms() - begun_ms < 50


async def test_a_run_that_starts_again_in_another_process_waits_for_nobody(job: Job) -> None:
    async with job.client() as client, job.client() as other:
        await (await Driver(job, client, "first").start()).commit(3)
        begun_ms = SystemClock().elapsed_ms()
        await Driver(job, other, "first").start()
        assert SystemClock().elapsed_ms() - begun_ms < 50


async def test_a_start_before_planning_waits_for_no_topic_and_no_broker(job: Job) -> None:
    async with job.client() as client:
        await refuse_before_planning(client, job.name, "nowhere", (), SystemClock())
    async with Client("127.0.0.1:1", request_timeout_ms=100, retry_timeout_ms=100) as client:
        await refuse_before_planning(client, job.name, "nowhere", (), SystemClock())


async def test_a_start_before_planning_is_refused_beside_one_that_works(job: Job) -> None:
    async with job.client() as client, job.client() as other:
        first = await Driver(job, client, "first").start()
        await first.commit(3)
        working = asyncio.create_task(first.commit(4))
        with pytest.raises(PipelineAtWork):
            await refuse_before_planning(other, job.name, first.transactions.topic, {"earlier"}, SystemClock())
        await working
