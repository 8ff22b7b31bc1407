"""A real broker on a real disk that fills up: a small tmpfs, which only root may mount."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from small_disk import NotMounted, fill, small_disk
from wire import Wire, data_offsets, unique, until
from wire_group import commit_offset, fetch_offset
from wire_producer import transactional

from eosin.protocol.errors import ErrorCode
from eosin.protocol.records import NewRecord, build_batch

NONE = ErrorCode.NONE
RETRIABLE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
SETTINGS = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}

pytestmark = pytest.mark.slow


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    try:
        with small_disk(tmp_path / "disk", mebibytes=4) as place:
            yield place
    except NotMounted as failure:
        pytest.skip(str(failure))


@pytest.mark.parametrize("durability", ["os", "fsync"])
async def test_a_full_disk_refuses_writes_and_serves_reads_until_there_is_space(disk: Path, durability: str) -> None:
    with BrokerProcess(disk / "data", durability=durability, settings=SETTINGS) as process:
        wire = await Wire.open(process.address)
        partition, group = await wire.partition(), unique("group")
        producer = await transactional(wire)
        first = await producer.append(partition)
        assert await producer.commit_offsets(group, partition, 5) == NONE

        ballast = disk / "ballast"
        fill(ballast)
        batch = build_batch([NewRecord(b"k", bytes(20_000))], timestamp=1)
        assert (await wire.produce(partition, batch)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert data_offsets((await wire.fetch(partition)).records) == [first]
        ended = asyncio.ensure_future(producer.end(commit=True))
        stored = asyncio.ensure_future(commit_offset(wire, unique("group"), partition, 1))
        done, _ = await asyncio.wait((ended, stored), timeout=1)
        for each in done:
            result = each.result()
            code = result if isinstance(result, ErrorCode) else ErrorCode(result.error_code)
            assert code in RETRIABLE or code is NONE, code

        async def is_committed() -> bool:
            return await commit_offset(wire, group + "-2", partition, 1) is NONE

        ballast.unlink()
        await asyncio.wait((ended, stored))
        async with asyncio.timeout(10):
            answer = ended.result()
            while answer.error_code != NONE:
                assert ErrorCode(answer.error_code) in RETRIABLE
                await asyncio.sleep(0.1)
                answer = await producer.end(commit=True)
            await until(is_committed)
        await producer.completed()
        assert (await wire.produce(partition, batch)).error_code == NONE
        assert await fetch_offset(wire, group, partition, require_stable=True) == [(NONE, 5)]
        assert "is offline" not in process.log
        await wire.close()
