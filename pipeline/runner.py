"""Consume, transform, produce: exactly once, in one process, without Spark.

Owns the positions of its input partitions and one transactional id. Always true:

- each input partition is a task. One that times out is left out while the others go on (KIP-572);
- what all tasks have written since the last commit, and how far they have read, is one transaction, in which an output
  topic has one number of partitions;
- the id is initialised before positions are read, so nothing of an earlier instance is undecided by then;
- once a commit was asked for, the same request is repeated until there is an answer: never an abort.

The application id is the transactional id and the group whose offsets are committed; there is no membership, and a
second instance fences the first.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.errors import BrokerError
from eosin.client.producer import Producer
from eosin.pipeline.clock import Clock, SystemClock
from eosin.pipeline.commit_report import CommitReport
from eosin.pipeline.errors import PipelineFenced, TransactionTimedOut
from eosin.pipeline.giving_up import OVER, STALE, abort_as_courtesy
from eosin.pipeline.input_partitions import Answer, InputPartitions
from eosin.pipeline.output_partitions import OutputPartitions
from eosin.pipeline.outputs import Made, Output, Transform, transformed
from eosin.pipeline.patient_client import PatientClient
from eosin.pipeline.rounds import PATIENCE_MS, Rounds
from eosin.pipeline.row_writer import RowWriter
from eosin.pipeline.settings import PipelineSettings
from eosin.pipeline.task_timeouts import TaskTimeouts
from eosin.pipeline.topic_creation import create_topics
from eosin.protocol.names import TopicPartition

_IDLE_MS: Final = 20
"""The first pause when nothing comes. It doubles, up to `commit.interval.ms`: for so long a record waits anyway."""


__all__ = ["CommitReport", "Output", "Runner", "Transform"]


class Runner:
    """One application. `run` works until `stop`, or until something fails; a new one goes on where it was."""

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
    ) -> None:
        """`inputs` are topics, or one; `outputs` are topics to create if they are missing, with their number of
        partitions; `settings` have the names of `PipelineSettings`. Raises ConflictingSettings."""
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
        """The input partitions that are read, by name: those that were added to a topic while it runs, too."""
        self._moved: dict[TopicPartition, int] = {}
        self._records_in = self._records_out = 0
        self._totals = {"records_in_total": 0, "records_out_total": 0, "commits_total": 0}
        self._begun_ms = 0
        self._committing = False
        self._stopping = False

    def stop(self) -> None:
        """Let `run` commit what is done, and return."""
        self._stopping = True

    def metrics(self) -> dict[str, int]:
        """The gauges and counters of this run by name and label, as Prometheus spells them."""
        counted = {**self._totals, "input_partitions": len(self.partitions)}
        return counted | self.timeouts.metrics()

    async def run(self) -> None:
        """Work. Raises PipelineFenced when another instance took over, TransactionTimedOut, MissingTopic, DataLoss,
        BadRows, what `transform` raises, or the error of a task whose time was up. Then, and when it is cancelled, what
        was not committed yet is aborted."""
        writing = self._client("producer.retries")
        reading = Client(
            self._bootstrap,
            request_timeout_ms=self.settings.request_timeout_ms,
            retry_timeout_ms=self.settings.request_timeout_ms,
        )
        rounds: Rounds[Answer] = Rounds(self.timeouts, patience_ms=self._patience_ms, clock=self._clock)
        inputs = InputPartitions(
            reading,
            self._application_id,
            self._inputs,
            max_age_ms=self.settings.metadata_max_age_ms,
            clock=self._clock,
        )
        outputs = OutputPartitions(
            writing, reading, self._outputs, max_age_ms=self.settings.metadata_max_age_ms, clock=self._clock
        )
        producer = Producer(writing, self._application_id, transaction_timeout_ms=self.settings.transaction_timeout_ms)
        idle_ms = _IDLE_MS
        try:
            await self._start(writing, producer, inputs)
            while not self._stopping:
                answers = await rounds.ask(inputs.questions())
                if not producer.in_transaction:
                    outputs.refresh()
                await self._work(writing, producer, outputs, inputs.moved(answers))
                if inputs.look_for_new():
                    self.partitions = inputs.tasks
                if self._is_due():
                    await self._commit(writing, producer)
                elif any(records for records, _ in answers.values()):
                    idle_ms = _IDLE_MS
                else:
                    await self._clock.sleep_ms(idle_ms)
                    idle_ms = self._next_pause_ms(idle_ms)
            await self._commit(writing, producer)
        except BrokerError as error:
            explained = self._explained(error, producer)
            if explained is error:
                raise
            raise explained from error
        finally:
            await rounds.close()
            await inputs.close()
            await outputs.close()
            await abort_as_courtesy(producer, asked_to_commit=self._committing)
            await reading.close()
            await writing.close()

    def _next_pause_ms(self, pause_ms: int) -> int:
        if self._moved:  # somebody waits for the commit
            return _IDLE_MS
        return min(2 * pause_ms, max(_IDLE_MS, self.settings.commit_interval_ms))

    def _explained(self, error: BrokerError, producer: Producer) -> Exception:
        """What a broker's error means for the application; the error itself where it has no other meaning."""
        took_ms = self._clock.monotonic_ms() - self._begun_ms
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

    async def _start(self, writing: PatientClient, producer: Producer, inputs: InputPartitions) -> None:
        """Topics, then the id, then positions, in this order."""
        writing.tasks = (self._application_id,)
        await self._create_outputs()
        await producer.init()
        await inputs.start(writing)
        self.partitions = inputs.tasks

    async def _create_outputs(self) -> None:
        if not self._outputs:
            return
        client = self._client("admin.retries")
        try:
            admin = Admin(client)
            await create_topics(
                {
                    name: functools.partial(admin.create_topic, name, partitions)
                    for name, partitions in self._outputs.items()
                },
                limit_ms=self.settings.topic_creation_ms,
                retry_backoff_ms=self.settings.retry_backoff_ms,
                clock=self._clock,
            )
        finally:
            await client.close()

    def _client(self, retries: str) -> PatientClient:
        return PatientClient(
            self._bootstrap,
            self.timeouts,
            request_timeout_ms=self.settings.request_timeout_ms,
            retries=self.settings.client_retries.get(retries),
            clock=self._clock,
        )

    # --- the rounds

    async def _work(
        self,
        writing: PatientClient,
        producer: Producer,
        outputs: OutputPartitions,
        moved: Mapping[TopicPartition, Answer],
    ) -> None:
        made = Made([], [])
        for partition, (records, position) in moved.items():
            for record in records:
                made.add(record, await transformed(self._transform, record))
            self._records_in += len(records)
            self._moved[partition] = position
        if not self._moved:
            return
        if not producer.in_transaction:
            producer.begin()
            self._begun_ms = self._clock.monotonic_ms()
        writing.tasks = tuple(str(partition) for partition in self._moved)
        if made.outputs:
            await outputs.know(made.topics())
            made.check_partitions(outputs.counts)
            await self._write(writing, producer, made, outputs.counts)

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

    def _is_due(self) -> bool:
        return bool(self._moved) and (self._clock.monotonic_ms() - self._begun_ms >= self.settings.commit_interval_ms)

    async def _commit(self, writing: PatientClient, producer: Producer) -> None:
        if not self._moved:
            return
        await producer.send_offsets(self._moved, self._application_id)
        self._committing = True
        await producer.commit()
        self._committing = False
        self._totals["commits_total"] += 1
        self._totals["records_in_total"] += self._records_in
        self._totals["records_out_total"] += self._records_out
        report = CommitReport(
            commit=self._totals["commits_total"],
            records_in=self._records_in,
            records_out=self._records_out,
            transaction_ms=self._clock.monotonic_ms() - self._begun_ms,
            positions=dict(self._moved),
            skipped=self.timeouts.skipped,
            skips=dict(self.timeouts.skips),
        )
        self._moved.clear()
        self._records_in = self._records_out = 0
        if self._on_commit is not None:
            self._on_commit(report)
