"""The sink's protocol: one transaction for each batch. Nothing here knows Spark.

Owns the pipeline's transactional id until another driver takes it over. Always true:

- no start takes the pipeline over from a driver that commits batches at present;
- the id is initialised before the progress marker is read. The other way round, a commit that is decided and not yet
  carried out would be invisible, and its batch would be written twice;
- every batch has its own epoch, so late requests of one batch cannot reach the next;
- the marker is part of the transaction of its batch, and the range hash is part of the marker;
- once a commit was requested, only that request is repeated until there is a response: never an abort.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from eosin.client.client import Client
from eosin.client.errors import BrokerError, ClientError
from eosin.client.producer import TRANSACTION_TIMEOUT_MS, Producer
from eosin.pipeline.common.abort import OVER, STALE, abort_as_courtesy
from eosin.pipeline.common.errors import (
    BatchGap,
    ForeignMarker,
    MissingMarker,
    PipelineFenced,
    RangeMismatch,
    RolledBackCheckpoint,
    TransactionTimedOut,
    UnknownOutcome,
)
from eosin.pipeline.common.progress_marker import ProgressMarker, ensure_topic, progress_topic, read_marker
from eosin.pipeline.common.task_timeouts import TASK_TIMEOUT_MS
from eosin.pipeline.sink.present_driver import refuse_beside_another
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.compression import Compression
from eosin.runtime.clock import Clock, SystemClock

Write = Callable[[Producer], Awaitable[int]]
"""Writes the rows of a batch into the open transaction; returns their number."""


class BatchTransactions:
    """The transactions of one pipeline, one after the other. Call `start`, then `run` for each batch."""

    def __init__(
        self,
        client: Client,
        pipeline: str,
        *,
        topic: str | None = None,
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        transaction_version: int | None = None,
        task_timeout_ms: int = TASK_TIMEOUT_MS,
        adopt: bool = False,
        notes: bool = True,
        compression: Compression = Compression.NONE,
        clock: Clock | None = None,
    ) -> None:
        """`pipeline` is the transactional id. `topic` is the topic of the marker, by default `<pipeline>-progress`.

        `client` repeats a commit without a response as long as any request: give it a `retry_timeout_ms` of
        `task.timeout.ms`. With `adopt`, a checkpoint that contradicts the marker replaces it. `notes` tells whether the
        checkpoint notes the batches that are handed over.
        """
        self.pipeline: Final = pipeline
        self.topic: Final = topic or progress_topic(pipeline)
        self.marker: ProgressMarker | None = None
        """The last batch that is known to be committed."""
        self.producer: Final = Producer(
            client,
            pipeline,
            transaction_version=transaction_version,
            transaction_timeout_ms=transaction_timeout_ms,
            compression=compression,
        )
        self._client = client
        self._task_timeout_ms = task_timeout_ms
        self._adopt = adopt
        self._notes = notes
        self._clock = clock or SystemClock()
        self._transaction_timeout_ms = transaction_timeout_ms
        self._query = ""
        self._run = ""
        self._next: ProgressMarker | None = None
        self._begun_ms = 0
        self._asked_to_commit = False

    @property
    def adopts(self) -> bool:
        """True if the next batch is written although checkpoint and output do not go together."""
        return self._adopt

    async def start(self, query: str | None, run: str | None = None) -> ProgressMarker | None:
        """Take the pipeline over: fence any earlier driver, let its last transaction end, and read the marker. Raises a
        ClientError, PipelineAtWork, ForeignMarker, BadProgressTopic or TimeoutError.

        A `query` of None, for a batch whose query nobody knows, is the query of the marker. `run` is the id of this run
        of it; without one, and to adopt a checkpoint, the pipeline is taken over from whoever has it.
        """
        await ensure_topic(self._client, self.topic)
        self._run = run or ""
        if run and not self._adopt:
            await refuse_beside_another(self._client, self.pipeline, self.topic, (run,), self._clock)
        await self.producer.init()
        self._asked_to_commit = False
        self.marker = await self._read_marker()
        if query is None:
            query = "" if self.marker is None else self.marker.query
        elif self.marker is not None and not self.marker.query:
            self.marker = replace(self.marker, query=query)
        self._query = query
        if self.marker is not None and self.marker.query != query and not self._adopt:
            raise ForeignMarker(
                f"pipeline {self.pipeline!r} was last written by query {self.marker.query} (batch {self.marker.batch}),"
                f" and this checkpoint is of query {query}: it was deleted or replaced, or two queries have this"
                " name, and its batch numbers mean nothing here; see to its input offsets, then adopt the checkpoint"
            )
        return self.marker

    def is_committed(self, batch: int, range_hash: str, handed_over: int | None) -> bool:
        """True if the batch is in the output already and must be skipped; False if it is the next one to write.

        `handed_over` is the last batch before this one that the sink was to write; batches between the two are no gap.
        Raises a MarkerMismatch for any other batch: the checkpoint was rolled back, or markers were lost.
        """
        marker = self.marker
        if marker is None:
            if handed_over is None:
                return False
        elif marker.query == self._query:
            if batch == marker.batch and range_hash == marker.range:
                return True
            # A checkpoint without notes may be a copy without them: then only the next batch is sure to follow.
            expected = batch - 1 if handed_over is None else handed_over
            if batch > marker.batch == expected:
                return False
            if batch - 1 == marker.batch and not marker.is_noted:
                return False
        if self._adopt:
            return False
        raise self._mismatch(batch, handed_over)

    def _mismatch(self, batch: int, handed_over: int | None) -> Exception:
        marker, pipeline = self.marker, self.pipeline
        lost = (
            f"topic {self.topic} has lost markers, this is another cluster, or the function of foreachBatch went on"
            f" after the error of batch {handed_over}; see to the rows that are missing, then adopt the checkpoint"
        )
        if marker is None:
            return MissingMarker(
                f"the checkpoint is at batch {batch}, and topic {self.topic} has no marker of pipeline {pipeline!r},"
                f" although batch {handed_over} was handed over to it: {lost}"
            )
        if handed_over is None and batch > marker.batch:
            return BatchGap(
                f"the checkpoint is at batch {batch}, pipeline {pipeline!r} has committed {marker.batch} last, and the"
                " checkpoint does not tell which batches were handed over between the two: it was copied in part"
            )
        if handed_over is not None and handed_over > marker.batch:
            return BatchGap(
                f"the checkpoint is at batch {batch} and has handed over batch {handed_over}, of which pipeline"
                f" {pipeline!r} has no marker, as it has committed {marker.batch} last: {lost}"
            )
        if batch == marker.batch:
            return RangeMismatch(
                f"pipeline {pipeline!r} has committed batch {batch} with another input range than the checkpoint has:"
                " the checkpoint was restored from an older copy"
            )
        return RolledBackCheckpoint(
            f"the checkpoint is at batch {batch} and does not know that pipeline {pipeline!r} has committed batch"
            f" {marker.batch} already: the checkpoint was restored from an older copy"
        )

    async def run(self, batch: int, range_hash: str, write: Write, *, handed_over: int | None = None) -> bool:
        """Write one batch exactly once, all of it or nothing. False if it was committed before; `write` is not called
        then.

        After any error the pipeline must be started again.
        """
        if self.is_committed(batch, range_hash, handed_over):
            return False
        await self.begin()
        try:
            rows = await write(self.producer)
            await self.prepare(batch, range_hash, rows)
        except ClientError as error:
            await self.abort()
            raise self.explained(error) from error
        except BaseException:
            await self.abort()
            raise
        await self.commit()
        return True

    async def begin(self) -> None:
        """Open the transaction of a batch in a fresh epoch. Raises PipelineFenced or a ClientError."""
        self._begun_ms = self._clock.elapsed_ms()
        before = self.producer.identity
        # The request carries the present epoch: a driver that slept while a successor started is fenced here, and does
        # not fence the successor. A driver that was idle for transactional.id.expiration.ms gets a new producer id.
        try:
            await self.producer.init(keep=True)
        except ClientError as error:
            raise self.explained(error) from error
        if self.producer.identity.producer_id != before.producer_id:
            await self._require_same_marker()
        self.producer.begin()

    async def _require_same_marker(self) -> None:
        """Raise PipelineFenced if another driver has committed since, although its id is forgotten as well."""
        found = await self._read_marker()
        if _place(found) != _place(self.marker):
            raise PipelineFenced(f"pipeline {self.pipeline!r} was taken over by another driver while it had no batch")

    async def _read_marker(self) -> ProgressMarker | None:
        return await read_marker(
            self._client, self.pipeline, self.topic, timeout_ms=self._task_timeout_ms, clock=self._clock
        )

    async def prepare(self, batch: int, range_hash: str, rows: int) -> None:
        """Write the marker of the batch into its transaction, as the last step before `commit`."""
        self._next = ProgressMarker(self._query, batch, range_hash, rows, self._run, self._notes)
        now_ms = self._clock.now_ms()
        await self.producer.send(TopicPartition(self.topic, 0), [self._next.record(self.pipeline)], timestamp=now_ms)

    async def commit(self) -> None:
        """Commit the transaction; repeat the request until there is a response. Raises UnknownOutcome without one."""
        assert self._next is not None, "prepare comes first"
        self._asked_to_commit = True
        try:
            await self.producer.commit()
        except ClientError as error:
            if isinstance(error, BrokerError) and not error.retriable:
                raise self.explained(error) from error
            raise UnknownOutcome(
                f"whether batch {self._next.batch} of pipeline {self.pipeline!r} was committed is not known ({error});"
                " the next start finds out"
            ) from error
        self.marker = self._next
        self._adopt = False
        self._asked_to_commit = False

    async def abort(self) -> None:
        """Abort the transaction, unless it may be committed already."""
        await abort_as_courtesy(self.producer, asked_to_commit=self._asked_to_commit)

    def explained(self, error: ClientError) -> Exception:
        """The meaning of a client's error for the pipeline, or the error itself."""
        if not isinstance(error, BrokerError):
            return error
        took_ms = self._clock.elapsed_ms() - self._begun_ms
        if error.code in OVER and took_ms >= self._transaction_timeout_ms:
            return TransactionTimedOut(
                f"the batch of pipeline {self.pipeline!r} took {took_ms} ms, and its transaction was aborted after"
                f" transaction.timeout.ms={self._transaction_timeout_ms}; nothing of it was kept"
            )
        if error.code in STALE:
            return PipelineFenced(f"pipeline {self.pipeline!r} was taken over by another driver ({error})")
        return error


def _place(marker: ProgressMarker | None) -> tuple[str, int, str] | None:
    return None if marker is None else (marker.query, marker.batch, marker.range)
