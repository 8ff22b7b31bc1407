"""Retention on the wire: the records it removes, and that it waits for open transactions."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from virtual_broker import own_broker
from waiting import until
from wire import EARLIEST, Wire, data_offsets
from wire_producer import transactional

from eosin.protocol.names import TopicPartition

pytestmark = pytest.mark.virtual

LOOKS_EVERY_MS = 20


@pytest.fixture
async def looking(tmp_path: Path) -> AsyncIterator[str]:
    """A broker that looks for old segments all the time."""
    settings = {"log.retention.check.interval.ms": str(LOOKS_EVERY_MS)}
    async with own_broker(tmp_path / "data", settings) as broker:
        yield broker.address


@pytest.fixture
async def looking_wire(looking: str) -> AsyncIterator[Wire]:
    opened = await Wire.open(looking)
    yield opened
    await opened.close()


async def until_taken(wire: Wire, partition: TopicPartition, offset: int) -> None:
    """Wait until retention has taken everything before `offset`."""

    async def is_taken() -> bool:
        return (await wire.list_offset(partition, EARLIEST)).offset >= offset

    await until(is_taken)


@pytest.mark.parametrize("limit", [{"retention_ms": "1"}, {"retention_bytes": "1"}])
@pytest.mark.parametrize("level", [1, 2])
async def test_retention_keeps_undecided_records_however_old_they_are(
    looking_wire: Wire, level: int, limit: dict[str, str]
) -> None:
    wire = looking_wire
    partition = await wire.partition(internal_segment_bytes="150", **limit)  # two records to a segment, at most
    for _ in range(4):
        await wire.append(partition)
    producer = await transactional(wire, level=level)
    if level == 1:
        await producer.add(partition)
    assert await producer.append(partition) == 4
    for _ in range(4):
        await wire.append(partition)
    await until_taken(wire, partition, 3)
    await asyncio.sleep(5 * LOOKS_EVERY_MS / 1000)
    assert await wire.stable_offset(partition) == 4
    assert data_offsets((await wire.fetch(partition, 4)).records)[0] == 4
    await producer.commit()
    await wire.append(partition)
    await until_taken(wire, partition, 8)


@pytest.mark.parametrize("level", [1, 2])
async def test_retention_deletes_old_records_once_they_are_committed(looking_wire: Wire, level: int) -> None:
    """Retention goes by what producers say. The marker that follows has the time of now, and a segment of its own."""
    wire = looking_wire
    partition = await wire.partition()
    producer = await transactional(wire, level=level)
    if level == 1:
        await producer.add(partition)
    assert await producer.append(partition, timestamp=1) == 0
    await asyncio.sleep(5 * LOOKS_EVERY_MS / 1000)
    assert (await wire.list_offset(partition, EARLIEST)).offset == 0
    await producer.commit()
    await until_taken(wire, partition, 1)
