"""The commits of `format("eosin")` below Spark: a fault at every request, and processes that replace each other."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from local_broker import SOCKET, local_broker
from pipeline_broker import UNLIKE, Faults, Seen
from pipeline_job import Job, rows

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import Consumer
from eosin.client.errors import ClientError
from eosin.network.api import Api, RequestContext
from eosin.node.running import RunningNode
from eosin.pipeline.common.errors import (
    ConflictingSettings,
    ForeignMarker,
    MissingMarker,
    MissingTopic,
    PipelineAtWork,
    PipelineError,
    RangeMismatch,
    RolledBackCheckpoint,
)
from eosin.pipeline.common.retrying_client import RetryingClient
from eosin.pipeline.format import batch_commits
from eosin.pipeline.format.batch_commits import StreamCommits, TaskOutput, commit_once
from eosin.pipeline.format.task_rows import packed
from eosin.pipeline.format.write_options import WriteOptions
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition

pyarrow = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.virtual


class AnyFaults(Faults):
    """Counts the requests of all clients: those of this test are quiet while batches are committed."""

    @staticmethod
    def _counts(context: RequestContext, api: Api) -> bool:
        return api.key not in UNLIKE


@pytest.fixture
def faults() -> Faults:
    """What the broker loses, of all requests."""
    return AnyFaults()


@pytest.fixture
async def broker(faults: Faults) -> AsyncIterator[RunningNode]:
    """A broker that loses what `faults` says."""
    async with local_broker(hooks=faults, listeners=SOCKET) as server:
        yield server


class Query:
    """A query with a checkpoint, and processes that commit for it."""

    def __init__(self, job: Job, folder: Path, *, query_id: str = "q", **options: object) -> None:
        self.folder = folder / uuid.uuid4().hex
        (self.folder / "offsets").mkdir(parents=True)
        (self.folder / "metadata").write_text(f'{{"id":"{query_id}"}}')
        self.options = WriteOptions(
            job.address,
            topic=job.name,
            pipeline=job.name,
            checkpoint=str(self.folder),
            **options,  # type: ignore[arg-type]
        )
        self.query_id = query_id

    def process(self) -> StreamCommits:
        return StreamCommits(self.options)

    def plan(self, batch: int, text: str = "") -> None:
        (self.folder / "offsets" / str(batch)).write_text(text or f"range-{batch}")

    def outputs(self, batch: int) -> list[TaskOutput]:
        return [output(f"{batch}.{row}", query=self.query_id) for row in range(2)]

    async def commit(self, process: StreamCommits, batch: int) -> bool:
        self.plan(batch)
        return await process.commit(self.outputs(batch), batch)


def output(*values: str, query: str | None = None) -> TaskOutput:
    batch = pyarrow.RecordBatch.from_pydict({"value": list(values)})
    return TaskOutput(query, *packed([batch], ["value"]))


async def run_two_batches(job: Job, folder: Path) -> int:
    """Commit two batches as Spark has it done, the last one twice; after an error another process goes on. Returns the
    number of processes."""
    query = Query(job, folder)
    process, processes = query.process(), 1
    for batch in (0, 1, 1):
        for _ in range(3):
            try:
                await query.commit(process, batch)
                break
            except (ClientError, PipelineError):
                await process.close()
                process, processes = query.process(), processes + 1
        else:
            raise AssertionError("three attempts did not write a batch")
    await process.close()
    return processes


@pytest.mark.parametrize("dies", [False, True], ids=["request lost", "process dies"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_each_batch_is_written_once_whichever_request_is_cut_off(
    broker: RunningNode, faults: Faults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str, dies: bool
) -> None:
    clients: list[RetryingClient] = []

    def new_client(*arguments: Any) -> RetryingClient:
        clients.append(batch_commits_new_client(*arguments))
        return clients[-1]

    batch_commits_new_client = batch_commits.new_client
    monkeypatch.setattr(batch_commits, "new_client", new_client)

    def cut_off(now: int, _: Seen) -> bool:
        if now == number and dies:
            clients[-1]._closed = True  # nothing leaves this client any more, not even an abort
        return now == number

    number, total = -1, 1
    while number < total:
        job = await Job(broker.addresses[0]).create()
        faults.clear()
        setattr(faults, when, cut_off)
        processes = await run_two_batches(job, tmp_path)
        if number == -1:
            total = len(faults.seen)
            assert total > 12
        elif dies:
            assert processes == 2
        faults.clear()
        assert await job.visible() == rows(0, 1), f"request {number}"
        number += 1


async def test_processes_that_take_turns_write_each_batch_once(broker: RunningNode, tmp_path: Path) -> None:
    job = await Job(broker.addresses[0]).create()
    query = Query(job, tmp_path)
    first, second = query.process(), query.process()
    for batch, process in enumerate((first, second, second, first, first, second)):
        assert await query.commit(process, batch), batch
    assert not await query.commit(first, 5)
    await first.close()
    await second.close()
    assert await job.visible() == rows(*range(6))


async def test_a_second_driver_is_refused_at_its_first_batch_beside_one_that_works(
    broker: RunningNode, tmp_path: Path
) -> None:
    job = await Job(broker.addresses[0]).create()
    query = Query(job, tmp_path)
    first, second = query.process(), query.process()

    async def commit(process: StreamCommits, run: str, batches: Iterable[int]) -> None:
        for batch in batches:
            query.plan(batch)
            await process.commit([replace(each, run=run) for each in query.outputs(batch)], batch)
            await asyncio.sleep(1)

    await commit(first, "first", range(3))
    working = asyncio.create_task(commit(first, "first", range(3, 7)))
    with pytest.raises(PipelineAtWork, match="stop that one first"):
        await commit(second, "second", (3,))
    await working
    await first.close()
    assert await job.visible() == rows(*range(7))


async def test_a_driver_that_slept_finds_that_its_batch_is_old(broker: RunningNode, tmp_path: Path) -> None:
    job = await Job(broker.addresses[0]).create()
    query = Query(job, tmp_path)
    sleeper, other = query.process(), query.process()
    await query.commit(sleeper, 0)
    for batch in (1, 2):
        await query.commit(other, batch)
    with pytest.raises(RolledBackCheckpoint):
        await query.commit(sleeper, 1)
    assert await query.commit(other, 3), "the one that works goes on"
    await other.close()
    assert await job.visible() == rows(*range(4))


async def test_a_checkpoint_that_does_not_belong_to_the_output_is_refused(broker: RunningNode, tmp_path: Path) -> None:
    job = await Job(broker.addresses[0]).create()
    query = Query(job, tmp_path)
    process = query.process()
    with pytest.raises(MissingMarker, match="adoptCheckpoint"):
        await query.commit(process, 7)
    await query.commit(process, 0)
    query.plan(0, "another range")
    with pytest.raises(RangeMismatch):
        await process.commit(query.outputs(0), 0)
    other = Query(job, tmp_path, query_id="r")
    with pytest.raises(ForeignMarker):
        await other.commit(other.process(), 0)
    adopting = Query(job, tmp_path, query_id="r", adopt_checkpoint=True)
    taken = adopting.process()
    assert await adopting.commit(taken, 7)
    await taken.close()
    assert await job.visible() == rows(0, 7)


async def test_an_empty_batch_is_committed_whoever_knows_its_query(broker: RunningNode, tmp_path: Path) -> None:
    job = await Job(broker.addresses[0]).create()
    far = WriteOptions(job.address, topic=job.name, pipeline=job.name, checkpoint="s3a://bucket/checkpoint")
    process = StreamCommits(far)
    assert await process.commit([], 0)
    assert await process.commit([output("1", query="q")], 1)
    assert await process.commit([], 2)
    await process.close()
    process = StreamCommits(far)
    assert not await process.commit([], 2)
    assert await process.commit([output("3", query="q")], 3)
    with pytest.raises(ForeignMarker):
        await process.commit([output("4", query="r")], 4)
    nameless = StreamCommits(WriteOptions(job.address, topic=job.name))
    with pytest.raises(ConflictingSettings, match="name the pipeline"):
        await nameless.commit([], 0)
    assert await job.visible() == [b"1", b"3"]


async def test_a_checkpoint_that_moves_to_another_machine_replays_no_batch(broker: RunningNode, tmp_path: Path) -> None:
    job = await Job(broker.addresses[0]).create()
    here = Query(job, tmp_path)
    far = StreamCommits(replace(here.options, checkpoint="s3a://bucket/checkpoint"))
    near = here.process()
    assert await here.commit(near, 0)
    assert not await far.commit(here.outputs(0), 0)
    assert await far.commit(here.outputs(1), 1)
    assert not await here.commit(near, 1)
    assert await here.commit(near, 2)
    await near.close()
    await far.close()
    assert await job.visible() == rows(0, 1, 2)


async def test_a_topic_that_is_missing_is_named_before_anything_is_written(broker: RunningNode, tmp_path: Path) -> None:
    job = await Job(broker.addresses[0]).create()
    query = Query(job, tmp_path)
    query.plan(0)
    missing = StreamCommits(WriteOptions(job.address, topic="nowhere", pipeline=job.name))
    with pytest.raises(MissingTopic, match="topic nowhere does not exist"):
        await missing.commit(query.outputs(0), 0)
    with pytest.raises(MissingTopic, match="topic nowhere does not exist"):
        await commit_once(WriteOptions(job.address, topic="nowhere"), query.outputs(0))


async def test_an_output_that_is_made_anew_with_fewer_partitions_is_written_to_at_once(
    broker: RunningNode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = await Job(broker.addresses[0]).create()
    query = Query(job, tmp_path)
    process = query.process()
    await query.commit(process, 0)
    async with Client(job.address) as client:
        await Admin(client).delete_topics([job.name])
        await Admin(client).create_topic(job.name, 1, configs={"retention.ms": "-1"})
        await query.commit(process, 1)
        partition = TopicPartition(job.name, 0)
        consumer = Consumer(client)
        await consumer.assign_from([partition])
        assert [each.record.value for each in await consumer.read_to_end()] == rows(1)
        assert f"topic {job.name} was deleted and created anew, with 1 partitions in place of 2" in caplog.text
        await Admin(client).delete_topics([job.name])
    with pytest.raises(MissingTopic, match=f"topic {job.name} does not exist any more"):
        await query.commit(process, 2)


async def test_a_batch_looks_up_all_its_topics_in_one_request(
    broker: RunningNode, faults: Faults, tmp_path: Path
) -> None:
    job = await Job(broker.addresses[0]).create()
    query = Query(job, tmp_path)
    process = query.process()
    await query.commit(process, 0)
    faults.clear()
    await query.commit(process, 1)
    (asked,) = faults.requests(ApiKey.METADATA)
    assert {each.name for each in asked.topics} == {job.name, f"{job.name}-progress"}
    await process.close()


async def test_a_batch_write_is_visible_as_a_whole_or_not_at_all(
    broker: RunningNode,
) -> None:
    job = await Job(broker.addresses[0]).create()
    rows_of = pyarrow.RecordBatch.from_pydict({"value": ["0.0", "0.1"], "partition": [0, 9]})
    bad = TaskOutput(None, *packed([rows_of], ["value", "partition"]))
    options = WriteOptions(job.address, topic=job.name)
    with pytest.raises(PipelineError, match="partition 9 of topic"):
        await commit_once(options, [bad])
    assert await job.visible() == []
    await commit_once(options, [output("0.0"), output("0.1")])
    assert await job.visible() == rows(0)
