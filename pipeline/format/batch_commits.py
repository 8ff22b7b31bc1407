"""Commits what the tasks of one write hand over: each micro-batch in one transaction with its progress marker.

Spark calls the commit of a micro-batch in a Python process that it keeps and may exchange for another. Always true:

- a batch is written only after the marker was found to be that of the batch before it, with the same guards as
  `TxnSink`: `BatchTransactions` has the protocol;
- what a process has kept from an earlier batch saves time and proves nothing: where the broker or the marker
  contradicts it, the process takes the pipeline over again, as long as it has written nothing of the batch;
- Spark hands over one attempt of each task, and calls a commit again only after a restart, so no setting of the session
  is needed.

A driver that slept while another worked takes the pipeline over as well, and finds by the marker that its batch is old.
"""

import functools
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from eosin.client.errors import ClientError
from eosin.client.producer import Producer
from eosin.pipeline.common.abort import abort_as_courtesy
from eosin.pipeline.common.errors import ConflictingSettings, MarkerMismatch, PipelineFenced, UnknownOutcome
from eosin.pipeline.common.progress_marker import create_topic
from eosin.pipeline.common.retrying_client import RetryingClient
from eosin.pipeline.common.settings import MAX_POLL_INTERVAL_MS
from eosin.pipeline.common.task_timeouts import TaskTimeouts
from eosin.pipeline.common.topic_creation import create_topics
from eosin.pipeline.common.topic_partitions import topic_partitions
from eosin.pipeline.format.checkpoint_folder import UNKNOWN_RANGE, CheckpointFolder
from eosin.pipeline.format.task_rows import unpacked
from eosin.pipeline.format.write_options import WriteOptions
from eosin.pipeline.sink.batch_limits import BatchLimits
from eosin.pipeline.sink.batch_transactions import BatchTransactions
from eosin.pipeline.sink.output_topic import OutputTopic
from eosin.pipeline.sink.row_writer import RowWriter
from eosin.runtime.clock import Clock, SystemClock


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """The rows of one task."""

    query: str | None
    """The id of the query that the task works for; None in a batch write."""
    payload: bytes
    rows: int
    run: str | None = None
    """The id of the query's run, None like the query."""


@dataclass(frozen=True, slots=True)
class _Open:
    """A pipeline that this process has taken over."""

    query: str | None
    client: RetryingClient
    transactions: BatchTransactions
    limits: BatchLimits
    output: OutputTopic


