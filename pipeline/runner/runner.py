"""Consume, transform, produce: exactly once, in one process, without Spark.

Owns the positions of its input partitions and one transactional id. Always true:

- each input partition is a task. A task that times out is left out while the others go on (KIP-572);
- the outputs of all tasks since the last commit and the positions of their inputs are one transaction, in which an
  output topic has one number of partitions;
- the id is initialised before positions are read, so no transaction of an earlier instance is undecided by then;
- the first transaction commits the beginning of every partition, with a marker of the partitions that have been read
  (`input_marker.py`); offsets of quiet partitions are committed again before any retention is over;
- once a commit was requested, only that request is repeated until there is a response: never an abort.

The application id is the transactional id and also the group whose offsets are committed. The group has no members; a
second instance fences the first.
"""

import functools
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.errors import BrokerError
from eosin.client.producer import Producer
from eosin.pipeline.common.abort import OVER, STALE, abort_as_courtesy
from eosin.pipeline.common.errors import PipelineFenced, TransactionTimedOut
from eosin.pipeline.common.fan_out import PATIENCE_MS, FanOut
from eosin.pipeline.common.progress_marker import ensure_topic
from eosin.pipeline.common.progress_reports import CommitReport
from eosin.pipeline.common.retrying_client import RetryingClient
from eosin.pipeline.common.security import carried_settings, connection_security
from eosin.pipeline.common.settings import PipelineSettings
from eosin.pipeline.common.task_timeouts import TaskTimeouts
from eosin.pipeline.common.topic_creation import Create, create_topics
from eosin.pipeline.runner.input_marker import InputMarker, marker_topic, read_input_marker
from eosin.pipeline.runner.input_partitions import Answer, InputPartitions
from eosin.pipeline.runner.output_partitions import OutputPartitions
from eosin.pipeline.runner.outputs import Made, Output, Transform, transformed
from eosin.pipeline.sink.row_writer import RowWriter
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.runtime.clock import Clock, SystemClock

_IDLE_MS: Final = 20
"""The first pause when no record comes. It doubles up to `commit.interval.ms`, which a record waits anyway."""

OFFSETS_AT_ONCE: Final = 1_000
"""Offsets in one request. A coordinator writes them as one batch, which must fit `max.message.bytes` of its topic: a
thousand offsets are some 150 kB, and an input may have a hundred thousand partitions."""

log = logging.getLogger(__name__)

__all__ = ["CommitReport", "Output", "Runner", "Transform"]


@dataclass(frozen=True, slots=True)
class _Parts:
    """The clients and partitions of one run."""

    writing: RetryingClient
    producer: Producer
    rounds: FanOut[Answer]
    inputs: InputPartitions
    outputs: OutputPartitions


