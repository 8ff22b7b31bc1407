"""The asyncio runner where processes are the subject: a leader that does not answer, and kill -9."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import runner_program
from local_broker import ThreadedBroker
from pipeline_copier import Killer, Step, stop
from runner_job import Job
from stalling_leader import TwoBrokers
from topic_load import TopicLoad
from waiting import HANG_S, until

from eosin.client.errors import ConnectionFailed, RequestTimedOut
from eosin.protocol.keys import ApiKey

pytestmark = [pytest.mark.process, pytest.mark.slow]


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
    with ThreadedBroker(hooks=killer) as broker, (tmp_path / "runner.log").open("w") as log:
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
