"""`Supervisor` keeps a query running: it restarts the query after a failed batch, unless a restart cannot help.

Always true: a restart uses only the checkpoint and the marker, as after a crash. There is no restart if another driver
has taken over, if records are lost, if checkpoint and marker contradict each other, if settings or topics are wrong, or
if a task has used up its time (KIP-572).
"""

import json
import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from eosin.client.errors import ClientError
from eosin.pipeline.common import errors
from eosin.pipeline.common.progress_reports import BatchProgress, BatchReport
from eosin.pipeline.common.task_timeouts import GAVE_UP
from eosin.pipeline.job.failure_text import sentence_of
from eosin.runtime.clock import pause

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from eosin.pipeline.sink.sink import TxnSink

FIRST_BACKOFF_MS: Final = 1_000
LAST_BACKOFF_MS: Final = 60_000
MAX_FAILURES: Final = 10
"""The most failures in a row, without a batch between them."""
_CHECK_S: Final = 0.2

_HOPELESS: Final = (
    errors.PipelineFenced,
    errors.PipelineAtWork,
    errors.DataLoss,
    errors.MarkerMismatch,
    errors.BadProgressTopic,
    errors.ConflictingSettings,
    errors.MissingDependency,
    errors.MissingTopic,
    errors.BadRows,
    errors.BatchTooLarge,
    errors.CalledTwice,
)
_OURS: Final = re.compile(r"eosin\.pipeline\.common\.errors\.(\w+): ([^\n]*)")

log = logging.getLogger(__name__)


class TaskTimeoutExceeded(errors.PipelineError):
    """A task has used up `task.timeout.ms`, and its final attempt timed out as well (KIP-572)."""


class TooManyFailures(errors.PipelineError):
    """A query failed too often without a batch in between."""


def cause_of(text: str, failure: BaseException | None = None) -> BaseException | None:
    """The cause of a failed query, from Spark's text and the sink's error; None if the cause is not ours."""
    notes = "\n".join(getattr(failure, "__notes__", ()))
    cause = failure.__cause__ if failure is not None else None
    notes += "\n".join(getattr(cause, "__notes__", ()))
    by_spark = "" if failure is None else str(failure)
    for said in (notes, text, by_spark):
        if GAVE_UP in said:
            line = next(line.strip() for line in said.splitlines() if GAVE_UP in line)
            return TaskTimeoutExceeded(f"{line}: {failure}" if failure is not None else line)
    if isinstance(failure, errors.PipelineError):
        return failure
    # An error of a task, while the sink computes its rows, reaches the sink inside an error of Spark.
    named = _OURS.search(f"{text}\n{by_spark}")
    kind = getattr(errors, named[1], None) if named else None
    return kind(named[2]) if named and isinstance(kind, type) else failure


def is_hopeless(cause: BaseException | None) -> bool:
    """True if a restart would be wrong or useless."""
    return isinstance(cause, (*_HOPELESS, TaskTimeoutExceeded))


class Supervisor:
    """Runs one query until it ends."""

    def __init__(
        self,
        start: "Callable[[], StreamingQuery]",
        sink: "TxnSink",
        tell: Callable[[BatchProgress], None],
        *,
        max_failures: int = MAX_FAILURES,
        pause: Callable[[float], None] = pause,
    ) -> None:
        """`start` starts the query; `tell` is called for every batch. The sink's `on_batch` must be `self.reported`.
        `pause` blocks the calling thread for a number of ms."""
        self._start = start
        self._sink = sink
        self._tell = tell
        self._max_failures = max_failures
        self._pause = pause
        self._reports: dict[int, BatchReport] = {}
        self._failures = 0
        self.restarts = 0
        self.query: StreamingQuery | None = None

    def reported(self, report: BatchReport) -> None:
        """Take the sink's report of a batch that is committed now, or was before."""
        self._reports[report.batch] = report
        self._failures = 0

    def run(self) -> None:
        """Run until the query ends by itself. Raises the PipelineError, or any other error, that ends it for good."""
        while True:
            error = self._run_once()
            if error is None:
                return
            cause = cause_of(error, self._sink.failure)
            if is_hopeless(cause):
                assert cause is not None
                raise cause
            self._failures += 1
            said = _said(error, cause)
            if self._failures > self._max_failures:
                raise TooManyFailures(f"{self._failures} failures without a batch between them, the last: {said}")
            backoff_ms = min(FIRST_BACKOFF_MS << (self._failures - 1), LAST_BACKOFF_MS)
            log.warning("the query failed and restarts in %d s: %s", backoff_ms // 1000, said)
            self._pause(backoff_ms)
            self.restarts += 1

    def stop(self) -> None:
        """Stop the query that runs."""
        if self.query is not None:
            self.query.stop()

    def _run_once(self) -> str | None:
        """Run the query to its end; returns Spark's text about its failure, or None."""
        from pyspark.errors import StreamingQueryException

        self._reports.clear()
        self._sink.failure = None  # the failure of an earlier run
        query = self.query = self._start()
        try:
            while not query.awaitTermination(_CHECK_S):  # type: ignore[arg-type]  # fractions are taken, too
                self._report_new(query, ended=False)
        except StreamingQueryException as error:
            self._report_new(query, ended=True)
            return str(error)
        self._report_new(query, ended=True)
        return None

    def _report_new(self, query: "StreamingQuery", *, ended: bool) -> None:
        if not self._reports:
            return
        known: dict[int, Any] = {}
        for each in query.recentProgress:
            progress = json.loads(each.json)
            known.setdefault(int(progress["batchId"]), progress)
        for batch in sorted(self._reports):
            if batch in known or ended:
                self._tell(BatchProgress.of(self._reports.pop(batch), known.get(batch)))


def _said(error: str, cause: BaseException | None) -> str:
    """The cause in one line: our own errors are sentences, and Spark's are not."""
    if isinstance(cause, (errors.PipelineError, ClientError)):
        return str(cause)
    return sentence_of(error if cause is None else str(cause))
