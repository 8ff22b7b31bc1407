"""A real broker on a real disk that fills up: a small tmpfs, which only root may mount.

What needs no real disk is shown without root by `tests/storage/test_full_disk.py`.
"""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from broker_process import BrokerProcess
from small_disk import NotMounted, fill, small_disk
from waiting import HANG_S, until
from wire import Wire, data_offsets, now_ms, unique
from wire_group import commit_offset, fetch_offset
from wire_producer import transactional

from eosin.client.http import get
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch

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


def mounted(place: Path, *, mebibytes: int) -> Iterator[Path]:
    try:
        with small_disk(place, mebibytes=mebibytes) as disk:
            yield disk
    except NotMounted as failure:
        pytest.skip(str(failure))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    yield from mounted(tmp_path / "disk", mebibytes=4)


@pytest.fixture
def larger_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 9 MiB, which holds a few segments of the smallest size that a topic may have."""
    yield from mounted(tmp_path / "disk", mebibytes=9)


async def told(process: BrokerProcess, path: str, text: str) -> bool:
    """Whether the HTTP listener answers that."""
    answer = await get(f"http://{process.http_address}/{path}", timeout_ms=10_000)
    return answer.status == 200 and text in answer.body.decode()


@pytest.mark.parametrize("durability", ["os", "fsync"])
async def test_a_full_disk_refuses_writes_and_serves_reads_until_there_is_space(disk: Path, durability: str) -> None:
    process = BrokerProcess(disk / "data", durability=durability, settings=SETTINGS)
    process.options = ("--http", "0")
    with process:
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
        assert await told(process, "metrics", "eosin_disk_full 1.0")
        assert await told(process, f"api/v1/partitions/{partition}", '"is_disk_full":true')
        assert await told(process, "readyz", '"ready":true'), "readers go on"
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
        await until(lambda: told(process, "metrics", "eosin_disk_full 0.0"))
        async with asyncio.timeout(HANG_S):
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


async def fill_with_records(wire: Wire, partition: TopicPartition, process: BrokerProcess) -> None:
    """Produce until that is refused."""
    large = build_batch([NewRecord(b"k", bytes(200_000))], timestamp=now_ms())
    for _ in range(200):
        if (await wire.produce(partition, large)).error_code != NONE:
            return
    raise AssertionError(f"the disk does not fill up: {process.log}")


async def taken(wire: Wire, partition: TopicPartition, batch: Any) -> None:
    """Produce until that is taken, a few times a second."""

    async def is_taken() -> bool:
        return (await wire.produce(partition, batch)).error_code == NONE

    await until(is_taken, every_s=0.2)


@pytest.mark.parametrize("durability", [pytest.param("os", marks=pytest.mark.full), "fsync"])
async def test_retention_frees_a_full_disk_by_itself(larger_disk: Path, durability: str) -> None:
    """With the usual `log.retention.check.interval.ms` and `file.delete.delay.ms`, which are minutes."""
    with BrokerProcess(larger_disk, durability=durability, settings=SETTINGS) as process:
        wire = await Wire.open(process.address)
        partition = await wire.partition(retention_bytes="1000000", segment_bytes="1048576")
        producer = await transactional(wire)
        batch = build_batch([NewRecord(b"k", bytes(200_000))], timestamp=now_ms())
        await fill_with_records(wire, partition, process)

        for _ in range(2):  # it is full again and again
            await fill_with_records(wire, partition, process)
            await taken(wire, partition, batch)
        await producer.append(partition)
        assert (await producer.end(commit=True)).error_code == NONE
        assert "is offline" not in process.log
        assert "Traceback" not in process.log
        assert len(process.log.splitlines()) < 30, process.log
        await wire.close()
        assert process.stop() == 0


async def test_a_deleted_topic_frees_a_full_disk_at_once(larger_disk: Path) -> None:
    with BrokerProcess(larger_disk, settings=SETTINGS) as process:
        wire = await Wire.open(process.address)
        other, partition = await wire.partition(), await wire.partition()
        await fill_with_records(wire, partition, process)
        fill(larger_disk / "ballast")
        await wire.delete_topic(partition.topic)
        small = build_batch([NewRecord(b"k", b"v")], timestamp=now_ms())
        await taken(wire, other, small)
        assert not [name for name in os.listdir(larger_disk) if name.startswith(partition.topic)]
        await wire.close()
        assert process.stop() == 0


@pytest.mark.parametrize("killed", [False, True])
async def test_a_broker_stops_and_starts_on_a_full_disk(larger_disk: Path, killed: bool) -> None:
    process = BrokerProcess(larger_disk, durability="fsync", settings=SETTINGS).start()
    wire = await Wire.open(process.address)
    partitions = [await wire.partition() for _ in range(3)]
    small = build_batch([NewRecord(b"k", b"v")], timestamp=now_ms())
    for partition in partitions:
        assert (await wire.produce(partition, small)).error_code == NONE
    await fill_with_records(wire, partitions[0], process)
    fill(larger_disk / "ballast")
    for _ in range(50):
        assert (await wire.produce(partitions[1], small)).error_code in (NONE, ErrorCode.KAFKA_STORAGE_ERROR)
    await wire.close()
    if killed:
        process.kill()
    else:
        assert process.stop() == 0, process.log
        assert (larger_disk / ".kafka_cleanshutdown").exists()
    for _ in range(2):
        fill(larger_disk / "ballast-2")
        process.start()
        wire = await Wire.open(process.address)
        for partition in partitions:
            assert data_offsets((await wire.fetch(partition)).records)[0] == 0
        await wire.delete_topic(partitions.pop().topic)
        await wire.close()
        assert process.stop() == 0, process.log
    assert "Traceback" not in process.log
    assert len(process.log.splitlines()) < 40, process.log


def test_a_start_on_a_completely_full_disk_says_to_remove_other_files(disk: Path) -> None:
    fill(disk / "ballast")
    process = BrokerProcess(disk, settings=SETTINGS)
    with pytest.raises(AssertionError, match=r"no space left on its file system.*remove what else is on it"):
        process.start()
