"""Applications of a run: what they write and copy, instance after instance."""

import asyncio
import random
from collections.abc import Callable, Sequence

from eosin.protocol.names import TopicPartition
from simulation.client import World
from simulation.consumer_members import ConsumerMembership
from simulation.copying_member import CopyingMember
from simulation.heartbeating_members import HeartbeatingMembership
from simulation.history import Isolation
from simulation.members import Membership
from simulation.plan import PARTITIONS, AppPlan, InstancePlan
from simulation.producers import IdempotentProducer, Output, Over, TransactionalProducer
from simulation.readers import Consumer
from simulation.streams_members import StreamsMembership
from simulation.values import COMPACTED, DELETED, KEYS, in_batches, is_copied


class App:
    """Instances of an application, each followed by the next: all with one transactional id, or, as members of a group,
    with one each."""

    def __init__(
        self, world: World, plan: AppPlan, *, targets: Sequence[TopicPartition], is_over: Callable[[], bool]
    ) -> None:
        """It writes to `targets`."""
        self._world = world
        self._plan = plan
        self._targets = targets
        self._is_over = is_over
        self._chance = random.Random(f"{world.seed}/{plan.name}")

    @property
    def _membership(self) -> type[Membership | HeartbeatingMembership]:
        """The kind of members that its instances are."""
        if self._plan.is_streams:
            return StreamsMembership
        return ConsumerMembership if self._plan.is_consumer else Membership

    async def run(self) -> None:
        """Until the last instance has ended."""
        running: list[asyncio.Task[None]] = []
        for number, plan in enumerate(self._plan.instances, start=1):
            task = asyncio.create_task(self._instance(f"{self._plan.name}/{number}", plan))
            running.append(task)
            await asyncio.wait((task,), timeout=plan.successor_ms / 1000)
        for task in running:
            await task

    async def _instance(self, name: str, plan: InstancePlan) -> None:
        producer = TransactionalProducer(
            self._world,
            name,
            name if self._plan.is_group else self._plan.name,
            version=plan.version,
            timeout_ms=plan.timeout_ms,
            patience_ms=plan.patience_ms,
        )
        try:
            async with asyncio.timeout(plan.life_ms / 1000):
                await producer.introduce()
                await self._work(producer, plan.transactions)
        except (Over, TimeoutError):
            pass
        finally:
            producer.session.leave()

    async def _work(self, producer: TransactionalProducer, transactions: int) -> None:
        if self._plan.is_group:
            consumer = Consumer(self._world, producer.name + " in", group=self._plan.name)
            kind = self._membership
            instance_id = self._plan.name if self._plan.is_static else None
            membership = kind(consumer.session, self._plan.name, self._plan.sources, instance_id=instance_id)
            member = CopyingMember(producer, consumer, membership)
            try:
                await member.run(transactions)
            finally:
                member.end()
        elif self._plan.sources:
            await self._copy(producer, self._plan.sources[0], transactions)
        else:
            await self._write(producer, transactions)

    async def _write(self, producer: TransactionalProducer, transactions: int) -> None:
        for _ in range(transactions):
            transaction = producer.begin()
            written = 0
            output: Output = {}
            targets = [each for each in self._targets if each != DELETED or producer.version == 2]
            for partition in self._chance.sample(targets, self._chance.choice((1, 1, 2, 3))):
                batches: list[list[str]] = []
                for _ in range(self._chance.choice((1, 1, 2, 3))):
                    size = self._chance.choice((1, 1, 2))
                    names = [f"{transaction.name}.{written + index}" for index in range(size)]
                    batches.append([self._text(partition, name) for name in names])
                    written += size
                output[partition] = batches
            await producer.run(transaction, output, commit=self._chance.random() < 0.75)
            if self._chance.random() < 0.1:
                await producer.introduce(recovering=True)
            if self._chance.random() < 0.1:
                await asyncio.sleep(self._chance.random())  # a pause, in which it may be replaced

    def _text(self, partition: TopicPartition, name: str) -> str:
        if partition != COMPACTED:
            return name
        return f"{self._chance.choice(KEYS)}{'!' if self._chance.random() < 0.2 else '='}{name}"

    async def _copy(self, producer: TransactionalProducer, source: TopicPartition, transactions: int) -> None:
        consumer = Consumer(self._world, producer.name + " in", group=self._plan.name)
        try:
            position = max(0, await consumer.committed(source))
            done = in_vain = 0
            while done < transactions and in_vain < 3:
                max_bytes = self._chance.choice((200, 1 << 20))
                fetched, _ = await consumer.fetch(
                    source, position, Isolation.COMMITTED, max_wait_ms=200, max_bytes=max_bytes
                )
                if fetched.next_offset == position:
                    in_vain += self._is_over()
                    continue
                done += 1
                in_vain = 0
                transaction = producer.begin()
                transaction.group = self._plan.name
                transaction.offsets = {source: fetched.next_offset}
                transaction.reads = [seen.value for seen in fetched.records]
                output = self._copies(transaction.name, source, transaction.reads)
                commit = self._chance.random() < 0.85
                if await producer.run(transaction, output, commit=commit) and commit:
                    position = fetched.next_offset
        finally:
            consumer.session.leave()

    def _copies(self, name: str, source: TopicPartition, values: list[str]) -> Output:
        copies = [f"{value}>{name}" for value in values if is_copied(value)]
        if not copies:
            return {}
        return {self._chance.choice([each for each in PARTITIONS if each.topic != source.topic]): in_batches(copies)}


