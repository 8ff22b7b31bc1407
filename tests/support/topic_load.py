"""Topics for tests of sources: filled with transactions that commit, abort or stay open, by calls that block."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import ConsumedRecord, Consumer
from eosin.client.producer import Producer
from eosin.protocol.names import TopicPartition, uuid_text
from eosin.protocol.records.batch import NewRecord

T = TypeVar("T")


class TopicLoad:
    """One cluster, filled from a test that has no event loop."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def _with_client(self, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        async def run() -> T:
            async with Client(self.bootstrap) as client:
                return await work(client)

        return asyncio.run(run())

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        """A topic; settings with `_` for `.`."""
        # The times of its records are long ago.
        settings = {"retention.ms": "-1", **{name.replace("_", "."): value for name, value in configs.items()}}
        self._with_client(lambda client: Admin(client).create_topic(topic, partitions, configs=settings))

    def delete(self, topic: str) -> None:
        self._with_client(lambda client: Admin(client).delete_topics([topic]))

    def topic_id(self, topic: str) -> str:
        """The id of a topic, as text."""

        async def run(client: Client) -> str:
            return uuid_text((await client.metadata(topic)).topic_id(topic))

        return self._with_client(run)

    def add_partitions(self, topic: str, count: int) -> None:
        self._with_client(lambda client: Admin(client).create_partitions(topic, count))

    def delete_records(self, topic: str, before: int, partition: int = 0) -> None:
        self._with_client(lambda client: Admin(client).delete_records(TopicPartition(topic, partition), before))

    def transaction(
        self,
        topic: str,
        rows: Iterable[tuple[int, str]],
        *,
        end: str = "commit",
        transactional_id: str = "load",
        timeout_ms: int = 60_000,
    ) -> None:
        """Rows as (partition, value), each in a batch of its own, in one transaction that is then ended: `commit`,
        `abort`, or `open` to leave it."""

        async def run(client: Client) -> None:
            producer = Producer(client, transactional_id, transaction_timeout_ms=timeout_ms)
            await producer.init()
            producer.begin()
            for partition, value in rows:
                record = NewRecord(value.encode(), value.encode(), None, (("src", value.encode()),))
                await producer.send(TopicPartition(topic, partition), [record], timestamp=1_700_000_000_123)
            if end == "commit":
                await producer.commit()
            elif end == "abort":
                await producer.abort()
            await producer.init() if end != "open" else None  # waits until the markers are written

        self._with_client(run)

    def records(self, topic: str, partitions: int) -> list[ConsumedRecord]:
        """The records that a read_committed reader sees."""

        async def run(client: Client) -> list[ConsumedRecord]:
            consumer = Consumer(client)
            await consumer.assign_from([TopicPartition(topic, index) for index in range(partitions)])
            return await consumer.read_to_end()

        return self._with_client(run)

    def values(self, topic: str, partitions: int) -> list[bytes]:
        """The values of it, sorted."""
        return sorted(each.record.value or b"" for each in self.records(topic, partitions))