class StreamCommits:
    """The micro-batches of one query, in one process. Call `commit` for one batch at a time."""

    def __init__(self, options: WriteOptions, *, clock: Clock | None = None) -> None:
        self._options = options
        self._clock = clock or SystemClock()
        self._timeouts = TaskTimeouts(options.task_timeout_ms, options.retry_backoff_ms, clock=self._clock)
        self._checkpoint = CheckpointFolder(options.checkpoint)
        self._adopt = options.adopt_checkpoint
        self._open: _Open | None = None

    async def commit(self, outputs: Sequence[TaskOutput], batch: int) -> bool:
        """Write a batch exactly once; False if it was in the output already. Raises a PipelineError or a ClientError,
        and then the query must end: its restart writes the batch, or finds it."""
        query = next((each.query for each in outputs if each.query is not None), None) or self._checkpoint.query_id()
        run = next((each.run for each in outputs if each.run is not None), None)
        pipeline = self._options.pipeline_of(query)
        if pipeline is None:
            raise ConflictingSettings(
                "an empty batch does not tell its query, and the checkpoint is not on this machine: name the pipeline"
                ' with the option "pipeline"'
            )
        range_hash = self._checkpoint.range_hash(batch)
        try:
            opened = await self._begun(pipeline, query, run, batch, range_hash)
            if opened is None:
                return False
            await self._write(opened, outputs, batch, range_hash)
        except MarkerMismatch as error:
            await self.close()
            raise type(error)(f'{error} (.option("adoptCheckpoint", "true") for one start)') from error
        except BaseException:
            await self.close()
            raise
        self._adopt = False
        return True

    async def close(self) -> None:
        """Close the connections. The next batch takes the pipeline over again."""
        opened, self._open = self._open, None
        if opened is not None:
            await opened.client.close()

    async def _begun(
        self, pipeline: str, query: str | None, run: str | None, batch: int, range_hash: str
    ) -> _Open | None:
        """The pipeline with an open transaction for this batch; None if the batch is committed already."""
        kept = self._open
        if kept is not None and (kept.transactions.pipeline, kept.query) != (pipeline, query):
            await self.close()  # a query with a new checkpoint under the same options
        if self._open is not None:
            try:
                return await self._begin(self._open, pipeline, batch, range_hash)
            except (PipelineFenced, MarkerMismatch):
                await self.close()
        self._open = await self._started(pipeline, query, run)
        return await self._begin(self._open, pipeline, batch, range_hash)

    async def _begin(self, opened: _Open, pipeline: str, batch: int, range_hash: str) -> _Open | None:
        opened.client.tasks = (f"{pipeline} batch {batch}",)
        before = batch - 1 if batch else None  # Spark hands over every batch of a query to its sink
        marker = opened.transactions.marker
        if marker is not None and UNKNOWN_RANGE in (range_hash, marker.range):
            range_hash = marker.range  # one of the two is not known, so the number alone tells
        if opened.transactions.is_committed(batch, range_hash, before):
            return None
        await opened.output.refresh()
        await opened.transactions.begin()
        return opened

    async def _started(self, pipeline: str, query: str | None, run: str | None) -> _Open:
        """Both topics first, the transactional id last: a pipeline that could not write fences nobody."""
        options = self._options
        client = new_client(options, self._timeouts, self._clock)
        transactions = BatchTransactions(
            client,
            pipeline,
            topic=options.progress_topic,
            transaction_timeout_ms=options.transaction_timeout_ms,
            task_timeout_ms=options.task_timeout_ms,
            adopt=self._adopt,
            notes=False,
            compression=options.compression,
            clock=self._clock,
        )
        limits = BatchLimits(client)
        output = OutputTopic(client, options.topic, limits, self._clock, beside=transactions.topic)
        try:
            client.tasks = (pipeline,)
            await output.refresh()
            client.tasks = ()  # no timer of a task: creating topics has its own limit
            create = functools.partial(create_topic, client, transactions.topic)
            await create_topics({transactions.topic: create}, limit_ms=MAX_POLL_INTERVAL_MS // 2, clock=self._clock)
            client.tasks = (pipeline,)
            await transactions.start(query, run)
        except BaseException:
            await client.close()
            raise
        return _Open(query, client, transactions, limits, output)

    async def _write(self, opened: _Open, outputs: Sequence[TaskOutput], batch: int, range_hash: str) -> None:
        transactions = opened.transactions
        try:
            await write_rows(opened.client, transactions.producer, self._options, opened.limits, outputs, self._clock)
            await transactions.prepare(batch, range_hash, sum(each.rows for each in outputs))
        except ClientError as error:
            await transactions.abort()
            raise transactions.explained(error) from error
        except BaseException:
            await transactions.abort()
            raise
        await transactions.commit()


async def commit_once(options: WriteOptions, outputs: Sequence[TaskOutput], *, clock: Clock | None = None) -> None:
    """Write the rows of a batch write in one transaction: all of them become visible, or none. There is no marker, so
    a write that is started again writes again. Raises a PipelineError or a ClientError."""
    clock = clock or SystemClock()
    name = options.pipeline or f"eosin-batch-{uuid.uuid4()}"
    client = new_client(options, TaskTimeouts(options.task_timeout_ms, options.retry_backoff_ms, clock=clock), clock)
    producer = Producer(
        client, name, transaction_timeout_ms=options.transaction_timeout_ms, compression=options.compression
    )
    try:
        client.tasks = (name,)
        if options.topic is not None:
            await topic_partitions(client, [options.topic])
        await producer.init()
        producer.begin()
        try:
            await write_rows(client, producer, options, BatchLimits(client), outputs, clock)
        except BaseException:
            await abort_as_courtesy(producer, asked_to_commit=False)
            raise
        try:
            await producer.commit()
        except ClientError as error:
            raise UnknownOutcome(
                f"whether the {sum(each.rows for each in outputs)} rows of this write were committed is not known"
                f" ({error}): read the topic before you write them again"
            ) from error
    finally:
        await client.close()


def new_client(options: WriteOptions, timeouts: TaskTimeouts, clock: Clock) -> RetryingClient:
    """A client for one writer."""
    return RetryingClient(
        options.bootstrap,
        timeouts,
        request_timeout_ms=options.request_timeout_ms,
        clock=clock,
        security=options.security,
    )


async def write_rows(
    client: RetryingClient,
    producer: Producer,
    options: WriteOptions,
    limits: BatchLimits,
    outputs: Sequence[TaskOutput],
    clock: Clock,
) -> None:
    """Write the rows of all tasks, task by task, into the open transaction, and wait for all acknowledgements."""
    writer = RowWriter(
        client,
        producer,
        options.topic,
        timestamp=clock.now_ms(),
        arrow_batch_bytes=options.batch_bytes,
        limits=limits,
    )
    try:
        for output in outputs:
            for rows in unpacked(output.payload):
                await writer.write_arrow(rows)
        await writer.finish()
    except BaseException:
        await writer.discard()
        raise
