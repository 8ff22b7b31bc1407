"""A data directory that becomes read-only under a running broker, as after a remount or an error of the device.

Root may write whatever permissions say, so these are mounts; only root may make them.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from read_only_disk import Mount, kept_by_another, mount
from small_disk import NotMounted
from waiting import HANG_S, wait_until
from wire import Wire, data_offsets, now_ms, records
from wire_group import commit_offset
from wire_producer import transactional

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch

NONE = ErrorCode.NONE
FEW = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
REFUSED = "cannot use the data directory {}: Read-only file system"

pytestmark = pytest.mark.slow


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Mount]:
    """A directory that can become read-only, and is not in the end."""
    (tmp_path / "disk" / "data").mkdir(parents=True)
    with mount(tmp_path / "disk") as made:
        yield made


@pytest.fixture
def image(place: Mount, tmp_path: Path) -> Iterator[Path]:
    """What the file system of that directory is made of. It is also in the mounts of another process: the kernel does
    not forget its error when it is gone here."""
    made = tmp_path / "image"
    try:
        place.put(made, mebibytes=128)
        with kept_by_another():
            yield made
    except NotMounted as failure:
        pytest.skip(str(failure))


def broker_on(place: Mount, durability: str) -> BrokerProcess:
    """A broker whose data is there, and whose log is not."""
    (place.place / "data").mkdir(exist_ok=True)
    link = place.place.parent / "data"
    link.symlink_to(place.place / "data")
    return BrokerProcess(link, durability=durability, settings=FEW)


async def work(wire: Wire, partitions: list[TopicPartition]) -> int:
    """Five records in each partition, and a committed one in the first; how many the first has."""
    for _ in range(5):
        for partition in partitions:
            await wire.append(partition)
    producer = await transactional(wire)
    await producer.append(partitions[0])
    await producer.commit()
    await producer.completed()
    return 6


def stopped_with_a_sentence(process: BrokerProcess) -> None:
    assert process.stop() == 1, "not everything could be saved"
    assert "the last files could not be written, and the next start recovers: [Errno 30]" in process.log
    for _ in range(2):
        with pytest.raises(AssertionError, match="did not start"):
            process.start()
        assert process.log.splitlines()[-1] == "eosin serve: " + REFUSED.format(process.data_dir)
    assert "Traceback" not in process.log
    assert len(process.log.splitlines()) < 30, process.log


async def has(process: BrokerProcess, counts: dict[TopicPartition, int]) -> None:
    """A start finds so many records, and everything works."""
    process.start()
    wire = await Wire.open(process.address)
    for partition, count in counts.items():
        found = await wire.fetch_committed(partition, partition_max_bytes=8 << 20)
        assert found.error_code == NONE
        assert len(data_offsets(found.records)) == count, partition
    await work(wire, list(counts))
    assert await commit_offset(wire, "group", next(iter(counts)), 1) == NONE
    await wire.close()
    assert process.stop() == 0, process.log
    assert "Traceback" not in process.log


@pytest.mark.parametrize("durability", ["os", "fsync"])
async def test_on_a_read_only_disk_acknowledged_records_are_kept_and_the_broker_names_the_cause(
    place: Mount, durability: str
) -> None:
    process = broker_on(place, durability).start()
    wire = await Wire.open(process.address)
    try:
        plain, rolling = await wire.partition(), await wire.partition(segment_bytes="1048576")
        count = await work(wire, [plain, rolling])
        try:
            place.cover()
        except NotMounted as failure:
            pytest.skip(str(failure))
        large = build_batch([NewRecord(b"k", bytes(200_000))], timestamp=now_ms())
        taken = 5
        while (answer := await wire.produce(rolling, large)).error_code == NONE:
            taken += 1
            assert taken < 50, "a segment was rolled"
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await wire.append(plain)  # its file is open
        async with asyncio.timeout(HANG_S):
            assert await commit_offset(wire, "group", plain, 1) != NONE
        wait_until(lambda: "checkpoints failed; the broker goes on: [Errno 30]" in process.log)
        assert f"{rolling} is offline: [Errno 30] Read-only file system" in process.log
    finally:
        await wire.close()
        if not place.is_mounted:
            process.stop()
    stopped_with_a_sentence(process)
    place.remove()
    await has(process, {plain: count + 1, rolling: taken})


async def test_a_failing_file_system_takes_logs_offline_and_loses_no_synced_record(place: Mount, image: Path) -> None:
    process = broker_on(place, "fsync").start()
    wire = await Wire.open(process.address)
    partitions = [await wire.partition() for _ in range(2)]
    count = await work(wire, partitions)
    producer = await transactional(wire)
    await producer.append(partitions[1])
    try:
        place.fail()
    except NotMounted as failure:
        process.stop()
        pytest.skip(str(failure))
    batch = build_batch(records(1), timestamp=now_ms())
    for partition in partitions:
        assert (await wire.produce(partition, batch)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert f"{partition} is offline: [Errno 30]" in process.log
    async with asyncio.timeout(HANG_S):
        assert ErrorCode((await producer.end(commit=True)).error_code).retriable
        assert await commit_offset(wire, "group", partitions[0], 1) != NONE
    await wire.close()
    stopped_with_a_sentence(process)
    place.remove()
    place.put_copy(image)
    await has(process, {partitions[0]: count, partitions[1]: 5})
