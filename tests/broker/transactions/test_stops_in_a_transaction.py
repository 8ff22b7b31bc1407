"""The process ends at every call to the disk that a script of transactions makes (transactions.md 13.1 case 9): real
coordinators over real logs, and a client that sends again what was not answered.

After it every request has a final answer, a transaction is seen in all of its partitions and offsets or in none, and
nothing stays open.
"""

import asyncio
from typing import Any

import pytest
from data_broker import DataBroker
from manual_clock import ManualClock
from wire import Wire, key_of, now_ms
from wire_group import fetch_offset
from wire_producer import RawProducer, transactional

from eosin.broker.handlers.registry import BY_KEY
from eosin.client.read_committed import FetchedRecords
from eosin.lab.disk.lying_disk import LyingDisk, Stopped
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.types import Message

pytestmark = pytest.mark.virtual

NONE = ErrorCode.NONE
LEFT, RIGHT = TopicPartition("orders", 0), TopicPartition("orders", 1)
GROUP = "readers"
BUSY = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)
"""What makes a client send again."""
ATTEMPTS = 20


class MortalWire(Wire):
    """A connection to a broker that ends at one call to its disk, and is there again at the next request."""

    def __init__(self, broker: DataBroker, disk: LyingDisk) -> None:
        self.broker = broker
        self.disk = disk
        self.deaths = 0
        self._topic_ids: dict[str, bytes] = {}

    @classmethod
    async def started(cls) -> "MortalWire":
        """With a topic of two partitions, and a disk that has not ended anything yet."""
        disk = LyingDisk()
        broker = await DataBroker.started(disk=disk, clock=ManualClock(now_ms()))  # type: ignore[arg-type]
        await broker.create_topic("orders", partitions=2)
        return cls(broker, disk)

    async def ask(self, message: Message, version: int) -> Any:
        """The answer that a client acts upon."""
        for _ in range(ATTEMPTS):
            try:
                answer = await self._once(message, version)
            except Stopped:
                await self._restart()
                continue
            if not _codes(answer) & BUSY:
                return answer
            await self.broker.clock.run(100)
        raise AssertionError(f"no answer to {message}")

    async def _once(self, message: Message, version: int) -> Any:
        asking = asyncio.ensure_future(self.broker.call(BY_KEY[key_of(message)], message, version))
        for _ in range(1000):
            await asyncio.sleep(0)
            if asking.done():
                return asking.result()
            if self.disk.stop_at is not None and len(self.disk.calls) > self.disk.stop_at:
                break
            await self.broker.clock.run(1)
        asking.cancel()
        raise Stopped

    async def _restart(self) -> None:
        self.deaths += 1
        self.disk = self.disk.killed()
        self.broker = await DataBroker.started(disk=self.disk, clock=self.broker.clock)  # type: ignore[arg-type]


def _codes(answer: Any) -> set[int]:
    """Every error code in an answer, however deep."""
    if isinstance(answer, Message):
        found = set()
        for name in answer.__struct_fields__:
            value = getattr(answer, name)
            found |= {value} if name.endswith("error_code") else _codes(value)
        return found
    if isinstance(answer, tuple):
        return set().union(*map(_codes, answer))
    return set()


async def transaction(producer: RawProducer, offset: int) -> None:
    """Records in both partitions, and the group's offset."""
    if producer.level == 1:
        assert await producer.add(LEFT, RIGHT) == NONE
        assert await producer.add_offsets(GROUP) == NONE
    for partition in (LEFT, RIGHT):
        await producer.append(partition)
    assert await producer.commit_offsets(GROUP, LEFT, offset) == NONE


async def script(wire: Wire, level: int) -> None:
    """A commit, an abort, a commit, and a transaction that a new instance interrupts."""
    producer = await transactional(wire, "tx", level=level)
    for offset, commit in ((3, True), (4, False), (5, True)):
        await transaction(producer, offset)
        assert (await producer.end(commit=commit)).error_code == NONE
    await transaction(producer, 6)
    successor = await transactional(wire, "tx", level=level)
    assert (await producer.end(commit=True)).error_code == ErrorCode.PRODUCER_FENCED
    assert successor.pair > producer.pair


async def check(wire: MortalWire, partition: TopicPartition) -> None:
    await wire.broker.clock.run(2000)
    found = await wire.fetch_committed(partition)
    assert found.last_stable_offset == found.high_watermark, "nothing is open"
    read = [each.offset for each in FetchedRecords(found.records, from_offset=0, aborted=found.aborted_transactions)]
    everything = [
        each.offset for each in FetchedRecords((await wire.fetch(partition)).records, from_offset=0, aborted=())
    ]
    assert len(everything) == 4, "each record once"
    assert read == [everything[0], everything[2]]
    assert await fetch_offset(wire, GROUP, partition, require_stable=True) == [(NONE, 5 if partition == LEFT else -1)]


@pytest.mark.parametrize("level", [pytest.param(1, marks=pytest.mark.full), 2])
async def test_a_stop_at_any_call_to_the_disk_leaves_no_transaction_half_done(level: int) -> None:
    whole = await MortalWire.started()
    before = len(whole.disk.calls)
    await script(whole, level)
    total = len(whole.disk.calls) - before
    assert total > 50
    for stop_at in range(total):
        wire = await MortalWire.started()
        wire.disk.stop_at = len(wire.disk.calls) + stop_at
        await script(wire, level)
        for partition in (LEFT, RIGHT):
            await check(wire, partition)
        assert wire.deaths == 1, stop_at
