"""`TxnSink` writes every micro-batch of a Spark query to the output exactly once, all of it or nothing.

Owns the pipeline's client and its transactions in the driver. Always true: batches are written one at a time, even when
a stopped query has left one behind; and after any failure the sink takes the pipeline over again, as a new process
would.
"""

import functools
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from eosin.client.client import Client
from eosin.client.connection import REQUEST_TIMEOUT_MS
from eosin.client.errors import ClientError
from eosin.client.producer import TRANSACTION_TIMEOUT_MS
from eosin.pipeline.common.errors import CalledTwice, ConflictingSettings, require_spark
from eosin.pipeline.common.loop_thread import LoopThread
from eosin.pipeline.common.progress_marker import create_topic
from eosin.pipeline.common.progress_marker import progress_topic as default_progress_topic
from eosin.pipeline.common.progress_reports import BatchReport
from eosin.pipeline.common.query_progress import RowsOfBatches
from eosin.pipeline.common.retrying_client import RetryingClient
from eosin.pipeline.common.security import carried_settings, connection_security
from eosin.pipeline.common.session_settings import check_session
from eosin.pipeline.common.settings import MAX_POLL_INTERVAL_MS
from eosin.pipeline.common.task_timeouts import RETRY_BACKOFF_MS, TASK_TIMEOUT_MS, TaskTimeouts
from eosin.pipeline.common.topic_creation import create_topics
from eosin.pipeline.realtime.java_client_settings import java_client_settings
from eosin.pipeline.realtime.plan import without_source
from eosin.pipeline.realtime.query import BATCH, COMMIT_INTERVAL_MS, RealTimeQuery, RealTimeSettings
from eosin.pipeline.realtime.query import TRIGGER as REAL_TIME
from eosin.pipeline.sink.batch_limits import BatchLimits
from eosin.pipeline.sink.batch_query import BatchQuery, present_query
from eosin.pipeline.sink.batch_transactions import BatchTransactions
from eosin.pipeline.sink.checkpoint import QueryCheckpoint, has_state, query_checkpoint
from eosin.pipeline.sink.driver_route import DRIVER_MAX_ROWS, DriverRoute
from eosin.pipeline.sink.executors_route import ExecutorsRoute, TaskPlan
from eosin.pipeline.sink.handovers import Handovers
from eosin.pipeline.sink.output_topic import OutputTopic
from eosin.pipeline.sink.present_driver import refuse_before_planning
from eosin.pipeline.sink.row_writer import RowWriter
from eosin.pipeline.sink.rows import check_columns
from eosin.runtime.clock import Clock, SystemClock

require_spark()

from pyspark.sql import DataFrame  # noqa: E402
from pyspark.sql.streaming.query import StreamingQuery  # noqa: E402

Route = Literal["driver", "executors"]
ROUTES: Final[tuple[str, ...]] = get_args(Route)
AVAILABLE_NOW: Final = "available-now"
_ASYNC_PROGRESS: Final = "asyncProgressTrackingEnabled"
_CHECK_MS: Final = 5_000
_UNITS: Final = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours"}


@dataclass(frozen=True, slots=True)
class _QueryRun:
    """One run of one query, and what its checkpoint knows."""

    query: BatchQuery
    checkpoint: QueryCheckpoint
    handovers: Handovers


@dataclass(frozen=True, slots=True)
class _RunningQuery:
    """One run of one query, and what the sink writes its batches with."""

    query: BatchQuery
    client: RetryingClient
    transactions: BatchTransactions
    limits: BatchLimits
    output: OutputTopic


