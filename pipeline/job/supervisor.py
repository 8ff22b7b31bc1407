"""Keeps a query running: starts it again when a batch fails, and knows when that would be wrong or useless.

Always true: a query is started again from its checkpoint and its marker alone, as after a crash; and not at all when
another driver has taken over, when records are gone, when checkpoint and marker do not belong together, when settings
or topics are wrong, or when the time of a task that timed out is up.
"""

import json
import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from eosin.pipeline.common import errors
from eosin.pipeline.common.progress_reports import BatchProgress, BatchReport
from eosin.pipeline.common.task_timeouts import GAVE_UP
from eosin.runtime.clock import pause

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from eosin.pipeline.sink.sink import TxnSink

FIRST_BACKOFF_MS: Final = 1_000
LAST_BACKOFF_MS: Final = 60_000
MAX_FAILURES: Final = 10
"""Failures in a row, with no batch between them."""
_LOOK_S: Final = 0.2

_HOPELESS: Final = (
    errors.PipelineFenced,
    errors.DataLoss,
    errors.MarkerMismatch,
    errors.BadProgressTopic,
    errors.ConflictingSettings,
    errors.MissingDependency,
    errors.MissingTopic,
    errors.BadRows,
)
_OURS: Final = re.compile(r"eosin\.pipeline\.common\.errors\.(\w+): ([^\n]*)")

log = logging.getLogger(__name__)


class TaskTimeoutExceeded(errors.PipelineError):
    """A task timed out for longer than it may (KIP-572), and its final attempt did, too."""


class TooManyFailures(errors.PipelineError):
    """A query failed again and again without a batch in between."""


def cause_of(text: str, failure: BaseException | None = None) -> BaseException | None:
    """Why a query failed, from Spark's text and the sink's own error; None for a cause that is not ours."""
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
    # What a task raises while the sink computes its rows comes to the sink as an error of Spark's.
    named = _OURS.search(f"{text}\n{by_spark}")
    kind = getattr(errors, named[1], None) if named else None
    return kind(named[2]) if named and isinstance(kind, type) else failure


def is_hopeless(cause: BaseException | None) -> bool:
    """Whether to start again would be wrong or useless."""
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
        """`start` starts the query anew; `tell` hears of every batch. The sink's `on_batch` must be `self.reported`.
        `pause` blocks this thread for so many ms."""
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
        """The sink has committed a batch, or found it committed."""
        self._reports[report.batch] = report
        self._failures = 0

    def run(self) -> None:
        """Until the query ends by itself. Raises the PipelineError, or what else it was, that ends it for good."""
        while True:
            error = self._run_once()
            if error is None:
                return
            cause = cause_of(error, self._sink.failure)
            if is_hopeless(cause):
                assert cause is not None
                raise cause
            self._failures += 1
            said = str(cause) if cause is not None else _first_line(error)
            if self._failures > self._max_failures:
                raise TooManyFailures(f"{self._failures} failures without a batch between them, the last: {said}")
            backoff_ms = min(FIRST_BACKOFF_MS << (self._failures - 1), LAST_BACKOFF_MS)
            log.warning("the query failed and starts again in %d s: %s", backoff_ms // 1000, said)
            self._pause(backoff_ms)
            self.restarts += 1

    def stop(self) -> None:
        """Stop the query that runs."""
        if self.query is not None:
            self.query.stop()

    def _run_once(self) -> str | None:
        """Run the query to its end; what Spark says of its failure, None without one."""
        from pyspark.errors import StreamingQueryException

        self._reports.clear()
        self._sink.failure = None  # of an earlier run
        query = self.query = self._start()
        try:
            while not query.awaitTermination(_LOOK_S):  # type: ignore[arg-type]  # fractions are taken, too
                self._tell_new(query, ended=False)
        except StreamingQueryException as error:
            self._tell_new(query, ended=True)
            return str(error)
        self._tell_new(query, ended=True)
        return None

    def _tell_new(self, query: "StreamingQuery", *, ended: bool) -> None:
        if not self._reports:
            return
        known: dict[int, Any] = {}
        for each in query.recentProgress:
            progress = json.loads(each.json)
            known.setdefault(int(progress["batchId"]), progress)
        for batch in sorted(self._reports):
            if batch in known or ended:
                self._tell(BatchProgress.of(self._reports.pop(batch), known.get(batch)))


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "without a word")
