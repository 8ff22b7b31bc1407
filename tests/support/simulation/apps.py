"""Applications of a run: what they write and copy, instance after instance."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from eosin.protocol.names import TopicPartition
from simulation.client import World
from simulation.history import Isolation
from simulation.plan import PARTITIONS, AppPlan, InstancePlan
from simulation.producers import IdempotentProducer, Output, Over, TransactionalProducer
from simulation.readers import Consumer

MAX_COPIES = 3
"""How often a value is copied on before copiers drop it."""


class App:
    """The instances behind one transactional id, each followed by the next."""

    def __init__(self, world: World, plan: AppPlan, *, is_over: Callable[[], bool]) -> None:
        self._world = world
        self._plan = plan
        self._is_over = is_over
        self._chance = random.Random(f"{world.seed}/{plan.transactional_id}")

    async def run(self) -> None:
        """Until the last instance has ended."""
        running: list[asyncio.Task[None]] = []
        for number, plan in enumerate(self._plan.instances, start=1):
            name = f"{self._plan.transactional_id}/{number}"
            task = asyncio.create_task(self._instance(name, plan))
            running.append(task)
            await asyncio.wait((task,), timeout=plan.successor_ms / 1000)
        for task in running:
            await task

    async def _instance(self, name: str, plan: InstancePlan) -> None:
        producer = TransactionalProducer(
            self._world,
            name,
            self._plan.transactional_id,
            version=plan.version,
            timeout_ms=plan.timeout_ms,
            patience_ms=plan.patience_ms,
        )
        work = self._copy if self._plan.source is not None else self._write
        try:
            async with asyncio.timeout(plan.life_ms / 1000):
                await self._introduced(producer, work, plan)
        except (Over, TimeoutError):
            pass
        finally:
            producer.session.leave()

    async def _introduced(
        self,
        producer: TransactionalProducer,
        work: Callable[[TransactionalProducer, InstancePlan], Awaitable[None]],
        plan: InstancePlan,
    ) -> None:
        await producer.introduce()
        await work(producer, plan)

    async def _write(self, producer: TransactionalProducer, plan: InstancePlan) -> None:
        for _ in range(plan.transactions):
            transaction = producer.begin()
            written = 0
            output: Output = {}
            for partition in self._chance.sample(PARTITIONS, self._chance.choice((1, 1, 2, 3))):
                batches: list[list[str]] = []
                for _ in range(self._chance.choice((1, 1, 2, 3))):
                    size = self._chance.choice((1, 1, 2))
                    batches.append([f"{transaction.name}.{written + index}" for index in range(size)])
                    written += size
                output[partition] = batches
            await producer.run(transaction, output, commit=self._chance.random() < 0.75)
            if self._chance.random() < 0.1:
                await producer.introduce(recovering=True)
            if self._chance.random() < 0.1:
                await asyncio.sleep(self._chance.random())  # a pause, in which it may be replaced

    async def _copy(self, producer: TransactionalProducer, plan: InstancePlan) -> None:
        source = self._plan.source
        assert source is not None
        consumer = Consumer(self._world, producer.name + " in", group=self._plan.transactional_id)
        try:
            position = max(0, await consumer.committed(source))
            done = in_vain = 0
            while done < plan.transactions and in_vain < 3:
                fetched, _ = await consumer.fetch(
                    source,
                    position,
                    Isolation.COMMITTED,
                    max_wait_ms=200,
                    max_bytes=self._chance.choice((200, 1 << 20)),
                )
                if fetched.next_offset == position:
                    in_vain += self._is_over()
                    continue
                done += 1
                in_vain = 0
                transaction = producer.begin()
                transaction.group = self._plan.transactional_id
                transaction.offsets = {source: fetched.next_offset}
                transaction.reads = [seen.value for seen in fetched.records]
                output = self._copies(transaction.name, source, transaction.reads)
                commit = self._chance.random() < 0.85
                if await producer.run(transaction, output, commit=commit) and commit:
                    position = fetched.next_offset
        finally:
            consumer.session.leave()

    def _copies(self, name: str, source: TopicPartition, values: list[str]) -> Output:
        copies = [f"{value}>{name}" for value in values if value.count(">") < MAX_COPIES]
        if not copies:
            return {}
        return {self._chance.choice([each for each in PARTITIONS if each.topic != source.topic]): [copies]}


async def write_plainly(world: World, batches: int) -> None:
    """A producer without transactions, which writes so many batches."""
    producer = IdempotentProducer(world, "plain")
    chance = random.Random(f"{world.seed}/plain")
    await producer.introduce()
    partition = chance.choice(PARTITIONS)
    written = 0
    while written < batches:
        at_once = min(chance.choice((1, 2, 5)), batches - written)
        await producer.write(partition, [[f"plain.{written + index}"] for index in range(at_once)])
        written += at_once


async def follow(world: World, number: int, *, is_over: Callable[[], bool]) -> None:
    """A reader: it follows a partition until all is over, and sometimes begins anew."""
    chance = random.Random(f"{world.seed}/reader {number}")
    consumer = Consumer(world, f"reader {number}")
    isolation = chance.choice((Isolation.COMMITTED, Isolation.COMMITTED, Isolation.UNCOMMITTED))
    partition, offset = chance.choice(PARTITIONS), 0
    while not is_over():
        fetched, _ = await consumer.fetch(
            partition, offset, isolation, max_wait_ms=200, max_bytes=chance.choice((150, 1 << 20))
        )
        offset = fetched.next_offset
        if chance.random() < 0.1:
            partition, offset = chance.choice(PARTITIONS), 0
        await asyncio.sleep(chance.random() * 0.05)
