"""An application for `eosin.pipeline.runner.runner`: its topics, its input, and what it has written."""

import asyncio
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from waiting import HANG_S, until

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import ConsumedRecord, Consumer
from eosin.client.errors import BrokerError
from eosin.client.producer import Producer
from eosin.client.transactions import TransactionAdmin
from eosin.pipeline.runner.runner import CommitReport, Output, Runner
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord

_names = count()


class Job:
    """An application, its input topic `in-N` of three partitions and its output topic `out-N`."""

    def __init__(self, address: str, name: str | None = None) -> None:
        self.address = address
        self.name = name or str(next(_names))
        self.input, self.output = f"in-{self.name}", f"out-{self.name}"
        self.reports: list[CommitReport] = []
        self.settings = {"commit.interval.ms": "0", "request.timeout.ms": "300", "task.timeout.ms": "60000"}

    async def create(self) -> "Job":
        async with Client(self.address) as client:
            await Admin(client).create_topic(self.input, 3)
        return self

    async def feed(self, *values: str, partition: int | None = None) -> None:
        async with Client(self.address) as client:
            producer = Producer(client)
            for index, value in enumerate(values):
                target = TopicPartition(self.input, index % 3 if partition is None else partition)
                await producer.send(target, [NewRecord(value.encode(), value.encode())])

    async def feed_until_it_writes_to(self, partition: int, fed: int) -> int:
        """Feed keys, each once, until one is committed in that partition of the output or a later one; `fed` records
        were before. Answers how many there are."""
        async with asyncio.timeout(HANG_S):
            while max(each.partition.partition for each in await self.outputs()) < partition:
                await self.feed(*(f"k{number}" for number in range(fed, fed + 8)))
                fed += 8
                await until(lambda: self.records_in() == fed)  # noqa: B023
        return fed

    async def create_input_anew(self) -> None:
        """Delete the input topic, and create it again."""
        async with Client(self.address) as client:
            await Admin(client).delete_topics([self.input])
            await Admin(client).create_topic(self.input, 3)

    def upper(self, consumed: ConsumedRecord) -> Iterable[Output]:
        value = consumed.record.value or b""
        yield Output(self.output, value.upper(), key=value)

    def runner(self, transform: Any = None, **settings: str) -> Runner:
        return Runner(
            self.address,
            f"app-{self.name}",
            [self.input],
            transform or self.upper,
            outputs={self.output: 2},
            settings={**self.settings, **settings},
            on_commit=self.reports.append,
            patience_ms=50,
        )

    async def run_until(self, runner: Runner, done: Callable[[], Any]) -> None:
        """Run, and stop when something is true after a commit."""

        def told(report: CommitReport) -> None:
            self.reports.append(report)
            if done():
                runner.stop()

        runner._on_commit = told
        async with asyncio.timeout(HANG_S):
            await runner.run()

    def records_in(self) -> int:
        return sum(report.records_in for report in self.reports)

    async def written(self) -> list[str]:
        return sorted((each.record.value or b"").decode() for each in await self.outputs())

    async def outputs(self) -> list[ConsumedRecord]:
        """The records that are committed in the output topic."""
        async with Client(self.address) as client:
            partitions = (await client.metadata(self.output)).topic(self.output).partitions
            consumer = Consumer(client)
            await consumer.assign_from([TopicPartition(self.output, index) for index in partitions])
            return await consumer.read_to_end()

    async def is_transforming(self, runner: Runner) -> None:
        """Wait until a transaction with records is open: the first one of a run has none."""
        await until(lambda: runner.partitions)
        await until(lambda: self.is_in("Ongoing"))

    async def is_in(self, state: str) -> bool:
        """True if the transaction of the application is in this state."""
        async with Client(self.address) as client:
            try:
                return (await TransactionAdmin(client).describe(f"app-{self.name}")).state == state
            except BrokerError:  # not known yet
                return False
