"""The load on a broker while it is killed: a producer, a group that commits, and readers that trust nothing.

Each keeps what the broker has acknowledged or shown, and raises an AssertionError as soon as the broker contradicts it.
"""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import confluent_kafka as ck

from eosin.client.client import Client, CoordinatorType
from eosin.client.consumer import LATEST, Consumer
from eosin.client.errors import ClientError, check
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from eosin.protocol.schemas.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

TICK_S = 0.01
SENT_PER_TICK = 6


class Feeder:
    """librdkafka's idempotent producer: numbers 0, 1, 2, ... to each partition, several requests on their way.

    It is the only producer of its topic and not a transactional one, so a number's offset is that number, for ever.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.acknowledged = [0] * partitions
        """The count of acknowledged numbers in each partition; they are acknowledged in order."""
        self._topic = topic
        self._sent = [0] * partitions
        self._allowed = 0
        self._failure: str | None = None
        self._producer = ck.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,  # that the broker goes away is the point
            }
        )

    def allow(self, count: int) -> None:
        """So many numbers per partition may be sent in all."""
        self._allowed = count

    async def run(self) -> None:
        """Send what is allowed, a few at a time, for ever."""
        while True:
            for partition, sent in enumerate(self._sent):
                for number in range(sent, min(sent + SENT_PER_TICK, self._allowed)):
                    self._producer.produce(
                        self._topic, b"%d" % number, partition=partition, on_delivery=self._delivered
                    )
                    self._sent[partition] += 1
            self._producer.poll(0)
            assert self._failure is None, self._failure
            await asyncio.sleep(TICK_S)

    async def finish(self) -> None:
        """Wait until everything that is allowed is acknowledged. `run` must be running."""
        await until(lambda: min(self.acknowledged) >= self._allowed)

    def _delivered(self, error: ck.KafkaError | None, message: ck.Message) -> None:
        # An exception would vanish in the library.
        partition = message.partition() or 0
        if error is not None:
            self._failure = f"a number was refused for good: {error}"
        elif message.offset() != self.acknowledged[partition] and self._failure is None:
            self._failure = (
                f"{self._topic}-{partition}: number {self.acknowledged[partition]} was expected to be acknowledged "
                f"next, at the offset of that number, but it was {message.value()!r} at {message.offset()}"
            )
        else:
            self.acknowledged[partition] += 1


class Committer:
    """A group without members that commits offset 1, 2, 3, ... for each partition of a topic."""

    GROUP = "plain"

    def __init__(self, client: Client, topic: str, partitions: int) -> None:
        self.acknowledged = 0
        self._client = client
        self._topic = topic
        self._partitions = tuple(range(partitions))
        self._tried = 0

    async def run(self) -> None:
        """Commit for ever. A commit without an answer is not tried again: the next one is higher."""
        while True:
            self._tried += 1
            try:
                await self._commit(self._tried)
            except ClientError as failure:
                if not failure.retriable:
                    raise
                self._client.forget()
                await asyncio.sleep(5 * TICK_S)
            else:
                self.acknowledged = self._tried
                await asyncio.sleep(TICK_S)

    async def _commit(self, offset: int) -> None:
        entries = tuple(OffsetCommitRequestPartition(each, offset) for each in self._partitions)
        request = OffsetCommitRequest(self.GROUP, topics=(OffsetCommitRequestTopic(self._topic, partitions=entries),))
        answer: OffsetCommitResponse = await self._client.call_coordinator(
            CoordinatorType.GROUP, self.GROUP, ApiKey.OFFSET_COMMIT, request, at_most=9
        )
        for topic in answer.topics:
            for entry in topic.partitions:
                check(entry.error_code, f"committing {offset}")

    async def look(self) -> None:
        """Check that the committed offset is at least the acknowledged one, and at most the one that was tried."""
        acknowledged = self.acknowledged
        for partition in self._partitions:
            offset = await committed_offset(self._client, self.GROUP, TopicPartition(self._topic, partition))
            assert acknowledged <= offset <= self._tried, (
                f"group {self.GROUP!r} is at {offset} in partition {partition}; {acknowledged} was acknowledged, "
                f"{self._tried} tried"
            )


async def until(true: Callable[[], object], *, every_s: float = TICK_S) -> None:
    """Wait until it is true, which may be async. What is asked changes in library callbacks and other processes, so
    nobody can tell us. The series has a limit for all that is waited for in it: its broker may start for minutes."""
    while not (await found if inspect.isawaitable(found := true()) else found):  # noqa: ASYNC110
        await asyncio.sleep(every_s)


async def committed_offset(client: Client, group: str, partition: TopicPartition) -> int:
    """The stable committed offset of a group, 0 when there is none."""
    topics = (OffsetFetchRequestTopics(partition.topic, partition_indexes=(partition.partition,)),)
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group, topics=topics),), require_stable=True)

    async def attempt() -> int:
        answer: OffsetFetchResponse = await client.call_coordinator(
            CoordinatorType.GROUP, group, ApiKey.OFFSET_FETCH, request, at_most=9
        )
        check(answer.groups[0].error_code, f"fetching the offset of {group!r}")
        entry = answer.groups[0].topics[0].partitions[0]
        check(entry.error_code, f"fetching the offset of {group!r}")
        return max(0, entry.committed_offset)

    return await client.retry(attempt)


class LiveReader:
    """Reads the copiers' output read_committed, all the while: 0, 1, 2, ... in each partition, nothing else."""

    def __init__(self, client: Client, topic: str, partitions: int) -> None:
        self.seen = [0] * partitions
        self._consumer = Consumer(client)
        self._consumer.assign({TopicPartition(topic, partition): 0 for partition in range(partitions)})

    async def run(self) -> None:
        """Read for ever."""
        while True:
            for each in await self._consumer.poll(100):
                expected, found = self.seen[each.partition.partition], int(each.record.value or b"-1")
                assert found == expected, (
                    f"{each.partition} has {found} at offset {each.record.offset} where {expected} is next"
                )
                self.seen[each.partition.partition] += 1
            await asyncio.sleep(TICK_S)


@dataclass
class Ends:
    """High watermarks and last stable offsets as they were seen last: they never go back."""

    client: Client
    partitions: Sequence[TopicPartition]
    highest: dict[tuple[TopicPartition, IsolationLevel], int] = field(default_factory=dict)

    async def look(self) -> None:
        """Ask for all of them, and compare."""
        for isolation in IsolationLevel:
            consumer = Consumer(self.client, isolation=isolation)
            for partition in self.partitions:
                seen = self.highest.get((partition, isolation), 0)
                offset = (await consumer.list_offset(partition, LATEST)).offset
                assert offset >= seen, f"the end of {partition} ({isolation.name}) went back from {seen} to {offset}"
                self.highest[partition, isolation] = offset
