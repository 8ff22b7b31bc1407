"""The asyncio runner: exactly once through failures."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from local_broker import SOCKET, local_broker
from pipeline_broker import Faults
from runner_job import Job
from waiting import HANG_S, until

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import ConsumedRecord
from eosin.client.errors import ConnectionFailed
from eosin.pipeline.common.errors import ConflictingSettings, MissingTopic, PipelineFenced
from eosin.pipeline.common.fan_out import FanOut
from eosin.pipeline.common.partitioning import partition_of
from eosin.pipeline.common.task_timeouts import TaskTimeouts
from eosin.pipeline.runner.runner import Output
from eosin.protocol.keys import ApiKey
from eosin.runtime.clock import SystemClock

pytestmark = pytest.mark.virtual


@pytest.fixture
def faults() -> Faults:
    """What the broker loses; nothing unless a test says so."""
    return Faults()


@pytest.fixture
async def job(faults: Faults) -> AsyncIterator[Job]:
    """An application with a broker of its own."""
    async with local_broker(hooks=faults, listeners=SOCKET) as server:
        yield await Job(server.addresses[0]).create()


@pytest.mark.smoke
async def test_each_record_is_transformed_once_and_a_new_runner_goes_on(job: Job) -> None:
    await job.feed("a", "b", "c", "d")
    await job.run_until(job.runner(), lambda: job.records_in() == 4)
    assert await job.written() == ["A", "B", "C", "D"]
    await job.feed("e")
    await job.run_until(job.runner(), lambda: job.records_in() == 5)
    assert await job.written() == ["A", "B", "C", "D", "E"]
    assert {partition.partition for report in job.reports for partition in report.positions} == {0, 1, 2}


async def test_records_of_several_partitions_in_one_interval_are_one_transaction(job: Job) -> None:
    await job.feed(*"abcdef")
    await job.run_until(job.runner(**{"commit.interval.ms": "200"}), lambda: True)
    assert [report.records_in for report in job.reports] == [6]
    assert len(job.reports[0].positions) == 3


async def test_a_failing_transform_leaves_nothing_behind_and_the_next_run_does_its_work(job: Job) -> None:
    await job.feed("a", "b", "c")

    def broken(consumed: ConsumedRecord) -> Iterable[Output]:
        if consumed.record.value == b"c":
            raise ZeroDivisionError
        return job.upper(consumed)

    with pytest.raises(ZeroDivisionError):
        await job.runner(broken, **{"commit.interval.ms": "60000"}).run()
    assert await job.written() == []
    await job.run_until(job.runner(), lambda: job.records_in() == 3)
    assert await job.written() == ["A", "B", "C"]


async def test_an_idle_runner_polls_less_and_less_often(job: Job) -> None:
    class Listening(SystemClock):
        """The system's, which tells how long somebody waited."""

        def __init__(self) -> None:
            super().__init__()
            self.slept: list[float] = []

        async def sleep(self, delay_ms: float) -> None:
            self.slept.append(delay_ms)
            await asyncio.sleep(0)

    runner = job.runner(**{"commit.interval.ms": "100", "request.timeout.ms": "10000"})
    clock = runner._clock = Listening()
    running = asyncio.create_task(runner.run())
    await until(lambda: len(clock.slept) > 5)
    assert clock.slept[:6] == [20, 40, 80, 100, 100, 100]
    await job.feed("a")
    await until(lambda: job.reports)
    assert 20 in clock.slept[6:]
    await until(lambda: clock.slept[-1] == 100)
    runner.stop()
    await running


@pytest.mark.smoke
async def test_a_second_instance_fences_the_first(job: Job) -> None:
    await job.feed("a")
    first, second = job.runner(), job.runner()
    sleeping = asyncio.create_task(first.run())
    await until(lambda: job.records_in() == 1)
    running = asyncio.create_task(second.run())
    await until(lambda: second.partitions)
    await job.feed("b", partition=1)
    with pytest.raises(PipelineFenced, match="was taken over by another instance"):
        async with asyncio.timeout(HANG_S):
            await sleeping
    await until(lambda: job.records_in() == 2)
    second.stop()
    await running
    assert await job.written() == ["A", "B"]


async def test_a_missing_input_and_an_unknown_setting_are_refused_in_one_sentence(job: Job) -> None:
    job.input = "nowhere"
    with pytest.raises(MissingTopic, match="topic nowhere does not exist"):
        await job.runner().run()
    with pytest.raises(ConflictingSettings, match=r"no setting 'task\.timeout'"):
        job.runner(**{"task.timeout": "1"})


async def test_a_commit_without_an_answer_is_repeated_and_never_turned_into_an_abort(job: Job, faults: Faults) -> None:
    await job.feed("a")
    lost: list[bool] = []

    class Losing(Faults):
        """Loses the first three answers to EndTxn."""

        @staticmethod
        def _counts(context: Any, api: Any) -> bool:
            return True

    losing = Losing()
    losing.after = lambda _, seen: seen.key is ApiKey.END_TXN and len(lost) < 3 and not lost.append(True)
    faults.begun, faults.handled = losing.begun, losing.handled  # type: ignore[method-assign]
    await job.run_until(job.runner(), lambda: True)
    assert len(lost) == 3
    ends = losing.requests(ApiKey.END_TXN)
    assert {(each.producer_id, each.producer_epoch, each.committed) for each in ends[:3]} == {
        (ends[0].producer_id, ends[0].producer_epoch, True)
    }
    assert await job.written() == ["A"]


