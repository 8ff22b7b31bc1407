"""Drivers that are killed with all their processes, at each step of a batch (S2), and tasks that fail (S3).

The broker watches the requests and kills; what it sees is what the steps are made of. After every crash the same
checkpoint is started again, and in the end each input is in the output once.
"""

import os
import signal
from typing import Any

import pipeline_driver
import pytest
from pipeline_copier import Copier, Step, stop

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1800)]


def takes_over(key: ApiKey, request: Any) -> bool:
    return key is ApiKey.INIT_PRODUCER_ID and request.transactional_id == pipeline_driver.PIPELINE


def writes(key: ApiKey, request: Any) -> bool:
    return key is ApiKey.PRODUCE and request.transactional_id == pipeline_driver.PIPELINE  # rows come before the marker


def commits(key: ApiKey, request: Any) -> bool:
    return key is ApiKey.END_TXN and request.committed and request.transactional_id == pipeline_driver.PIPELINE


BEFORE_INIT = ("1 before the batch's InitProducerId", "before", takes_over, False)
WHILE_WRITING = ("2 while rows are written", "after", writes, False)
BEFORE_COMMIT = ("3 rows and marker written, no EndTxn", "before", commits, False)
ANSWER_LOST = ("4 EndTxn done, the answer lost", "after", commits, True)


def crash_at(copier: Copier, route: str, step: tuple[str, str, Step, bool]) -> None:
    name, when, where, _ = step
    setattr(copier.killer, when, where)
    happened = copier.killer.happened
    code, _ = copier.run(route)
    assert copier.killer.happened == happened + 1, f"row {name} did not happen:\n{copier.log}"
    assert code == -signal.SIGKILL


def first_batch_after(copier: Copier, route: str, *options: str) -> tuple[int, dict[str, Any]]:
    code, batches = copier.run(route, *options)
    assert batches, copier.log
    return code, batches[0]


@pytest.mark.smoke
def test_a_committed_batch_is_not_written_again_when_the_driver_dies_before_noting_it(copier: Copier) -> None:
    crash_at(copier, "driver", ANSWER_LOST)
    # Row 5: the restart skips what was committed, goes on, and dies between its own commit and Spark's note of it.
    code, batches = copier.run("driver", "--die-after-batch")
    assert code == -signal.SIGKILL, copier.log
    assert [each["skipped"] for each in batches] == [True, False], copier.log
    code, batches = copier.run("driver")
    assert code == 0, copier.log
    assert (batches[0]["batch"], batches[0]["skipped"]) == (1, True)
    assert not any(each["skipped"] for each in batches[1:])
    copier.assert_complete()


@pytest.mark.long
@pytest.mark.parametrize("route", ["driver", "executors"])
def test_each_row_is_written_once_at_whichever_moment_the_driver_is_killed(copier: Copier, route: str) -> None:
    committed = False
    for step in (BEFORE_INIT, WHILE_WRITING, BEFORE_COMMIT, ANSWER_LOST):
        before = copier.copied()
        crash_at(copier, route, step)
        committed = step[3]
        assert (copier.copied() != before) is committed, step[0]
    code, batches = copier.run(route, "--die-after-batch")
    assert (code, batches[0]["skipped"]) == (-signal.SIGKILL, committed), copier.log
    code, batches = copier.run(route)
    assert code == 0, copier.log
    assert batches[0]["skipped"]
    copier.assert_complete()


@pytest.mark.long
@pytest.mark.parametrize("workers_too", [True, False], ids=["with its workers", "without its workers"])
def test_the_format_writes_each_row_once_at_whichever_moment_the_driver_is_killed(
    copier: Copier, workers_too: bool
) -> None:
    copier.killer.workers_too = workers_too
    for step in (BEFORE_INIT, WHILE_WRITING, BEFORE_COMMIT, ANSWER_LOST):
        before = copier.copied()
        crash_at(copier, pipeline_driver.FORMAT, step)
        if workers_too:  # otherwise the process that commits may outlive the driver, and commit its batch
            assert (copier.copied() != before) is step[3], step[0]
    code, _ = copier.run(pipeline_driver.FORMAT)
    assert code == 0, copier.log
    copier.assert_complete()


@pytest.mark.long
@pytest.mark.parametrize("route", ["driver", "executors"])
def test_a_task_that_fails_midway_costs_at_most_a_batch_and_no_row(copier: Copier, route: str) -> None:
    poison = f"--poison=017@{copier.folder / 'poisoned'}"
    code, _ = copier.run(route, "--master", "local[2,3]", "--rows", "200", poison)
    # As long as a task has sent nothing, Spark may try it again.
    assert (copier.folder / "poisoned").exists()
    assert code == 0, copier.log
    copier.assert_complete()


@pytest.mark.long
def test_a_task_that_fails_after_it_has_written_is_not_tried_again_in_the_same_transaction(copier: Copier) -> None:
    copier.killer.spoil = writes
    code, said = copier.run("executors", "--master", "local[2,3]", "--rows", "200")
    assert (code, copier.killer.happened) == (1, 1), copier.log
    assert said[-1]["failure"] == "BrokerError"
    assert "MESSAGE_TOO_LARGE" in said[-1]["said"]
    assert copier.copied() == []
    code, _ = copier.run("executors", "--master", "local[2,3]", "--rows", "200")
    assert code == 0, copier.log
    copier.assert_complete()


@pytest.mark.long
def test_tasks_that_are_fenced_end_the_pipeline_as_a_fenced_driver_does(copier: Copier) -> None:
    copier.killer.spoil, copier.killer.spoiled = writes, ErrorCode.INVALID_PRODUCER_EPOCH
    code, said = copier.run("executors", "--rows", "200")
    assert (code, copier.killer.happened) == (1, 1), copier.log
    assert said[-1]["failure"] == "PipelineFenced", "a supervisor would start it again, and take over from the other"
    assert "was taken over by another driver" in said[-1]["said"]


@pytest.mark.long
def test_an_executor_lost_while_its_task_writes_costs_at_most_a_batch_and_no_row(copier: Copier) -> None:
    options = ("--master", "local-cluster[2,1,700]", "--rows", "200")
    copier.killer.executor_only, copier.killer.after = True, writes
    code, said = copier.run("executors", *options)
    assert copier.killer.happened == 1, copier.log
    if code:  # nothing was lost with it where it had done all that it was to do
        assert copier.copied() == [], said
        code, _ = copier.run("executors", *options)
    assert code == 0, copier.log
    copier.assert_complete()


@pytest.mark.long
def test_a_driver_that_slept_while_another_took_over_is_fenced(copier: Copier) -> None:
    copier.killer.before, copier.killer.signal = commits, signal.SIGSTOP
    sleeper = copier.launch("driver")
    try:
        while not copier.killer.happened:
            assert sleeper.poll() is None, copier.log
            copier.killer.signalled.wait(0.1)
        code, _ = copier.run("driver")
        assert code == 0, copier.log
        os.killpg(sleeper.pid, signal.SIGCONT)
        sleeper.communicate(timeout=300)
    finally:
        stop(sleeper)
    assert sleeper.returncode == 1
    copier.assert_complete()
