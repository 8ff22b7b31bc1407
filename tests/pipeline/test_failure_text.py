"""The cause of a failed query in one line, from the texts that Spark 4.3 was seen to write."""

import pytest

from eosin.pipeline.job.failure_text import sentence_of

LOST = """An error occurred while calling o784.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent \
failure: Lost task 0.0 in stage 3.0 (TID 5) (127.0.0.1 executor 1): ExecutorLostFailure (executor 1 exited caused by \
one of the running tasks) Reason: Command exited with code 137
Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2935)
"""
SHUFFLE_LOST = """org.apache.spark.SparkException: Job aborted due to stage failure: ShuffleMapStage 5 (start at \
NativeMethodAccessorImpl.java:0) has failed the maximum allowable number of times: 1. Most recent failure reason:
org.apache.spark.shuffle.MetadataFetchFailedException: Missing an output location for shuffle 1 partition 0
\tat org.apache.spark.MapOutputTracker$.validateStatus(MapOutputTracker.scala:1739)
"""
IN_PYTHON = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: \
Task 1 in stage 7.0 failed 1 times, most recent failure: Lost task 1.0 in stage 7.0 (TID 9) (localhost executor \
driver): org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/job/orders.py", line 3, in parse
    raise ValueError("no amount")
ValueError: no amount

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:645)
"""
IN_JAVA = """An error occurred while calling o91.toArrow.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)
Caused by: java.io.IOException: No space left on device
\tat java.base/sun.nio.ch.FileDispatcherImpl.write0(Native Method)
"""
PLAIN = "An error occurred while calling o91.collectToPython.\n: java.lang.OutOfMemoryError: Java heap space"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (LOST, "executor 1 was lost: Command exited with code 137"),
        (
            SHUFFLE_LOST,
            "an executor was lost, and with it the output of an earlier stage: MetadataFetchFailedException: Missing an"
            " output location for shuffle 1 partition 0",
        ),
        (IN_PYTHON, "ValueError: no amount"),
        (IN_JAVA, "IOException: No space left on device"),
        (PLAIN, "OutOfMemoryError: Java heap space"),
        ("\n  lost a worker\n at x", "lost a worker"),
        ("", "no message"),
    ],
)
def test_the_cause_is_named_once_and_nothing_else(text: str, sentence: str) -> None:
    assert sentence_of(text) == sentence


def test_a_sentence_has_an_end() -> None:
    assert len(sentence_of("plan " * 1000)) == 300