class Runner:
    """One application. `run` works until `stop` or a failure; the next runner goes on where this one committed."""

    def __init__(
        self,
        bootstrap: str,
        application_id: str,
        inputs: Sequence[str] | str,
        transform: Transform,
        *,
        outputs: Mapping[str, int] | None = None,
        settings: Mapping[str, str] | None = None,
        on_commit: Callable[[CommitReport], None] | None = None,
        patience_ms: int = PATIENCE_MS,
        clock: Clock | None = None,
        command_config: str | None = None,
    ) -> None:
        """`inputs` is a topic or several; `outputs` names topics to create if they are missing, with their number of
        partitions; `settings` are those of `PipelineSettings`; `command_config` is a file with Kafka's client settings,
        for brokers with TLS or a login. Raises ConflictingSettings."""
        self._security = carried_settings(command_config)
        self.settings: Final = PipelineSettings.parse(settings or {})
        self._clock = clock or SystemClock()
        self.timeouts: Final = TaskTimeouts(
            self.settings.task_timeout_ms, self.settings.retry_backoff_ms, clock=self._clock
        )
        self._bootstrap = bootstrap
        self._application_id = application_id
        self._inputs = (inputs,) if isinstance(inputs, str) else tuple(inputs)
        self._outputs = dict(outputs or {})
        self._transform = transform
        self._on_commit = on_commit
        self._patience_ms = patience_ms
        self.partitions: list[str] = []
        """The names of the input partitions, including those that were added during the run."""
        self._run_id = uuid.uuid4().hex
        self._marker: InputMarker | None = None
        """The last marker that this run has committed."""
        self._refresh_due_ms = 0
        self._reinitialized = False
        """True if the producer id was initialised again since the last commit."""
        self._moved: dict[TopicPartition, int] = {}
        self._records_in = self._records_out = 0
        self._totals = {"records_in_total": 0, "records_out_total": 0, "commits_total": 0}
        self._begun_ms = 0
        self._idle_ms = _IDLE_MS
        self._committing = False
        self._stopping = False

    def stop(self) -> None:
        """Let `run` commit the finished work and return."""
        self._stopping = True

    def metrics(self) -> dict[str, int]:
        """Gauges and counters of this run by name and label, as Prometheus spells them."""
        counted = {**self._totals, "input_partitions": len(self.partitions)}
        return counted | self.timeouts.metrics()

    async def run(self) -> None:
        """Read, transform and write until `stop`. Raises PipelineFenced if another instance took over,
        TransactionTimedOut, MissingTopic, DataLoss, MissingOffsets, BadRows, what `transform` raises, or the error of a
        task whose time is up. After an error and after a cancellation, uncommitted work is aborted."""
        writing = self._client("producer.retries")
        limit_ms, max_age_ms, clock = self.settings.request_timeout_ms, self.settings.metadata_max_age_ms, self._clock
        reading = Client(
            self._bootstrap,
            request_timeout_ms=limit_ms,
            retry_timeout_ms=limit_ms,
            security=connection_security(self._security),
        )
        parts = _Parts(
            writing,
            Producer(writing, self._application_id, transaction_timeout_ms=self.settings.transaction_timeout_ms),
            FanOut(self.timeouts, patience_ms=self._patience_ms, clock=clock),
            InputPartitions(
                reading,
                self._application_id,
                self._inputs,
                max_age_ms=max_age_ms,
                clock=clock,
                offset_reset=self.settings.offset_reset,
            ),
            OutputPartitions(writing, reading, self._outputs, max_age_ms=max_age_ms, clock=clock),
        )
        try:
            await self._start(parts)
            while await self._goes_on(parts):
                pass
        except BrokerError as error:
            explained = self._explained(error, parts.producer)
            if explained is error:
                raise
            raise explained from error
        finally:
            await parts.rounds.close()
            await parts.inputs.close()
            await parts.outputs.close()
            await abort_as_courtesy(parts.producer, asked_to_commit=self._committing)
            await reading.close()
            await writing.close()

    def _next_pause_ms(self, pause_ms: int) -> int:
        if self._moved:  # records wait for the commit
            return _IDLE_MS
        return min(2 * pause_ms, max(_IDLE_MS, self.settings.commit_interval_ms))

    def _explained(self, error: BrokerError, producer: Producer) -> Exception:
        """The meaning of a broker's error for the application, or the error itself."""
        took_ms = self._clock.elapsed_ms() - self._begun_ms
        limit_ms = self.settings.transaction_timeout_ms
        if error.code in OVER and producer.in_transaction and took_ms >= limit_ms:
            return TransactionTimedOut(
                f"the transaction of {self._application_id!r} took {took_ms} ms, and was aborted after"
                f" transaction.timeout.ms={limit_ms}; nothing of it was kept"
            )
        if error.code in STALE:
            return PipelineFenced(f"{self._application_id!r} was taken over by another instance ({error})")
        return error

    # --- the start

    async def _start(self, parts: _Parts) -> None:
        """Create topics, initialise the id, read marker and positions, in this order; then commit all positions."""
        parts.writing.tasks = (self._application_id,)
        self._refresh_due_ms = self._clock.elapsed_ms()
        creating = self._client("admin.retries")
        try:
            await self._create_outputs(creating)
            await parts.producer.init()
            await self._create_marker_topic(creating)
        finally:
            await creating.close()
        found = await self._read_marker(parts.writing)
        await parts.inputs.start(parts.writing, found)
        self._marker = None if found is None else InputMarker("", found.topics)
        await self._commit(parts)
        self.partitions = parts.inputs.tasks

    async def _read_marker(self, client: RetryingClient) -> InputMarker | None:
        limit_ms = self.settings.task_timeout_ms
        return await read_input_marker(client, self._application_id, timeout_ms=limit_ms, clock=self._clock)

    async def _create_outputs(self, client: Client) -> None:
        admin = Admin(client)
        topics = {name: functools.partial(admin.create_topic, name, count) for name, count in self._outputs.items()}
        await self._create(topics)

    async def _create_marker_topic(self, client: Client) -> None:
        topic = marker_topic(self._application_id)
        await self._create({topic: functools.partial(ensure_topic, client, topic)})

    async def _create(self, topics: Mapping[str, Create]) -> None:
        await create_topics(
            topics,
            limit_ms=self.settings.topic_creation_ms,
            retry_backoff_ms=self.settings.retry_backoff_ms,
            clock=self._clock,
        )

    def _client(self, retries: str) -> RetryingClient:
        return RetryingClient(
            self._bootstrap,
            self.timeouts,
            request_timeout_ms=self.settings.request_timeout_ms,
            retries=self.settings.client_retries.get(retries),
            clock=self._clock,
            security=self._security,
        )

    # --- the rounds

    async def _goes_on(self, parts: _Parts) -> bool:
        """One round, or the commit of the last one."""
        try:
            if self._stopping:
                if self._moved:
                    await self._commit(parts)
                return False
            await self._round(parts)
        except BrokerError as error:
            if not self._is_forgotten(error, parts.producer):
                raise
            log.warning(
                "the coordinator has forgotten the idle %s (transactional.id.expiration.ms), which initialises its"
                " producer id again: %s",
                self._application_id,
                error,
            )
            await self._initialize_again(parts)
        return True

    async def _round(self, parts: _Parts) -> None:
        answers = await parts.rounds.run(parts.inputs.questions())
        if not parts.producer.in_transaction:
            parts.outputs.refresh()
        await self._work(parts, parts.inputs.moved(answers))
        if parts.inputs.check_for_new():
            self.partitions = parts.inputs.tasks
            self._refresh_due_ms = self._clock.elapsed_ms()
        if self._is_due():
            await self._commit(parts)
        elif any(records for records, _ in answers.values()):
            self._idle_ms = _IDLE_MS
        else:
            await self._clock.sleep(self._idle_ms)
            self._idle_ms = self._next_pause_ms(self._idle_ms)

    async def _work(self, parts: _Parts, moved: Mapping[TopicPartition, Answer]) -> None:
        made = Made([], [])
        for partition, (records, position) in moved.items():
            for record in records:
                made.add(record, await transformed(self._transform, record))
            self._records_in += len(records)
            self._moved[partition] = position
        if not self._moved:
            return
        self._begin(parts.producer)
        parts.writing.tasks = tuple(str(partition) for partition in self._moved)
        if made.outputs:
            await parts.outputs.ensure_counted(made.topics())
            made.check_partitions(parts.outputs.counts)
            await self._write(parts.writing, parts.producer, made, parts.outputs.counts)

    def _begin(self, producer: Producer) -> None:
        if not producer.in_transaction:
            producer.begin()
            self._begun_ms = self._clock.elapsed_ms()

    async def _write(self, client: Client, producer: Producer, made: Made, counts: dict[str, int]) -> None:
        now_ms, batch_bytes = self._clock.now_ms(), self.settings.batch_bytes
        writer = RowWriter(client, producer, None, timestamp=now_ms, counts=counts, batch_bytes=batch_bytes)
        try:
            await writer.write(made.rows())
            await writer.finish()
        except BrokerError as error:
            made.explain(error)
            raise
        finally:
            await writer.discard()
        self._records_out += len(made.outputs)

    # --- commits

    def _is_due(self) -> bool:
        now_ms = self._clock.elapsed_ms()
        if self._moved:
            return now_ms - self._begun_ms >= self.settings.commit_interval_ms
        return now_ms >= self._refresh_due_ms

    async def _commit(self, parts: _Parts) -> None:
        """Commit the positions that moved, and at intervals all others as well, so that their offsets do not expire."""
        producer, inputs = parts.producer, parts.inputs
        everything = self._clock.elapsed_ms() >= self._refresh_due_ms
        self._begin(producer)
        await self._send_offsets(parts, self._moved)
        if everything and not await self._refresh(parts):
            await producer.abort()  # the transaction is empty: all input topics were deleted
        else:
            self._committing = True
            await producer.commit()
            self._committing = False
        self._reinitialized = False
        if everything:
            self._refresh_due_ms = self._clock.elapsed_ms() + self.settings.offsets_refresh_interval_ms
        if self._moved:
            inputs.committed(self._moved)
            self._report()

    async def _refresh(self, parts: _Parts) -> bool:
        """Add the offsets of quiet partitions to the transaction, and the marker if it has changed. False if there is
        nothing to commit."""
        producer, inputs = parts.producer, parts.inputs
        quiet = {each: at for each, at in inputs.positions.items() if each not in self._moved}
        if not self._moved:
            parts.writing.tasks = tuple(inputs.tasks)
        gone = await self._send_offsets(parts, quiet, may_be_gone=True)
        before = {} if self._marker is None else self._marker.topics
        marker = InputMarker(self._run_id, {**before, **inputs.read_topics(gone)})
        if marker != self._marker:
            partition = TopicPartition(marker_topic(self._application_id), 0)
            record = marker.record(self._application_id)
            await producer.send(partition, [record], timestamp=self._clock.now_ms())
            self._marker = marker
            return True
        return bool(self._moved) or len(gone) < len(quiet)

    async def _send_offsets(
        self, parts: _Parts, positions: Mapping[TopicPartition, int], *, may_be_gone: bool = False
    ) -> set[TopicPartition]:
        """Add positions to the transaction; returns the partitions that no longer exist, if `may_be_gone` allows it."""
        metadata, left, gone = parts.inputs.offset_metadata, list(positions.items()), set[TopicPartition]()
        for first in range(0, len(left), OFFSETS_AT_ONCE):
            some = dict(left[first : first + OFFSETS_AT_ONCE])
            gone |= await parts.producer.send_offsets(
                some, self._application_id, metadata=metadata, may_be_gone=may_be_gone
            )
        return gone

    def _report(self) -> None:
        """Count the commit, and report it to `on_commit`."""
        self._totals["commits_total"] += 1
        self._totals["records_in_total"] += self._records_in
        self._totals["records_out_total"] += self._records_out
        report = CommitReport(
            commit=self._totals["commits_total"],
            records_in=self._records_in,
            records_out=self._records_out,
            transaction_ms=self._clock.elapsed_ms() - self._begun_ms,
            positions=dict(self._moved),
            skipped=self.timeouts.skipped,
            skips=dict(self.timeouts.skips),
        )
        self._forget_work()
        if self._on_commit is not None:
            self._on_commit(report)

    def _forget_work(self) -> None:
        """Begin the next transaction with nothing: the last one was committed, or is to be done again."""
        self._moved.clear()
        self._records_in = self._records_out = 0

    # --- a coordinator that has forgotten the id

    def _is_forgotten(self, error: BrokerError, producer: Producer) -> bool:
        """True if the id must be initialised again: the coordinator has forgotten it, so no transaction of it is open,
        and the present one was not committed."""
        took_ms = self._clock.elapsed_ms() - self._begun_ms
        return (
            error.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
            and producer.in_transaction
            and not self._committing
            and not self._reinitialized
            and took_ms < self.settings.transaction_timeout_ms
        )

    async def _initialize_again(self, parts: _Parts) -> None:
        """Get a new producer id, check that no other instance has worked, and go back to the last committed offsets.

        The request carries the present producer id and epoch, so an instance that has started since is not fenced
        (KIP-360). The marker shows an instance that started and was forgotten as well. Raises PipelineFenced or a
        ClientError.
        """
        await parts.rounds.close()
        parts.writing.tasks = (self._application_id,)
        await parts.producer.init(keep=True)
        found = await self._read_marker(parts.writing)
        if found is None or found.run != self._run_id:
            raise PipelineFenced(f"{self._application_id!r} was taken over by another instance while it was idle")
        self._reinitialized = True
        self._marker = found
        self._forget_work()
        parts.inputs.rewind()
