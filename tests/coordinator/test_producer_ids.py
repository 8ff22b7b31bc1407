"""Producer ids: never twice, and the next block in time."""

import asyncio

from coordinator_fakes import FakeBlocks
from manual_clock import ManualClock

from eosin.coordinator.transactions.producer_ids import ProducerIdBlocks
from eosin.runtime.chance import SeededChance


def blocks_of(source: FakeBlocks, clock: ManualClock | None = None) -> ProducerIdBlocks:
    return ProducerIdBlocks(source, clock=clock or ManualClock(), chance=SeededChance(1))


async def test_ids_are_consecutive_over_blocks_and_never_given_twice() -> None:
    source = FakeBlocks(size=10)
    blocks = blocks_of(source)
    await blocks.fill()
    assert [blocks.allocate() for _ in range(35)] == list(range(35))


async def test_the_next_block_is_asked_for_when_nine_tenths_are_used() -> None:
    source = FakeBlocks(size=10)
    blocks = blocks_of(source)
    await blocks.fill()
    for _ in range(8):
        blocks.allocate()
    assert source.asked == 1
    blocks.allocate()
    assert source.asked == 2
    blocks.allocate()
    assert source.asked == 2


async def test_while_a_block_is_on_its_way_there_is_no_id_and_only_one_request() -> None:
    source = FakeBlocks(size=10)
    source.gate = asyncio.Event()
    blocks = blocks_of(source)
    assert blocks.allocate() is None
    assert blocks.allocate() is None
    assert source.asked == 1
    source.gate.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert blocks.allocate() == 0


async def test_a_block_that_cannot_be_stored_is_asked_for_again_after_a_while() -> None:
    source, clock = FakeBlocks(size=10), ManualClock()
    source.broken = True
    blocks = blocks_of(source, clock)
    await blocks.fill()
    assert blocks.allocate() is None
    assert source.asked == 1
    source.broken = False
    clock.advance(70)
    assert source.asked == 2
    assert blocks.allocate() == 0


async def test_a_block_that_failed_late_is_asked_for_again_too() -> None:
    source, clock = FakeBlocks(size=10), ManualClock()
    source.broken = True
    source.gate = asyncio.Event()
    blocks = blocks_of(source, clock)
    filling = asyncio.ensure_future(blocks.fill())
    await asyncio.sleep(0)
    source.gate.set()
    await filling
    assert blocks.allocate() is None
    source.broken = False
    clock.advance(70)
    await asyncio.sleep(0)
    assert blocks.allocate() == 0


async def test_a_block_that_was_given_before_is_refused() -> None:
    source, clock = FakeBlocks(size=10), ManualClock()
    blocks = blocks_of(source, clock)
    await blocks.fill()
    source.next_id = 0
    taken = [blocks.allocate() for _ in range(12)]
    assert taken == [*range(10), None, None]
    source.next_id = 10
    clock.advance(70)
    assert blocks.allocate() == 10


async def test_the_rest_of_a_block_is_not_used_by_the_next_process() -> None:
    source = FakeBlocks(size=10)
    first, second = blocks_of(source), blocks_of(source)
    await first.fill()
    assert first.allocate() == 0
    await second.fill()
    assert second.allocate() == 10


async def test_after_the_end_nothing_is_asked_for() -> None:
    source, clock = FakeBlocks(size=10), ManualClock()
    source.broken = True
    blocks = blocks_of(source, clock)
    await blocks.fill()
    blocks.stop()
    clock.advance(10_000)
    assert source.asked == 1
