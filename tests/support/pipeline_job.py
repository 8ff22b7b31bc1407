"""A pipeline below Spark: batches of rows, and drivers that run them as Spark does."""

import functools
from itertools import count

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import EARLIEST, LATEST, Consumer
from eosin.client.errors import ClientError
from eosin.client.producer import TV2, Producer
from eosin.pipeline.common.errors import PipelineFenced, UnknownOutcome
from eosin.pipeline.sink.batch_transactions import BatchTransactions
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.protocol.records.batch import NewRecord

PARTITIONS = 2
_names = count()


class Job:
    """A pipeline with an output topic, and drivers that run its batches as Spark does: one that fails is replayed."""

    def __init__(self, address: str, version: int = TV2) -> None:
        self.address = address
        self.name = f"job-{next(_names)}"
        self.version = version
        self.attempts = 0

    async def create(self) -> "Job":
        async with Client(self.address) as client:
            # The rows bear an old timestamp: retention would be free to take them, committed or not.
            await Admin(client).create_topic(self.name, PARTITIONS, configs={"retention.ms": "-1"})
        return self

    def client(self, retry_timeout_ms: int = 5000) -> Client:
        return Client(self.address, client_id=f"driver-{self.attempts}", retry_timeout_ms=retry_timeout_ms)

    def driver(self, client: Client, **options: object) -> BatchTransactions:
        return BatchTransactions(client, self.name, transaction_version=self.version, **options)  # type: ignore[arg-type]

    async def write(self, producer: Producer, batch: int) -> int:
        """The rows of a batch. Another attempt puts them into other partitions: user code need not be repeatable."""
        self.attempts += 1
        for row in range(2):
            target = TopicPartition(self.name, (batch + row + self.attempts) % PARTITIONS)
            await producer.send(target, [NewRecord(None, f"{batch}.{row}".encode())], timestamp=1)
        return 2

    async def batch(self, transactions: BatchTransactions, batch: int, query: str = "q") -> bool:
        before = batch - 1 if batch else None
        write = functools.partial(self.write, batch=batch)
        return await transactions.run(batch, f"range-{batch}", write, handed_over=before)

    async def settled(self) -> list[bytes]:
        """The rows that are visible when the last transaction has ended everywhere: Kafka answers EndTxn before
        that."""
        async with Client(self.address) as client:
            seen, everything = Consumer(client), Consumer(client, isolation=IsolationLevel.READ_UNCOMMITTED)
            for index in range(PARTITIONS):
                partition = TopicPartition(self.name, index)
                end = (await everything.list_offset(partition, LATEST)).offset
                while (await seen.list_offset(partition, LATEST)).offset < end:
                    pass
        return await self.visible()

    async def starts(self) -> list[int]:
        """The offset at which each partition begins: beyond 0 a broker has deleted rows by itself, and no transaction
        lost them."""
        async with Client(self.address) as client:
            partitions = [TopicPartition(self.name, index) for index in range(PARTITIONS)]
            return [(await Consumer(client).list_offset(each, EARLIEST)).offset for each in partitions]

    async def visible(self) -> list[bytes]:
        async with Client(self.address) as client:
            consumer = Consumer(client)
            await consumer.assign_from([TopicPartition(self.name, index) for index in range(PARTITIONS)])
            return sorted(each.record.value or b"" for each in await consumer.read_to_end())


def rows(*batches: int) -> list[bytes]:
    return [f"{batch}.{row}".encode() for batch in batches for row in range(2)]


async def run_until_done(job: Job, batches: int, on_start: object = None) -> int:
    """Run batches 0, 1, ... as Spark's driver does: after any failure a new driver replays the batch. Answers how many
    drivers it took. Between a commit and Spark's note of it a driver may die as well, so the last one is replayed."""
    batch, drivers = 0, 0
    while batch < batches:
        drivers += 1
        assert drivers < 5
        async with job.client() as client:
            if callable(on_start):
                on_start(client)
            transactions = job.driver(client)
            try:
                await transactions.start("q")
                while batch < batches:
                    await job.batch(transactions, batch)
                    batch += 1
            except (ClientError, UnknownOutcome, PipelineFenced, TimeoutError):
                continue
    return drivers
