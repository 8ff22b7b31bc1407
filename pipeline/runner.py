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
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import EARLIEST, ConsumedRecord, Consumer
from eosin.client.errors import BrokerError
from eosin.client.producer import Producer
from eosin.pipeline.clock import Clock, SystemClock
from eosin.pipeline.errors import DataLoss, PipelineFenced
from eosin.pipeline.giving_up import STALE, abort_as_courtesy
from eosin.pipeline.group_offsets import committed_offsets
from eosin.pipeline.patient_client import PatientClient
from eosin.pipeline.rounds import PATIENCE_MS, Rounds
from eosin.pipeline.row_writer import RowWriter
from eosin.pipeline.rows import Rows
from eosin.pipeline.settings import PipelineSettings
from eosin.pipeline.task_timeouts import TaskTimeouts
from eosin.pipeline.topic_creation import create_topics
from eosin.pipeline.topic_partitions import topic_partitions
from eosin.protocol.errors import ErrorCode
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


@dataclass(frozen=True, slots=True)
class CommitReport:
    """What one committed transaction held."""

    records_in: int
    records_out: int
    positions: Mapping[TopicPartition, int]
    skipped: Mapping[str, int]
    """Tasks that had timed out, with the ms they had left."""


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
        self._consumers: dict[str, tuple[TopicPartition, Consumer]] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._moved: dict[TopicPartition, int] = {}
        self._records_in = self._records_out = 0
        self._begun_ms = 0
        self._committing = False
        self._stopping = False

    def stop(self) -> None:
        """Let `run` commit what is done, and return."""
        self._stopping = True

    async def run(self) -> None:
        """Work. Raises PipelineFenced when another instance took over, MissingTopic, DataLoss, what `transform` raises,
        or the error of a task whose time was up."""
        writing = self._client("producer.retries")
        reading = Client(
            self._bootstrap,
            request_timeout_ms=self.settings.request_timeout_ms,
            retry_timeout_ms=self.settings.request_timeout_ms,
        )
        rounds: Rounds[tuple[list[ConsumedRecord], int]] = Rounds(
            self.timeouts, patience_ms=self._patience_ms, clock=self._clock
        )
        producer = Producer(writing, self._application_id, transaction_timeout_ms=self.settings.transaction_timeout_ms)
        try:
            await self._start(writing, reading, producer)
            while not self._stopping:
                answers = await rounds.ask(self._questions())
                await self._work(writing, producer, answers)
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
            await abort_as_courtesy(producer, asked_to_commit=self._committing)
            await reading.close()
            await writing.close()

    # --- the start

    async def _start(self, writing: PatientClient, reading: Client, producer: Producer) -> None:
        """Topics, then the id, then positions, in this order."""
        writing.tasks = (self._application_id,)
        await self._create_outputs()
        await producer.init()
        partitions = await topic_partitions(writing, self._inputs)
        known = await committed_offsets(writing, self._application_id, partitions)
        earliest = Consumer(writing)
        for partition in partitions:
            start = known.get(partition)
            if start is None:
                start = (await earliest.list_offset(partition, EARLIEST)).offset
            consumer = Consumer(reading)
            consumer.assign({partition: start})
            self._positions[partition] = start
            self._consumers[str(partition)] = partition, consumer

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

    def _questions(self) -> dict[str, Callable[[], Coroutine[Any, Any, tuple[list[ConsumedRecord], int]]]]:
        return {
            task: functools.partial(self._fetch, partition, consumer)
            for task, (partition, consumer) in self._consumers.items()
        }

    @staticmethod
    async def _fetch(partition: TopicPartition, consumer: Consumer) -> tuple[list[ConsumedRecord], int]:
        # The broker is not to wait for records: its answers are in order, so other partitions would wait as well.
        try:
            return await consumer.poll(0), consumer.position(partition)
        except BrokerError as error:
            if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                raise DataLoss(f"{partition} has no offset {consumer.position(partition)} any more") from error
            raise

    async def _work(
        self, writing: PatientClient, producer: Producer, answers: Mapping[str, tuple[list[ConsumedRecord], int]]
    ) -> None:
        outputs: list[Output] = []
        for task, (records, position) in answers.items():
            partition = self._consumers[task][0]
            if position == self._positions[partition]:
                continue
            for record in records:
                outputs += self._transform(record)
            self._records_in += len(records)
            self._positions[partition] = self._moved[partition] = position
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
        report = CommitReport(self._records_in, self._records_out, dict(self._moved), self.timeouts.skipped)
        self._moved.clear()
        self._records_in = self._records_out = 0
        if self._on_commit is not None:
            self._on_commit(report)