class TxnSink:
    """Attach it with `start`, or by hand with `writeStream.foreachBatch(sink)`."""

    def __init__(
        self,
        pipeline: str,
        bootstrap: str,
        topic: str | None = None,
        route: Route = "driver",
        *,
        progress_topic: str | None = None,
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        transaction_version: int | None = None,
        task_timeout_ms: int = TASK_TIMEOUT_MS,
        retry_backoff_ms: int = RETRY_BACKOFF_MS,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        max_poll_interval_ms: int = MAX_POLL_INTERVAL_MS,
        driver_max_rows: int = DRIVER_MAX_ROWS,
        lease_port: int = 0,
        adopt_checkpoint: bool = False,
        on_batch: Callable[[BatchReport], None] | None = None,
        clock: Clock | None = None,
        command_config: str | None = None,
    ) -> None:
        """`pipeline` is the transactional id; no two queries share one. `topic` is for rows without a `topic` column.

        A batch must end within `transaction_timeout_ms`, which the broker limits (`transaction.max.timeout.ms`). A
        request without a response after `request_timeout_ms` is repeated for `task_timeout_ms` (KIP-572); the task is
        the whole batch. Creating the progress topic may take half of `max_poll_interval_ms`. Tasks of route
        `executors` ask the driver for partitions at `lease_port` of `spark.driver.host` (0 is any free port).
        `command_config` is a file of this machine with Kafka's client settings, for brokers with TLS or a login.

        Raises ConflictingSettings for an unknown route, and for route `executors` without a topic.
        """
        _check_route(route, topic)
        self.pipeline: Final = pipeline
        self.failure: BaseException | None = None
        """The error of the last batch, since Spark passes on only its text. None after a batch that succeeded. In real
        time it is the error that has ended the query, after `close`."""
        self.rows_of_batches: Final = RowsOfBatches()
        """For `recent_progress`, since Spark does not count the rows of foreachBatch."""
        self._bootstrap = bootstrap
        self._security = carried_settings(command_config)
        self._topic = topic
        self._route = route
        self._task_timeout_ms = task_timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._topic_creation_ms = max_poll_interval_ms // 2
        self._command_config = command_config
        self._progress_topic = progress_topic or default_progress_topic(pipeline)
        self._transaction_timeout_ms = transaction_timeout_ms
        self._adopt_checkpoint = adopt_checkpoint
        self._on_batch = on_batch
        self._clock = clock or SystemClock()
        self._new_transactions = functools.partial(
            BatchTransactions,
            pipeline=pipeline,
            topic=progress_topic,
            transaction_timeout_ms=transaction_timeout_ms,
            transaction_version=transaction_version,
            task_timeout_ms=task_timeout_ms,
            adopt=adopt_checkpoint,
            clock=self._clock,
        )
        self.timeouts: Final = TaskTimeouts(task_timeout_ms, retry_backoff_ms, clock=self._clock)
        self._one_batch_at_a_time = threading.Lock()
        self._loop = LoopThread(f"sink {pipeline}")
        self._driver_route = DriverRoute(self._loop, max_rows=driver_max_rows)
        self._executors_route = ExecutorsRoute(self._loop, lease_port=lease_port)
        self._run: _QueryRun | None = None
        self._runs: set[str] = set()  # of queries that this sink has written for
        self._running: _RunningQuery | None = None
        self._real_time: RealTimeQuery | None = None

    def start(
        self,
        frame: DataFrame,
        *,
        checkpoint: str,
        trigger: str | None = None,
        mode: str = "append",
        options: Mapping[str, str] | None = None,
        commit_interval_ms: int = COMMIT_INTERVAL_MS,
        real_time_batch: str = BATCH,
    ) -> StreamingQuery:
        """Start a query that writes a streaming frame to this sink.

        `trigger` is a time between batches ("2 seconds", "500ms"), "available-now" or "real-time"; without one, batches
        follow each other at once. In real time each row is committed within `commit_interval_ms` and some ms,
        apart from the others, and Spark notes its own progress every `real_time_batch`. Raises a PipelineError, or in
        real time a ClientError, before the query runs.
        """
        if trigger == REAL_TIME:
            if mode == "complete":
                raise ConflictingSettings("real time writes each row as it comes, so mode complete has no meaning")
            check_columns(without_source(frame.dtypes), default_topic=self._topic)
            return self._start_real_time(frame, checkpoint, dict(options or {}), commit_interval_ms, real_time_batch)
        check_session(frame.sparkSession)
        check_columns(frame.dtypes, default_topic=self._topic)
        if str((options or {}).get(_ASYNC_PROGRESS, "false")).lower() == "true":
            raise ConflictingSettings(f"{_ASYNC_PROGRESS} would let Spark replay more than its last batch")
        writer = frame.writeStream.foreachBatch(self).outputMode(mode).queryName(self.pipeline)
        writer = writer.options(**dict(options or {})).option("checkpointLocation", checkpoint)
        if trigger == AVAILABLE_NOW:
            writer = writer.trigger(availableNow=True)
        elif trigger is not None:
            writer = writer.trigger(processingTime=_interval(trigger))
        self._loop.run(self._refuse_before_planning())
        return writer.start()

    def _start_real_time(
        self, frame: DataFrame, checkpoint: str, options: dict[str, str], commit_interval_ms: int, batch: str
    ) -> StreamingQuery:
        settings = RealTimeSettings(
            pipeline=self.pipeline,
            bootstrap=self._bootstrap,
            topic=self._topic,
            progress_topic=self._progress_topic,
            commit_interval_ms=commit_interval_ms,
            transaction_timeout_ms=self._transaction_timeout_ms,
            task_timeout_ms=self._task_timeout_ms,
            request_timeout_ms=self._request_timeout_ms,
            adopt_checkpoint=self._adopt_checkpoint,
            client_settings=java_client_settings(self._command_config),
        )
        if self._real_time is not None:
            self._real_time.close()
        self._real_time = RealTimeQuery(settings)
        return self._real_time.start(
            frame, checkpoint=checkpoint, batch=batch, options=options, security=self._security
        )

    def close(self) -> None:
        """Close the connections. An open transaction is aborted by its timeout, or by the next start."""
        with self._one_batch_at_a_time:
            self._close_client()
            self._loop.close()
        if self._real_time is not None:
            self._real_time.close()
            self.failure = self._real_time.failure

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write one micro-batch. `foreachBatch` or a function of it calls this, at most once for each batch.

        Raises CalledTwice for a second call, or what keeps the batch from being written; then the query must end.
        """
        with self._one_batch_at_a_time:
            begun_ms = self._clock.elapsed_ms()
            try:
                skipped, rows, transaction_ms = self._write(frame, batch)
            except BaseException as error:
                self.failure = error
                self._close_client()
                raise
            self.failure = None
            self.rows_of_batches.note(batch, rows)
            total_ms = self._clock.elapsed_ms() - begun_ms
            retries = self.timeouts.retries(self._task(batch))
            report = BatchReport(batch, skipped, rows, transaction_ms, total_ms, retries)
        if self._on_batch is not None:
            self._on_batch(report)

    def _write(self, frame: DataFrame, batch: int) -> tuple[bool, int, int]:
        run = self._run_of(frame)
        if not run.handovers.note(batch):
            raise self._called_twice(batch, run.handovers)
        running = self._running_query(run.query, frame)
        transactions = running.transactions
        lacking = run.handovers.lacks_a_frame
        if lacking is not None and not transactions.adopts:
            raise _lacks_a_frame(self.pipeline, lacking)
        hashed = run.checkpoint.range_hash(batch)
        if transactions.is_committed(batch, hashed, run.handovers.last_before(batch)):
            assert transactions.marker is not None
            if has_state(run.checkpoint):
                _compute(frame)
            return True, transactions.marker.rows, 0
        begun_ms = self._clock.elapsed_ms()
        running.client.tasks = (self._task(batch),)
        self._loop.run(_begin(running))
        try:
            rows = self._write_rows(frame, running, batch)
            self._loop.run(transactions.prepare(batch, hashed, rows))
        except ClientError as error:
            self._loop.run(transactions.abort())
            raise transactions.explained(error) from error
        except BaseException:
            self._loop.run(transactions.abort())
            raise
        self._loop.run(transactions.commit())
        run.handovers.forget_before(batch)
        return False, rows, self._clock.elapsed_ms() - begun_ms

    def _called_twice(self, batch: int, handovers: Handovers) -> CalledTwice:
        """The error for a second call, which must not be taken for a replay: its frame would be lost without a word."""
        if self.failure is not None and not isinstance(self.failure, CalledTwice):
            return CalledTwice(
                f"sink {self.pipeline!r} was called twice for batch {batch}: the first call failed, and its error must"
                " end the query, whose restart writes the batch anew"
            )
        handovers.note_second_frame(batch)
        return _lacks_a_frame(self.pipeline, batch)

    def _task(self, batch: int) -> str:
        return f"{self.pipeline} batch {batch}"

    def _write_rows(self, frame: DataFrame, running: _RunningQuery, batch: int) -> int:
        producer = running.transactions.producer
        writer = RowWriter(running.client, producer, self._topic, timestamp=self._clock.now_ms(), limits=running.limits)
        if self._route == "driver":
            try:
                return self._driver_route.write(frame, writer)
            except BaseException:
                self._loop.run(writer.discard())
                raise
        assert self._topic is not None
        planned = self._executors_route.planned(frame, self._security)
        plan = TaskPlan(
            name=self._task(batch),
            bootstrap=self._bootstrap,
            transactional_id=self.pipeline,
            identity=producer.share(),
            transaction_version=producer.transaction_version,
            topic=self._topic,
            partitions=self._loop.run(writer.partition_count(self._topic)),
            largest_batch=self._loop.run(running.limits.of(self._topic)),
            timestamp=self._clock.now_ms(),
            task_timeout_ms=self._task_timeout_ms,
            request_timeout_ms=self._request_timeout_ms,
        )
        written = self._executors_route.write(frame.sparkSession.sparkContext, planned, plan)
        self.timeouts.skips[self._task(batch)] += written.retries
        return written.rows

    # --- taking the pipeline over

    def _run_of(self, frame: DataFrame) -> _QueryRun:
        query = present_query(frame.sparkSession, None if self._run is None else self._run.query)
        if self._run is None or self._run.query != query:
            checkpoint = query_checkpoint(frame.sparkSession, query.checkpoint)
            self._runs.add(query.run_id)
            self._run = _QueryRun(query, checkpoint, Handovers(checkpoint, self.pipeline, query.run_id))
        return self._run

    def _running_query(self, query: BatchQuery, frame: DataFrame) -> _RunningQuery:
        """The query of this batch. The first batch of each run takes the pipeline over."""
        if self._running is None or self._running.query != query:
            self._close_client()
            check_session(frame.sparkSession)
            check_columns(frame.dtypes, default_topic=self._topic)
            self._running = self._loop.run(self._adopt(query))
        return self._running

    async def _adopt(self, query: BatchQuery) -> _RunningQuery:
        """Both topics first, the transactional id last: a pipeline that could not write fences nobody."""
        client = RetryingClient(
            self._bootstrap,
            self.timeouts,
            request_timeout_ms=self._request_timeout_ms,
            clock=self._clock,
            security=self._security,
        )
        transactions = self._new_transactions(client)
        limits = BatchLimits(client)
        output = OutputTopic(client, self._topic, limits, self._clock, beside=transactions.topic)
        try:
            client.tasks = (self.pipeline,)
            await output.refresh()
            await self._create_progress_topic(client, transactions.topic)
            await self._start(client, transactions, query)
        except BaseException:
            await client.close()
            raise
        return _RunningQuery(query, client, transactions, limits, output)

    async def _refuse_before_planning(self) -> None:
        """Raise PipelineAtWork if another driver works. The first batch waits for brokers that do not answer now."""
        security = connection_security(self._security)
        async with Client(
            self._bootstrap, request_timeout_ms=_CHECK_MS, retry_timeout_ms=_CHECK_MS, security=security
        ) as client:
            transactions = self._new_transactions(client)
            if not transactions.adopts:
                await refuse_before_planning(client, self.pipeline, transactions.topic, self._runs, self._clock)

    async def _create_progress_topic(self, client: RetryingClient, topic: str) -> None:
        client.tasks = ()  # no timer of a task: creating topics has its own limit
        await create_topics(
            {topic: functools.partial(create_topic, client, topic)}, limit_ms=self._topic_creation_ms, clock=self._clock
        )

    async def _start(self, client: RetryingClient, transactions: BatchTransactions, query: BatchQuery) -> None:
        client.tasks = (self.pipeline,)
        await transactions.start(query.id, query.run_id)

    def _close_client(self) -> None:
        """Forget the running query: the next batch takes the pipeline over again."""
        running, self._running = self._running, None
        if running is not None:
            self._loop.run(running.client.close())


async def _begin(running: _RunningQuery) -> None:
    """The output first: a batch that cannot be written opens no transaction."""
    await running.output.refresh()
    await running.transactions.begin()


def _check_route(route: str, topic: str | None) -> None:
    """Raises ConflictingSettings for an unknown route, and for route `executors` without a topic."""
    if route not in ROUTES:
        raise ConflictingSettings(f"there is no route {route!r}: there are {' and '.join(ROUTES)}")
    if route == "executors" and topic is None:
        raise ConflictingSettings("route executors writes to one topic, and none was given")


def _lacks_a_frame(pipeline: str, batch: int) -> CalledTwice:
    return CalledTwice(
        f"sink {pipeline!r} was called twice for batch {batch}: it writes one frame for each batch, so union the frames"
        " (column topic says where each row goes), or give each frame a sink with a name of its own; the first frame of"
        " the batch is committed, and the rows of the second are in no topic: see to them, then adopt the checkpoint"
    )


def _compute(frame: DataFrame) -> None:
    """Compute the frame of a skipped batch, for its state: Spark ends no batch whose state no task has stored."""
    frame.write.format("noop").mode("append").save()


def _interval(text: str) -> str:
    """A time as Spark spells it: `2s` becomes `2 seconds`. Any other text is left to Spark."""
    short = re.fullmatch(r"(\d+)\s*(ms|s|m|h)", text.strip())
    return f"{short[1]} {_UNITS[short[2]]}" if short else text
