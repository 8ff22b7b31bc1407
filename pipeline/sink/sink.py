"""`TxnSink`: every micro-batch of a Spark query in the output exactly once, all of it or nothing.

Owns the pipeline's client and its transactions in the driver. Always true: batches come one at a time, even when a
query that was stopped has left one behind; and after any failure everything begins anew, as in a new process.
"""

import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from eosin.client.connection import REQUEST_TIMEOUT_MS
from eosin.client.errors import ClientError
from eosin.client.producer import TRANSACTION_TIMEOUT_MS
from eosin.pipeline.common.clock import Clock, SystemClock
from eosin.pipeline.common.errors import ConflictingSettings, require_spark
from eosin.pipeline.common.loop_thread import LoopThread
from eosin.pipeline.common.progress_marker import create_topic
from eosin.pipeline.common.progress_reports import BatchReport
from eosin.pipeline.common.retrying_client import RetryingClient
from eosin.pipeline.common.settings import MAX_POLL_INTERVAL_MS
from eosin.pipeline.common.task_timeouts import RETRY_BACKOFF_MS, TASK_TIMEOUT_MS, TaskTimeouts
from eosin.pipeline.common.topic_creation import create_topics
from eosin.pipeline.common.topic_partitions import topic_partitions
from eosin.pipeline.sink.batch_query import BatchQuery, present_query, range_hash
from eosin.pipeline.sink.batch_transactions import BatchTransactions
from eosin.pipeline.sink.driver_route import DRIVER_MAX_ROWS, DriverRoute
from eosin.pipeline.sink.executors_route import ExecutorsRoute, TaskPlan
from eosin.pipeline.sink.row_writer import RowWriter
from eosin.pipeline.sink.rows import check_columns

require_spark()

from pyspark.sql import DataFrame  # noqa: E402
from pyspark.sql.streaming.query import StreamingQuery  # noqa: E402

from eosin.pipeline.spark.session import check_session  # noqa: E402