async def test_partitions_that_are_added_to_the_input_are_read_without_a_restart(job: Job) -> None:
    runner = job.runner(**{"metadata.max.age.ms": "50"})
    running = asyncio.create_task(runner.run())
    await job.feed("a", "b", "c")
    await until(lambda: job.records_in() == 3)
    async with Client(job.address) as client:
        await Admin(client).create_partitions(job.input, 5)
    await job.feed("d", partition=4)
    await until(lambda: job.records_in() == 4)
    assert runner.partitions == [f"{job.input}-{index}" for index in range(5)]
    runner.stop()
    await running
    # What was read of it is committed with the rest: a new runner does not begin it anew.
    await job.feed("e", partition=4)
    await job.run_until(job.runner(), lambda: job.records_in() == 5)
    assert await job.written() == ["A", "B", "C", "D", "E"]


async def test_partitions_that_are_added_to_the_output_are_written_to_without_a_restart(job: Job) -> None:
    runner = job.runner(**{"metadata.max.age.ms": "50"})
    running = asyncio.create_task(runner.run())
    await job.feed("a", "b", "c")
    await until(lambda: job.records_in() == 3)
    async with Client(job.address) as client:
        await Admin(client).create_partitions(job.output, 5)
    await job.feed_until_it_writes_to(2, fed=3)
    runner.stop()
    await running
    for each in await job.outputs():
        hashes = {partition_of(each.record.key, None, count) for count in (2, 5)}
        assert each.partition.partition in hashes
    last = (await job.outputs())[-1]
    assert last.partition.partition == partition_of(last.record.key, None, 5)


async def test_an_output_topic_has_one_number_of_partitions_for_a_whole_transaction(job: Job) -> None:
    transformed: list[bytes | None] = []

    def counted(consumed: ConsumedRecord) -> Iterable[Output]:
        transformed.append(consumed.record.value)
        return job.upper(consumed)

    runner = job.runner(counted, **{"metadata.max.age.ms": "0", "commit.interval.ms": "60000"})
    running = asyncio.create_task(runner.run())
    await job.feed("a")
    await until(lambda: transformed)
    async with Client(job.address) as client:
        await Admin(client).create_partitions(job.output, 64)
    for number in range(16):
        await job.feed(f"k{number}")
        await until(lambda: len(transformed) == 2 + number)  # noqa: B023
    runner.stop()
    await running
    assert [report.records_in for report in job.reports] == [17]
    written = await job.outputs()
    assert len(written) == 17
    assert {each.partition.partition for each in written} == {0, 1}


async def test_a_failed_lookup_of_new_partitions_is_logged_and_disturbs_nothing_else(
    job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    runner = job.runner(**{"metadata.max.age.ms": "50"})
    running = asyncio.create_task(runner.run())
    await until(lambda: runner.partitions)
    with pytest.MonkeyPatch.context() as patch:

        async def unanswered(*_: object) -> None:
            raise ConnectionFailed("nobody there")

        patch.setattr("eosin.pipeline.runner.input_partitions.find_partitions", unanswered)
        await job.feed("a", "b", "c")
        await until(lambda: job.records_in() == 3)
        await until(lambda: f"looking for new partitions of {job.input} failed: nobody there" in caplog.messages)
    async with Client(job.address) as client:
        await Admin(client).create_partitions(job.input, 4)
    await until(lambda: len(runner.partitions) == 4)
    assert not runner.timeouts.skipped
    runner.stop()
    await running


async def test_a_transaction_is_reported_as_a_line_as_json_and_in_the_metrics(job: Job) -> None:
    await job.feed("a", "b", "c", "d")
    runner = job.runner(**{"commit.interval.ms": "200"})
    await job.run_until(runner, lambda: True)
    report = job.reports[0]
    assert report.line() == f"commit 1 records-in 4 records-out 4 txn {report.transaction_ms}ms"
    told = json.loads(report.json())
    assert (told["commit"], told["records_in"], told["records_out"]) == (1, 4, 4)
    assert told["positions"] == {f"{job.input}-0": 2, f"{job.input}-1": 1, f"{job.input}-2": 1}
    assert (told["skipped_tasks"], told["task_skips"]) == ({}, {})
    assert runner.metrics() == {
        "records_in_total": 4,
        "records_out_total": 4,
        "commits_total": 1,
        "input_partitions": 3,
    }


# Rounds -------------------------------------------------------------------------------------------------------------


async def test_an_answer_that_misses_its_round_counts_in_the_next() -> None:
    rounds: FanOut[str] = FanOut(TaskTimeouts(), patience_ms=10)
    answered = asyncio.Event()

    async def quick() -> str:
        return "quick"

    async def slow() -> str:
        await answered.wait()
        return "slow"

    questions = {"quick": quick, "slow": slow}
    assert await rounds.run(questions) == {"quick": "quick"}
    answered.set()
    await asyncio.sleep(0)
    assert await rounds.run(questions) == {"quick": "quick", "slow": "slow"}


async def test_a_bug_in_one_task_is_not_taken_for_a_timeout() -> None:
    rounds: FanOut[str] = FanOut(TaskTimeouts())

    async def broken() -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await rounds.run({"t": broken})
