"""When a query is started again and when not, and what is told of a batch; with a query that a test plays."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from eosin.client.errors import RequestTimedOut
from eosin.pipeline.common import errors
from eosin.pipeline.common.progress_reports import BatchProgress, BatchReport
from eosin.pipeline.job.supervisor import Supervisor, TaskTimeoutExceeded, TooManyFailures, cause_of, is_hopeless

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException


class Progress:
    """One of Spark's."""

    def __init__(self, batch: int, **fields: Any) -> None:
        self.json = json.dumps({"batchId": batch, "batchDuration": 410, "sources": [{"numInputRows": 7, **fields}]})


class Sink:
    """As much of the sink as a supervisor looks at."""

    failure: BaseException | None = None


class Play:
    """Runs of a query: each commits some batches, then fails with a text, or ends."""

    def __init__(self, *runs: tuple[list[int], str | None, BaseException | None], **options: Any) -> None:
        self.runs = list(runs)
        self.waited: list[float] = []
        self.sink = Sink()
        self.told: list[int] = []
        self.supervisor = Supervisor(
            self.start,  # type: ignore[arg-type]
            self.sink,  # type: ignore[arg-type]
            lambda progress: self.told.append(progress.batch),
            pause=self.waited.append,
            **options,
        )
        self.recentProgress: list[Progress] = []
        self.text: str | None = None

    def start(self) -> "Play":
        batches, self.text, failure = self.runs.pop(0)
        if failure is not None:  # the real one forgets none by itself
            self.sink.failure = failure
        self.recentProgress = [Progress(batch) for batch in batches]
        for batch in batches:
            self.supervisor.reported(BatchReport(batch, False, 1, 1, 1))
        return self

    def awaitTermination(self, _: float) -> bool:
        if self.text is not None:
            raise StreamingQueryException(self.text)
        return True


def test_a_query_that_fails_is_started_again_with_growing_pauses_that_a_batch_makes_short_again() -> None:
    play = Play(
        ([0], "lost a worker", None),
        ([], "lost a worker", None),
        ([], "lost a worker", None),
        ([1], "lost a worker", None),
        ([2], None, None),
    )
    play.supervisor.run()
    assert play.told == [0, 1, 2]
    assert play.waited == [1_000, 2_000, 4_000, 1_000]
    assert play.supervisor.restarts == 4


def test_the_supervisor_gives_up_after_too_many_failures_in_a_row() -> None:
    play = Play(*[([], "\n  lost a worker\n at x", None)] * 4, max_failures=3)
    with pytest.raises(TooManyFailures, match="4 failures without a batch between them, the last: lost a worker"):
        play.supervisor.run()


