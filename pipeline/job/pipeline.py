"""`Pipeline` reads topics, applies a function of Spark frames and writes a topic: exactly once, supervised.

Always true: `eosin pipeline run` runs this class with the same defaults.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from eosin.pipeline.common.errors import ConflictingSettings, require_spark
from eosin.pipeline.common.progress_reports import BatchProgress
from eosin.pipeline.common.security import OPTION
from eosin.pipeline.common.settings import PipelineSettings
from eosin.pipeline.job.supervisor import MAX_FAILURES, Supervisor
from eosin.pipeline.sink.sink import Route, TxnSink
from eosin.pipeline.source.streams import Source, read_stream

require_spark()

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Transform = Callable[["DataFrame"], "DataFrame"]
"""From the input, with the columns of `txnlog`, to the rows to write."""
DEFAULTS: Final = PipelineSettings()


class Pipeline:
    """One pipeline. `run` works until its query ends, and restarts the query after a failed batch."""

    def __init__(
        self,
        name: str,
        transform: Transform,
        *,
        bootstrap: str,
        topics: str,
        output: str,
        checkpoint: str,
        route: Route = "driver",
        source: Source = "python",
        trigger: str | None = None,
        mode: str = "append",
        max_rows_per_trigger: int | None = None,
        settings: PipelineSettings = DEFAULTS,
        adopt_checkpoint: bool = False,
        max_failures: int = MAX_FAILURES,
        command_config: str | None = None,
    ) -> None:
        """`name` is the transactional id, `topics` the input with commas between, the rest as in `TxnSink.start`.

        Raises ConflictingSettings for a `command_config` with Spark's own source, which has options of its own."""
        if command_config is not None and source == "jvm":
            raise ConflictingSettings("command_config is for source python: Spark's own source has options kafka.*")
        self._command_config = command_config
        self.name: Final = name
        self._transform = transform
        self._bootstrap = bootstrap
        self._topics = topics
        self._output = output
        self._checkpoint = checkpoint
        self._route = route
        self._source = source
        self._trigger = trigger
        self._mode = mode
        self._max_rows = max_rows_per_trigger
        self._settings = settings
        self._adopt = adopt_checkpoint
        self._max_failures = max_failures
        self._last: BatchProgress | None = None
        self._writing: TxnSink | None = None

    def run(self, spark: "SparkSession", tell: Callable[[BatchProgress], None] = lambda progress: None) -> None:
        """Run in a session of `eosin.pipeline.session` until the query ends; `tell` is called for every batch.

        Raises a PipelineError if a restart cannot help.
        """

        def report(progress: BatchProgress) -> None:
            self._last = progress
            tell(progress)

        sink = self._writing = self._sink(lambda report: supervisor.reported(report))
        supervisor = Supervisor(lambda: self._start(spark, sink), sink, report, max_failures=self._max_failures)
        try:
            supervisor.run()
        finally:
            supervisor.stop()
            sink.close()

    def metrics(self) -> dict[str, int]:
        """Gauges and counters of the tasks (KIP-572), as Prometheus spells them: of the input partitions as of the last
        batch, and of the batch that is being written as of now."""
        return (self._last.metrics() if self._last else {}) | (
            self._writing.timeouts.metrics() if self._writing else {}
        )

    def _sink(self, on_batch: Callable[..., None]) -> TxnSink:
        settings = self._settings
        return TxnSink(
            self.name,
            self._bootstrap,
            self._output,
            self._route,
            transaction_timeout_ms=settings.transaction_timeout_ms,
            task_timeout_ms=settings.task_timeout_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
            request_timeout_ms=settings.request_timeout_ms,
            max_poll_interval_ms=settings.max_poll_interval_ms,
            lease_port=settings.lease_port,
            adopt_checkpoint=self._adopt,
            on_batch=on_batch,
            command_config=self._command_config,
        )

    def _start(self, spark: "SparkSession", sink: TxnSink) -> "StreamingQuery":
        limits = {
            "task.timeout.ms": str(self._settings.task_timeout_ms),
            "retry.backoff.ms": str(self._settings.retry_backoff_ms),
            "request.timeout.ms": str(self._settings.request_timeout_ms),
        }
        if self._command_config is not None:
            limits[OPTION] = self._command_config
        frame = read_stream(
            spark,
            bootstrap=self._bootstrap,
            topics=self._topics,
            source=self._source,
            max_rows_per_trigger=self._max_rows,
            options=limits if self._source == "python" else None,
        )
        return sink.start(self._transform(frame), checkpoint=self._checkpoint, trigger=self._trigger, mode=self._mode)