async def write_plainly(world: World, batches: int) -> None:
    """A producer without transactions, which writes so many batches."""
    producer = IdempotentProducer(world, "plain")
    chance = random.Random(f"{world.seed}/plain")
    await producer.introduce()
    partition = chance.choice((*PARTITIONS, COMPACTED))
    patience_ms = chance.choice((None, 100.0, 1000.0))
    written = 0
    while written < batches:
        at_once = min(chance.choice((1, 2, 5)), batches - written)
        texts = [f"plain.{written + index}" for index in range(at_once)]
        if partition == COMPACTED:
            texts = [f"{chance.choice(KEYS)}={text}" for text in texts]
        await producer.write(partition, [[text] for text in texts], patience_ms=patience_ms)
        written += at_once


async def follow(world: World, number: int, *, is_over: Callable[[], bool]) -> None:
    """A reader: it follows a partition until all is over, and sometimes begins anew."""
    chance = random.Random(f"{world.seed}/reader {number}")
    consumer = Consumer(world, f"reader {number}")
    isolation = chance.choice((Isolation.COMMITTED, Isolation.COMMITTED, Isolation.UNCOMMITTED))
    partitions = (*PARTITIONS, COMPACTED)
    partition, offset = chance.choice(partitions), 0
    while not is_over():
        max_bytes = chance.choice((150, 1 << 20))
        fetched, _ = await consumer.fetch(partition, offset, isolation, max_wait_ms=200, max_bytes=max_bytes)
        offset = fetched.next_offset
        if chance.random() < 0.1:
            partition, offset = chance.choice(partitions), 0
        await asyncio.sleep(chance.random() * 0.05)


async def watch(world: World, instances: int, *, is_over: Callable[[], bool]) -> None:
    """A consumer that commits how far it has come outside of transactions, instance after instance."""
    chance = random.Random(f"{world.seed}/watch")
    partition = chance.choice(PARTITIONS)
    for number in range(instances):
        consumer = Consumer(world, f"watch/{number + 1}", group="watch")
        try:
            async with asyncio.timeout(0.05 + chance.random()):
                position = max(0, await consumer.committed(partition))
                while not is_over():
                    fetched, _ = await consumer.fetch(partition, position, Isolation.COMMITTED, max_wait_ms=100)
                    if fetched.next_offset != position:
                        position = fetched.next_offset
                        await consumer.commit(partition, position)
        except TimeoutError:
            pass
        finally:
            consumer.session.leave()
        await asyncio.sleep(0.1)  # what it has sent has arrived