@pytest.mark.parametrize(
    "failure",
    [
        errors.PipelineFenced("taken over"),
        errors.DataLoss("gone"),
        errors.ForeignMarker("another query"),
        errors.RolledBackCheckpoint("older copy"),
        errors.MissingTopic("topic t does not exist"),
        errors.BadRows("no column value"),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_a_failure_that_a_restart_cannot_mend_ends_the_query_at_once(failure: Exception) -> None:
    play = Play(([], "whatever Spark says", failure))
    with pytest.raises(type(failure), match=str(failure)):
        play.supervisor.run()
    assert play.waited == []


@pytest.mark.parametrize(
    "failure",
    [
        errors.TransactionTimedOut("took too long"),
        errors.UnknownOutcome("nobody answered"),
        errors.RowsLost("ran twice"),
        RequestTimedOut("no answer"),
        None,
    ],
    ids=str,
)
def test_a_failure_that_a_restart_may_mend_restarts_the_query(failure: Exception | None) -> None:
    play = Play(([], "whatever Spark says", failure), ([], None, None))
    play.supervisor.run()
    assert play.supervisor.restarts == 1


def test_the_failure_of_an_earlier_run_is_not_taken_for_that_of_this_run() -> None:
    gone = "eosin.pipeline.common.errors.DataLoss: orders-1: records from offset 3 on are gone"
    play = Play(([], "whatever Spark says", errors.RowsLost("ran twice")), ([], gone, None))
    with pytest.raises(errors.DataLoss, match="records from offset 3 on are gone"):
        play.supervisor.run()
    assert play.supervisor.restarts == 1


def test_a_failure_of_the_source_is_recognised_by_its_text() -> None:
    text = "Traceback...\neosin.pipeline.common.errors.DataLoss: orders-1: records from offset 3 on are gone\n  at Foo"
    cause = cause_of(text)
    assert isinstance(cause, errors.DataLoss)
    assert str(cause) == "orders-1: records from offset 3 on are gone"
    assert cause_of("java.lang.OutOfMemoryError") is None


def test_a_failure_of_the_source_is_recognised_inside_an_error_of_the_sink() -> None:
    by_spark = RuntimeError(
        "An exception was thrown...\n  eosin.pipeline.common.errors.DataLoss: orders-1: gone\n  at Foo"
    )
    cause = cause_of("[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred", by_spark)
    assert isinstance(cause, errors.DataLoss)
    assert str(cause) == "orders-1: gone"
    lost = RuntimeError("lost a worker")
    assert cause_of("[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred", lost) is lost


def test_a_task_whose_time_is_up_ends_the_query_wherever_it_is_noticed() -> None:
    note = "task orders-2 gave up after task.timeout.ms=400, 612 ms after its first timeout"
    by_source = cause_of(f"PythonException: ...\neosin.client.errors.RequestTimedOut: no answer\n{note}\n at x")
    late = RequestTimedOut("no answer")
    late.add_note(note)
    outcome = errors.UnknownOutcome("whether batch 3 was committed is not known")
    outcome.__cause__ = late
    for cause in (by_source, cause_of("x", late), cause_of("x", outcome)):
        assert isinstance(cause, TaskTimeoutExceeded)
        assert is_hopeless(cause)
        assert str(cause).startswith(note)


# What is told of a batch


def progress(told: Callable[[BatchProgress], str] = BatchProgress.line, **source: Any) -> str:
    report = BatchReport(42, False, 812, 143, 400)
    spark = json.loads(Progress(42, **source).json)
    return told(BatchProgress.of(report, spark))


def test_a_batch_is_reported_in_one_line() -> None:
    line = progress(
        numInputRows=8000,
        endOffset={"orders:0": 100, "orders:3": 5},
        latestOffset={"orders:0": 1300, "orders:3": 5, "task_timeout_remaining_ms:orders-3": 250_000},
    )
    assert line == ("batch 42 rows-in 8000 rows-out 812 txn 143ms batch 410ms lag 1200 skipped [orders-3 (4m10s left)]")


def test_a_batch_is_reported_as_json() -> None:
    latest = {"task_timeout_remaining_ms:t-0": 5, "task_skips_total:t-0": 2, "task_skips_total:t-1": 7}
    told = json.loads(progress(BatchProgress.json, latestOffset=latest))
    assert told["skipped_tasks"] == {"t-0": 5}
    assert told["task_skips"] == {"t-0": 2, "t-1": 7}
    assert told["retries"] == 0
    assert (told["batch"], told["rows_in"], told["rows_out"], told["lag"]) == (42, 7, 812, None)


def test_late_partitions_are_reported_in_the_metrics_and_retries_in_the_line() -> None:
    latest = {"task_timeout_remaining_ms:t-0": 5, "task_skips_total:t-0": 2, "t:0": 9}
    spark = json.loads(Progress(42, latestOffset=latest).json)
    told = BatchProgress.of(BatchReport(42, False, 812, 143, 400, retries=3), spark)
    assert told.metrics() == {
        'task_timeout_remaining_ms{task="t-0"}': 5,
        'task_skips_total{task="t-0"}': 2,
    }
    assert " retries 3 skipped [t-0 (5ms left)]" in told.line()
    assert json.loads(told.json())["retries"] == 3


def test_the_offsets_of_sparks_own_source_are_understood() -> None:
    line = progress(endOffset='{"t": {"0": 4, "1": 2}}', latestOffset='{"t": {"0": 9, "1": 2}}')
    assert " lag 5" in line


def test_a_batch_that_was_committed_before_is_reported_as_such() -> None:
    line = BatchProgress.of(BatchReport(3, True, 5, 0, 2), None).line()
    assert line == "batch 3 rows-in - rows-out 5 txn 0ms batch 2ms lag - (committed before)"


def test_a_restart_tells_that_an_executor_was_lost_and_not_which_method_of_java_was_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = (
        "An error occurred while calling o784.collectToPython.\n: org.apache.spark.SparkException: Job aborted:"
        " ExecutorLostFailure (executor 0 exited caused by one of the running tasks) Reason: code 137\n\tat x"
    )
    Play(([], text, RuntimeError(text)), ([0], None, None)).supervisor.run()
    assert caplog.messages == ["the query failed and restarts in 1 s: executor 0 was lost: code 137"]
