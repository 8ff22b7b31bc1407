"""The cleaner gets at the records of any batch without holding up the event loop."""

from collections.abc import Callable
from typing import Any

import pytest
from hostile_batches import T, empty_tables, many_blocks, many_members, many_records, much_inflated

from eosin.protocol.records.batch import NewRecord, build_batch, read_header
from eosin.protocol.records.compression import MAX_DECOMPRESSED_BYTES, Compression, CorruptRecords
from eosin.storage.compaction.payload import LARGE_BYTES, payload_of, read_at_once
from eosin.storage.disk.memory import MemoryDisk


class CountingDisk(MemoryDisk):
    """Counts what a thread is asked for."""

    computed = 0

    async def compute(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.computed += 1
        return function(*args, **kwargs)


@pytest.mark.parametrize(
    ("hostile", "in_a_thread"),
    [
        (much_inflated(8 << 20), True),
        (many_members(500), False),
        (many_blocks(6000), True),
        (many_members(2000), True),
        (many_records(1000), False),
    ],
    ids=["bytes", "500 members", "blocks", "2000 members", "records"],
)
async def test_few_bytes_that_cost_much_are_decompressed_in_a_thread(hostile: bytes, in_a_thread: bool) -> None:
    disk, header = CountingDisk(), read_header(hostile)
    assert header.size < LARGE_BYTES or in_a_thread
    assert in_a_thread or header.records_count > 500 or read_at_once(header, memoryview(hostile)) is not None
    assert not in_a_thread or read_at_once(header, memoryview(hostile)) is None
    assert await payload_of(disk, header, memoryview(hostile))
    assert disk.computed == in_a_thread


async def test_a_stream_without_records_is_damage_wherever_it_is_read() -> None:
    damaged = empty_tables(100)
    with pytest.raises(CorruptRecords):
        read_at_once(read_header(damaged), memoryview(damaged))


async def test_a_batch_that_inflates_beyond_64_mib_is_no_damage() -> None:
    value = bytes(MAX_DECOMPRESSED_BYTES + 1)
    batch = build_batch([NewRecord(b"k", value)], timestamp=T, compression=Compression.SNAPPY)
    payload = await payload_of(MemoryDisk(), read_header(batch), memoryview(batch))
    assert len(payload) > MAX_DECOMPRESSED_BYTES
