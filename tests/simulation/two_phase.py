"""An application whose transactions a database decides (KIP-939), as docs/two-phase-commit.md tells to write one."""

import asyncio
import random

from simulation.client import GaveUp, World
from simulation.history import Transaction
from simulation.plan import PARTITIONS, AppPlan, InstancePlan
from simulation.producers import Output, Over, TransactionalProducer

FOR_EVER_MS = 2**31 - 1
LIVES_MS = 1e9
LAST_INSTANCES = 20
"""So many in a row are enough to end what is open, whatever still comes late of those before."""


class DatabaseApp:
    """Instances of it, each of which finishes what the one before has left. The database never fails: it is this
    object."""

    def __init__(self, world: World, plan: AppPlan) -> None:
        self._world = world
        self._plan = plan
        self._chance = random.Random(f"{world.seed}/{plan.name}")
        self._owner = ""
        """The instance that may decide."""
        self._decided = (-1, -1)
        """The pair of the last transaction that is to be committed."""
        self._begun: dict[tuple[int, int], Transaction] = {}

    async def run(self) -> None:
        """Until the last instance has ended, and one more has seen to it that nothing is open."""
        running: list[asyncio.Task[bool]] = []
        for number, plan in enumerate(self._plan.instances, start=1):
            task = asyncio.create_task(self._instance(f"{self._plan.name}/{number}", plan, plan.transactions))
            running.append(task)
            await asyncio.wait((task,), timeout=plan.successor_ms / 1000)
        for task in running:
            await task
        for number in range(len(running) + 1, len(running) + 1 + LAST_INSTANCES):
            if await self._instance(f"{self._plan.name}/{number}", self._plan.instances[-1], 0, LIVES_MS):
                return
        self._world.fault(f"none of {LAST_INSTANCES} instances of {self._plan.name} can end what is open")

    async def _instance(self, name: str, plan: InstancePlan, transactions: int, life_ms: float | None = None) -> bool:
        """Whether it came to its end."""
        producer = TransactionalProducer(
            self._world, name, self._plan.name, version=2, timeout_ms=FOR_EVER_MS, patience_ms=plan.patience_ms
        )
        try:
            async with asyncio.timeout((life_ms or plan.life_ms) / 1000):
                await self._take_over(producer)
                for _ in range(transactions):
                    await self._transact(producer)
            return True
        except (Over, TimeoutError):
            return False
        finally:
            producer.session.leave()

    async def _take_over(self, producer: TransactionalProducer) -> None:
        ongoing = await producer.introduce(keeping=True)
        self._owner = producer.name
        if ongoing in self._begun:
            await self._end(producer, self._begun[ongoing], commit=self._decided == ongoing)
        elif ongoing != (-1, -1):
            self._world.fault(f"{producer.name} was told of a transaction of {ongoing}, which nobody has begun")

    async def _transact(self, producer: TransactionalProducer) -> None:
        transaction = self._begun[producer.pair] = producer.begin()
        pair = producer.pair
        partitions = self._chance.sample(PARTITIONS, self._chance.choice((1, 2)))
        output: Output = {each: [[f"{transaction.name}.{index}"]] for index, each in enumerate(partitions)}
        try:
            is_full = await producer.fill(transaction, output)
        except GaveUp:
            is_full = False
        if self._chance.random() < 0.2:
            await asyncio.sleep(self._chance.random())
        commit = is_full and self._chance.random() < 0.8
        if commit:
            if self._owner != producer.name:
                raise Over("a newer instance has taken over")
            self._decided = pair
            transaction.decided = True
        if self._chance.random() < 0.3:
            raise Over("it dies, and what it has prepared stays")
        await self._end(producer, transaction, commit=commit)

    async def _end(self, producer: TransactionalProducer, transaction: Transaction, *, commit: bool) -> None:
        if transaction.instance != producer.name:
            transaction.ended_by.add(producer.name)
        await producer.end(transaction, commit=commit)
