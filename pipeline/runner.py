"""Consume, transform, produce: exactly once, in one process, without Spark.

Owns the positions of its input partitions and one transactional id. Always true:

- each input partition is a task. One that times out is left out while the others go on (KIP-572);
- what all tasks have written since the last commit, and how far they have read, is one transaction;
- the id is initialised before positions are read, so nothing of an earlier instance is undecided by then;
- once a commit was asked for, the same request is repeated until there is an answer: never an abort.

The application id is the transactional id and the group whose offsets are committed; there is no membership, and a
second instance fences the first.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import ConsumedRecord
from eosin.client.errors import BrokerError
from eosin.client.producer import Producer
from eosin.pipeline.clock import Clock, SystemClock
from eosin.pipeline.commit_report import CommitReport
from eosin.pipeline.errors import PipelineFenced
from eosin.pipeline.giving_up import STALE, abort_as_courtesy
from eosin.pipeline.input_partitions import Answer, InputPartitions
from eosin.pipeline.patient_client import PatientClient
from eosin.pipeline.rounds import PATIENCE_MS, Rounds
from eosin.pipeline.row_writer import RowWriter
from eosin.pipeline.rows import Rows
from eosin.pipeline.settings import PipelineSettings
from eosin.pipeline.task_timeouts import TaskTimeouts
from eosin.pipeline.topic_creation import create_topics
from eosin.protocol.names import TopicPartition

_IDLE_MS: Final = 20


@dataclass(frozen=True, slots=True)
class Output:
    """A record to write. Without a partition, it goes by the hash of its key, as with Kafka's Java client."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


Transform = Callable[[ConsumedRecord], Iterable[Output]]
"""What becomes of one input record. Called again for the same record after a failure."""


class Runner:
    """One application. `run` works until `stop`, or until something fails; a new one goes on where it was."""

    def __init__(
        self,
        bootstrap: str,
        application_id: str,
        inputs: Sequence[str],
        transform: Transform,
        *,
        outputs: Mapping[str, int] | None = None,
        settings: Mapping[str, str] | None = None,
        on_commit: Callable[[CommitReport], None] | None = None,
        patience_ms: int = PATIENCE_MS,
        clock: Clock | None = None,
    ) -> None:
        """`outputs` are topics to create if they are missing, with their number of partitions; `settings` have the
        names of `PipelineSettings`. Raises ConflictingSettings."""
        self.settings: Final = PipelineSettings.parse(settings or {})
        self._clock = clock or SystemClock()
        self.timeouts: Final = TaskTimeouts(
            self.settings.task_timeout_ms, self.settings.retry_backoff_ms, clock=self._clock
        )
        self._bootstrap = bootstrap
        self._application_id = application_id
        self._inputs = tuple(inputs)
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
        """Work. Raises PipelineFenced when another instance took over, MissingTopic, DataLoss, what `transform` raises,
        or the error of a task whose time was up."""
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
        producer = Producer(writing, self._application_id, transaction_timeout_ms=self.settings.transaction_timeout_ms)
        try:
            await self._start(writing, producer, inputs)
            while not self._stopping:
                answers = await rounds.ask(inputs.questions())
                await self._work(writing, producer, inputs.moved(answers))
                if inputs.look_for_new():
                    self.partitions = inputs.tasks
                if self._is_due():
                    await self._commit(writing, producer)
                elif not any(records for records, _ in answers.values()):
                    await self._clock.sleep_ms(_IDLE_MS)
            await self._commit(writing, producer)
        except BrokerError as error:
            if error.code in STALE:
                raise PipelineFenced(
                    f"{self._application_id!r} was taken over by another instance ({error})"
                ) from error
            raise
        finally:
            await rounds.close()
            await inputs.close()
            await abort_as_courtesy(producer, asked_to_commit=self._committing)
            await reading.close()
            await writing.close()

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

    async def _work(self, writing: PatientClient, producer: Producer, moved: Mapping[TopicPartition, Answer]) -> None:
        outputs: list[Output] = []
        for partition, (records, position) in moved.items():
            for record in records:
                outputs += self._transform(record)
            self._records_in += len(records)
            self._moved[partition] = position
        if not self._moved:
            return
        if not producer.in_transaction:
            producer.begin()
            self._begun_ms = self._clock.monotonic_ms()
        writing.tasks = tuple(str(partition) for partition in self._moved)
        await self._write(writing, producer, outputs)

    async def _write(self, client: Client, producer: Producer, outputs: Sequence[Output]) -> None:
        if not outputs:
            return
        writer = RowWriter(client, producer, None, timestamp=self._clock.now_ms())
        rows = Rows(
            keys=[each.key for each in outputs],
            values=[each.value for each in outputs],
            topics=[each.topic for each in outputs],
            partitions=[each.partition for each in outputs],
            headers=[each.headers for each in outputs],
        )
        try:
            await writer.write(rows)
            await writer.finish()
        except BaseException:
            await writer.discard()
            raise
        self._records_out += len(outputs)

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