Route = Literal["driver", "executors"]
ROUTES: Final = ("driver", "executors")
AVAILABLE_NOW: Final = "available-now"
_ASYNC_PROGRESS: Final = "asyncProgressTrackingEnabled"
_UNITS: Final = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours"}


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
    ) -> None:
        """`pipeline` is the transactional id, and one query's alone. `topic` is for rows without a column of that name.

        A batch must end within `transaction_timeout_ms`, which the broker limits (`transaction.max.timeout.ms`). What
        is not answered in `request_timeout_ms` is repeated for `task_timeout_ms` (KIP-572), the whole batch being the
        task; creating the progress topic may take half of `max_poll_interval_ms`. Tasks of route `executors` ask the
        driver for partitions at `lease_port` of `spark.driver.host`, any free one if it is 0.
        """
        if route not in ROUTES:
            raise ConflictingSettings(f"there is no route {route!r}: there are {' and '.join(ROUTES)}")
        if route == "executors" and topic is None:
            raise ConflictingSettings("route executors writes to one topic, and none was given")
        self.pipeline: Final = pipeline
        self.last_report: BatchReport | None = None
        self.failure: BaseException | None = None
        """Why the last batch failed, in our own words: Spark hands on the text alone. None after one that did not."""
        self._bootstrap = bootstrap
        self._topic = topic
        self._route = route
        self._options: Mapping[str, Any] = {
            "topic": progress_topic,
            "transaction_timeout_ms": transaction_timeout_ms,
            "transaction_version": transaction_version,
            "task_timeout_ms": task_timeout_ms,
            "adopt": adopt_checkpoint,
        }
        self._task_timeout_ms = task_timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._topic_creation_ms = max_poll_interval_ms // 2
        self._on_batch = on_batch
        self._clock = clock or SystemClock()
        self.timeouts: Final = TaskTimeouts(task_timeout_ms, retry_backoff_ms, clock=self._clock)
        self._turn = threading.Lock()
        self._loop = LoopThread(f"sink {pipeline}")
        self._driver_route = DriverRoute(self._loop, max_rows=driver_max_rows)
        self._executors_route = ExecutorsRoute(self._loop, lease_port=lease_port)
        self._client: RetryingClient | None = None
        self._transactions: BatchTransactions | None = None
        self._query: BatchQuery | None = None

    def start(
        self,
        frame: DataFrame,
        *,
        checkpoint: str,
        trigger: str | None = None,
        mode: str = "append",
        options: Mapping[str, str] | None = None,
    ) -> StreamingQuery:
        """Start a query that writes a streaming frame here.

        `trigger` is a time between batches ("2 seconds", "500ms") or "available-now"; without one, batches follow each
        other. Raises ConflictingSettings, BadRows or MissingTopic before anything runs.
        """
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
        return writer.start()

    def close(self) -> None:
        """Close the connections. A transaction that is open is left to its timeout, or to the next start."""
        with self._turn:
            self._forget()
            self._loop.close()

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write one micro-batch: what `foreachBatch` calls."""
        with self._turn:
            begun_ms = self._clock.monotonic_ms()
            try:
                skipped, rows, transaction_ms = self._write(frame, batch)
            except BaseException as error:
                self.failure = error
                self._forget()
                raise
            self.failure = None
            total_ms = self._clock.monotonic_ms() - begun_ms
            retries = self.timeouts.retries(self._task(batch))
            self.last_report = BatchReport(batch, skipped, rows, transaction_ms, total_ms, retries)
        if self._on_batch is not None:
            self._on_batch(self.last_report)

    def _write(self, frame: DataFrame, batch: int) -> tuple[bool, int, int]:
        transactions = self._started(frame)
        assert self._query is not None
        hashed = range_hash(frame.sparkSession, self._query.checkpoint, batch)
        if transactions.is_committed(batch, hashed):
            assert transactions.marker is not None
            return True, transactions.marker.rows, 0
        begun_ms = self._clock.monotonic_ms()
        assert self._client is not None
        self._client.tasks = (self._task(batch),)
        self._loop.run(transactions.begin())
        try:
            rows = self._write_rows(frame, transactions, batch)
            self._loop.run(transactions.prepare(batch, hashed, rows))
        except ClientError as error:
            self._loop.run(transactions.abort())
            raise transactions.explained(error) from error
        except BaseException:
            self._loop.run(transactions.abort())
            raise
        self._loop.run(transactions.commit())
        return False, rows, self._clock.monotonic_ms() - begun_ms

    def _task(self, batch: int) -> str:
        return f"{self.pipeline} batch {batch}"

    def _write_rows(self, frame: DataFrame, transactions: BatchTransactions, batch: int) -> int:
        assert self._client is not None
        producer = transactions.producer
        writer = RowWriter(self._client, producer, self._topic, timestamp=self._clock.now_ms())
        if self._route == "driver":
            try:
                return self._driver_route.write(frame, writer)
            except BaseException:
                self._loop.run(writer.discard())
                raise
        assert self._topic is not None
        plan = TaskPlan(
            name=self._task(batch),
            bootstrap=self._bootstrap,
            transactional_id=self.pipeline,
            identity=producer.share(),
            transaction_version=producer.transaction_version,
            topic=self._topic,
            partitions=self._loop.run(writer.partition_count(self._topic)),
            timestamp=self._clock.now_ms(),
            task_timeout_ms=self._task_timeout_ms,
            request_timeout_ms=self._request_timeout_ms,
        )
        written = self._executors_route.write(frame, plan)
        self.timeouts.skips[self._task(batch)] += written.retries
        return written.rows

    def _started(self, frame: DataFrame) -> BatchTransactions:
        """The transactions of the query that this batch is of: taken over when its run begins."""
        query = present_query(frame.sparkSession)
        if self._transactions is None or query != self._query:
            self._forget()
            check_session(frame.sparkSession)
            check_columns(frame.dtypes, default_topic=self._topic)
            self._transactions = self._loop.run(self._take_over(query.id))
            self._query = query
        return self._transactions

    async def _take_over(self, query_id: str) -> BatchTransactions:
        client = self._client = RetryingClient(
            self._bootstrap, self.timeouts, request_timeout_ms=self._request_timeout_ms, clock=self._clock
        )
        client.tasks = (self.pipeline,)
        if self._topic is not None:
            await topic_partitions(client, [self._topic])  # it must be there before anything is taken over
        transactions = BatchTransactions(client, self.pipeline, clock=self._clock, **self._options)
        client.tasks = ()  # creating topics has a limit of its own
        topics = {transactions.topic: lambda: create_topic(client, transactions.topic)}
        await create_topics(topics, limit_ms=self._topic_creation_ms, clock=self._clock)
        client.tasks = (self.pipeline,)
        await transactions.start(query_id)
        return transactions

    def _forget(self) -> None:
        client, self._client, self._transactions, self._query = self._client, None, None, None
        if client is not None:
            self._loop.run(client.close())


def _interval(text: str) -> str:
    """`2s` as Spark spells it; what is spelt as Spark likes it already stays."""
    short = re.fullmatch(r"(\d+)\s*(ms|s|m|h)", text.strip())
    return f"{short[1]} {_UNITS[short[2]]}" if short else text
