"""The asyncio runner: exactly once through failures and kill -9, and around a leader that does not answer."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import runner_program
from pipeline_broker import Faults, ThreadedBroker, served
from pipeline_copier import Killer, Step, stop
from runner_job import Job
from stalling_leader import TwoBrokers
from topic_load import TopicLoad
from waiting import HANG_S, until

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import ConsumedRecord
from eosin.client.errors import ConnectionFailed, RequestTimedOut
from eosin.pipeline.common.errors import ConflictingSettings, MissingTopic, PipelineFenced
from eosin.pipeline.common.fan_out import FanOut
from eosin.pipeline.common.partitioning import partition_of
from eosin.pipeline.common.task_timeouts import TaskTimeouts
from eosin.pipeline.runner.runner import Output
from eosin.protocol.keys import ApiKey
from eosin.runtime.clock import SystemClock

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture
def faults() -> Faults:
    """What the broker loses; nothing unless a test says so."""
    return Faults()


@pytest.fixture
async def job(faults: Faults) -> AsyncIterator[Job]:
    """An application with a broker of its own."""
    async with served(faults) as server:
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


# A leader that does not answer --------------------------------------------------------------------------------------


@pytest.fixture
def brokers() -> Iterator[TwoBrokers]:
    """Partition 2 of topic `in-stalled` is led by a broker of its own."""
    with TwoBrokers(("in-stalled", 2)) as running:
        yield running


async def test_partitions_go_on_while_the_leader_of_one_is_stalled_and_it_catches_up(
    brokers: TwoBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    job = await Job(brokers.address, "stalled").create()
    await job.feed("a", "b", "c")
    runner = job.runner()
    running = asyncio.create_task(runner.run())
    async with asyncio.timeout(HANG_S):
        await until(lambda: job.records_in() == 3)
        brokers.relay.stall()
        await until(lambda: "in-stalled-2" in runner.timeouts.skipped)
        for number in range(5):
            await job.feed(f"x{number}", partition=number % 2)
        await until(lambda: job.records_in() == 8)
        assert "in-stalled-2" in job.reports[-1].skipped
        assert " skipped [in-stalled-2 (" in job.reports[-1].line()
        assert json.loads(job.reports[-1].json())["task_skips"]["in-stalled-2"] >= 1
        metrics = runner.metrics()
        assert 0 < metrics['task_timeout_remaining_ms{task="in-stalled-2"}'] <= 60_000
        assert metrics['task_skips_total{task="in-stalled-2"}'] >= 1
        brokers.relay.recover()
        await job.feed("late", partition=2)
        await until(lambda: job.records_in() == 9 and not runner.timeouts.skipped)
        assert 'task_timeout_remaining_ms{task="in-stalled-2"}' not in runner.metrics()
        runner.stop()
        await running
    assert await job.written() == ["A", "B", "C", "LATE", "X0", "X1", "X2", "X3", "X4"]
    assert any("in-stalled-2" in said and "timed out, the others go on" in said for said in caplog.messages)


async def test_a_leader_that_stays_stalled_ends_the_run_with_its_own_timeout(brokers: TwoBrokers) -> None:
    job = await Job(brokers.address, "stalled").create()
    await job.feed("a", "b", "c")
    await job.run_until(job.runner(), lambda: job.records_in() == 3)
    runner = job.runner(**{"task.timeout.ms": "500"})
    running = asyncio.create_task(runner.run())
    await until(lambda: runner.partitions)
    brokers.relay.stall()
    with pytest.raises((RequestTimedOut, ConnectionFailed), match="did not answer") as raised:
        async with asyncio.timeout(HANG_S):
            await running
    assert raised.value is runner.timeouts.failure
    assert "task in-stalled-2 gave up after task.timeout.ms=500" in raised.value.__notes__[0]


# kill -9 ------------------------------------------------------------------------------------------------------------


def writes(key: ApiKey, request: Any) -> bool:
    return key is ApiKey.PRODUCE and request.transactional_id == runner_program.APPLICATION


def commits_offsets(key: ApiKey, request: Any) -> bool:
    return key is ApiKey.TXN_OFFSET_COMMIT


def ends(key: ApiKey, request: Any) -> bool:
    return key is ApiKey.END_TXN and request.transactional_id == runner_program.APPLICATION


STEPS = [("before", writes), ("after", writes), ("after", commits_offsets), ("before", ends), ("after", ends)]


class Once:
    """A step in the first transaction of a run, which says where it begins, or in a later one, which holds records."""

    def __init__(self, step: Step, *, of_the_start: bool) -> None:
        self._step = step
        self._of_the_start = of_the_start
        self._ended = 0

    def __call__(self, key: ApiKey, request: Any) -> bool:
        is_the_first = self._ended == 0
        self._ended += ends(key, request)
        return is_the_first == self._of_the_start and self._step(key, request)


def test_a_runner_that_is_killed_at_each_step_has_doubled_each_number_once(tmp_path: Path) -> None:
    killer = Killer()
    with ThreadedBroker(killer) as broker, (tmp_path / "runner.log").open("w") as log:
        load = TopicLoad(broker.address)
        load.create(runner_program.INPUT, 2)

        def launch() -> "subprocess.Popen[str]":
            command = [sys.executable, runner_program.__file__, broker.address]
            killer.driver = subprocess.Popen(command, stdout=log, stderr=log, text=True, start_new_session=True)
            return killer.driver

        fed = 0
        moments = [(when, Once(step, of_the_start=first)) for first in (True, False) for when, step in STEPS]
        for happened, (when, step) in enumerate(moments, 1):
            load.transaction(runner_program.INPUT, [(each % 2, str(each)) for each in range(fed, fed + 6)])
            load.transaction(runner_program.INPUT, [(0, "1000")], end="abort")
            fed += 6
            setattr(killer, when, step)
            assert launch().wait(HANG_S) == -signal.SIGKILL, (tmp_path / "runner.log").read_text()
            assert killer.happened == happened
        last = launch()
        expected = sorted(str(2 * each).encode() for each in range(fed))
        try:
            while len(load.values(runner_program.OUTPUT, 3)) < fed:
                assert last.poll() is None, (tmp_path / "runner.log").read_text()
        finally:
            stop(last)
        assert load.values(runner_program.OUTPUT, 3) == expected
        sources = [dict(each.record.headers)["src"] for each in load.records(runner_program.OUTPUT, 3)]
        assert len(set(sources)) == fed


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
    assert await rounds.ask(questions) == {"quick": "quick"}
    answered.set()
    await asyncio.sleep(0)
    assert await rounds.ask(questions) == {"quick": "quick", "slow": "slow"}


async def test_a_bug_in_one_task_is_not_taken_for_a_timeout() -> None:
    rounds: FanOut[str] = FanOut(TaskTimeouts())

    async def broken() -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await rounds.ask({"t": broken})
