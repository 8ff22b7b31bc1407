"""Producers of both versions, their zombies, a log that refuses, lingers and doubts, slow markers, time and restarts:
all in an order that a seed decides.

Whatever the order: a transaction is visible in all its partitions or in none, as its producer was told if it was told
anything; nothing stays open; and no pair is ever given to two instances.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from coordinator_fakes import ORDERS_0, ORDERS_1, PAYMENTS_0, FakeBroker, Producer

from eosin.coordinator.transactions.rules.state import LAST_CLIENT_EPOCH, TransactionState
from eosin.protocol.errors import ErrorCode

pytestmark = pytest.mark.virtual

PARTITIONS = (ORDERS_0, ORDERS_1, PAYMENTS_0)
STEPS = 150
SHORT = 10
"""Seeds of `make test`; the others are left to `make gate`."""
REFUSALS = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.MESSAGE_TOO_LARGE)
DOUBTS = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


class Instance:
    """One instance of an application: it runs transactions until it is fenced or told to end."""

    def __init__(self, world: "World", name: str, number: int) -> None:
        self.world = world
        self.number = number
        self.producer = Producer(world.broker, name, client_transaction_version=world.random.choice((0, 2)))
        self.producer.timeout_ms = world.random.choice((500, 60_000))
        self.transactions = 0

    async def run(self) -> None:
        if not await self.settled(self.producer.init):
            return
        while not self.world.over and await self.transaction():
            pass

    async def transaction(self) -> bool:
        self.transactions += 1
        value = f"{self.producer.transactional_id}/{self.number}/{self.transactions}"
        partitions = self.world.random.sample(PARTITIONS, self.world.random.randint(1, len(PARTITIONS)))
        if not await self.settled(lambda: self.producer.add(*partitions)):
            return False
        written = [partition for partition in partitions if await self.written(partition, value)]
        commit = len(written) == len(partitions) and self.world.random.random() < 0.7
        self.world.wrote[value] = written
        if self.world.random.random() < 0.1:
            # It loses its thread and asks for a new epoch in the middle.
            pair = self.producer.pair
            self.world.told[value] = False
            return await self.settled(lambda: self.producer.init(pair))
        if not await self.settled(self.producer.commit if commit else self.producer.abort):
            return False
        self.world.told[value] = commit
        return True

    async def written(self, partition: object, value: str) -> bool:
        for _ in range(3):
            answer = self.producer.produce(partition, value)  # type: ignore[arg-type]
            if answer is ErrorCode.NONE:
                return True
            await asyncio.sleep(0)
        return False

    async def settled(self, request: Callable[[], Awaitable[ErrorCode]]) -> bool:
        """Send until the answer is final; whether it was NONE."""
        while True:
            await asyncio.sleep(0)
            answer = await request()
            if answer is ErrorCode.NONE:
                self.world.given(self)
                return True
            if not answer.retriable and answer is not ErrorCode.UNKNOWN_SERVER_ERROR:
                return False
            if self.world.over:
                return False


class World:
    """Everything that happens under one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.broker = FakeBroker()
        self.over = False
        self.wrote: dict[str, list[object]] = {}
        self.told: dict[str, bool] = {}
        self._owners: dict[tuple[int, int], Instance] = {}
        self._instances: dict[asyncio.Task[None], Instance] = {}
        self._actions = (
            self.begin,
            self.begin,
            self.hold,
            self.release,
            self.release,
            self.refuse,
            self.doubt,
            self.slow,
            self.finish,
            self.finish,
            self.wait,
            self.wait,
            self.restart,
            self.age,
        )

    def given(self, instance: Instance) -> None:
        owner = self._owners.setdefault(instance.producer.pair, instance)
        assert owner is instance, f"{instance.producer.pair} was given to two instances"
        assert instance.producer.producer_epoch <= LAST_CLIENT_EPOCH

    async def run(self) -> None:
        await self.broker.start()
        for _ in range(STEPS):
            action = self.random.choice(self._actions)()
            if action is not None:
                await action
            for _ in range(self.random.randint(0, 8)):
                await asyncio.sleep(0)
        await self.end()

    async def end(self) -> None:
        self.over = True
        log = self.broker.log
        log.refusals, log.uncertain, log.held = [], [], False
        await self.broker.restart()
        log.release()
        self.broker.partitions.finish()
        await self.broker.clock.run(200_000)
        await asyncio.gather(*self._instances)

    def begin(self) -> None:
        name = self.random.choice(("tx-a", "tx-b"))
        instance = Instance(self, name, len(self._instances))
        self._instances[asyncio.ensure_future(instance.run())] = instance

    def age(self) -> None:
        """An id comes close to the last epoch of its producer id."""
        for name in ("tx-a", "tx-b"):
            entry = self.broker.transactions.entry(name)
            if entry is not None and entry.txn.is_at_rest and not entry.txn.is_fresh:
                epoch = max(entry.txn.producer_epoch, LAST_CLIENT_EPOCH - self.random.randint(0, 5))
                entry.txn = msgspec.structs.replace(entry.txn, producer_epoch=epoch, last_epoch=-1)

    def hold(self) -> None:
        self.broker.log.held = True

    def release(self) -> None:
        self.broker.log.held = False
        self.broker.log.release()

    def refuse(self) -> None:
        self.broker.log.refusals.append(self.random.choice(REFUSALS))

    def doubt(self) -> None:
        if not self.broker.log.held:
            self.broker.log.uncertain.append(self.random.choice(DOUBTS))

    def slow(self) -> None:
        self.broker.partitions.slow = True

    def finish(self) -> None:
        self.broker.partitions.finish()

    def wait(self) -> None:
        self.broker.clock.advance(self.random.choice((1, 6, 30, 600)))

    def restart(self) -> Awaitable[object] | None:
        if self.random.random() < 0.5:
            return None
        if self.random.random() < 0.5:
            self.broker.log.lose_unsynced()
        self.broker.log.uncertain = []
        self.broker.log.held = False
        return self.broker.restart()

    def check(self) -> None:
        assert {txn.state for txn in self.broker.log.contents().values()} <= {
            TransactionState.EMPTY,
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        }
        committed = {partition: set(self.broker.partitions[partition].committed) for partition in PARTITIONS}
        for partition in PARTITIONS:
            assert self.broker.partitions[partition].open == {}
        for value, written in self.wrote.items():
            seen = [partition for partition in written if value in committed[partition]]  # type: ignore[index]
            assert seen in ([], written), f"half of {value} is visible"
            if value in self.told and written:
                assert bool(seen) is self.told[value], f"{value} is not what its producer was told"


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=() if seed < SHORT else pytest.mark.full) for seed in range(30)]
)
async def test_in_any_order_transactions_hold(seed: int) -> None:
    world = World(seed)
    await world.run()
    world.check()
