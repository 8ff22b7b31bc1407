"""What a real broker makes of its data directory after kill -9, and of one that somebody has damaged meanwhile."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from filled_directory import TOPIC, filled_directory
from waiting import until
from wire import LATEST, Wire, data_offsets, unique
from wire_group import commit_offset, fetch_offset
from wire_producer import RawProducer, idempotent, transactional

from eosin.coordinator.hashing import partition_for
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

NONE = ErrorCode.NONE
FEW = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
SMALL_SEGMENTS = {"segment_bytes": str(1024 * 1024)}

pytestmark = pytest.mark.slow


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", settings=FEW) as process:
        yield process


class Life:
    """A broker that is killed and started again, and a connection to the one that runs."""

    def __init__(self, process: BrokerProcess) -> None:
        self.process = process
        self.wires: list[Wire] = []

    async def wire(self) -> Wire:
        self.wires.append(await Wire.open(self.process.address))
        return self.wires[-1]

    async def killed(self) -> None:
        await self.close()
        self.process.kill()

    async def again(self) -> Wire:
        self.process.start()
        return await self.wire()

    async def close(self) -> None:
        for each in self.wires:
            await each.close()
        self.wires.clear()

    def segment(self, partition: TopicPartition, base: int = 0) -> Path:
        return self.process.data_dir / str(partition) / f"{base:020d}.log"


@pytest.fixture
async def life(broker: BrokerProcess) -> AsyncIterator[Life]:
    each = Life(broker)
    yield each
    await each.close()


def flip(path: Path, position: int) -> None:
    """Flip the bits of one byte."""
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)


def on(wire: Wire, producer: RawProducer) -> RawProducer:
    """The same producer after a reconnect."""
    producer.wire = wire
    return producer


async def test_a_retry_of_each_of_the_last_five_batches_is_still_a_duplicate(life: Life) -> None:
    wire = await life.wire()
    partition = await wire.partition()
    producer = await idempotent(wire)
    batches = [producer.batch(partition, 2) for _ in range(7)]
    for batch in batches:
        assert (await producer.resend(partition, batch)).error_code == NONE
    await life.killed()
    wire = await life.again()
    on(wire, producer)
    for index, batch in list(enumerate(batches))[-5:]:
        answer = await producer.resend(partition, batch)
        assert (answer.error_code, answer.base_offset) == (NONE, 2 * index)
    older = await producer.resend(partition, batches[0])
    assert older.error_code in (NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert await wire.end_offset(partition) == 14
    assert await producer.append(partition) == 14


async def test_the_leader_epoch_grows_with_every_start(life: Life) -> None:
    wire = await life.wire()
    partition = await wire.partition()
    epochs = []
    for _ in range(3):
        await wire.append(partition)
        epochs.append((await wire.list_offset(partition, LATEST)).leader_epoch)
        await life.killed()
        wire = await life.again()
    assert epochs == sorted(set(epochs))


async def test_a_restart_finishes_every_decided_transaction_with_its_outcome(tmp_path: Path) -> None:
    directory = tmp_path / "filled"
    filled_directory(directory, transactions=300, ids=30, partitions=2, record_bytes=20, undecided=12, aborting=6)
    with BrokerProcess(directory) as process:
        life = Life(process)
        wire = await life.wire()
        for index in range(2):
            partition = TopicPartition(TOPIC, index)
            end = 150 * 2  # each transaction is one record and one marker
            await wire.until_stable(partition, end)
            found = await wire.fetch_committed(partition, partition_max_bytes=1 << 20)
            offsets = data_offsets(found.records)
            assert len(offsets) == 150
            aborted = found.aborted_transactions or ()
            assert sorted(each.first_offset for each in aborted) == offsets[-3:]
        for index in range(30):
            assert await fetch_offset(wire, f"copier-{index}", TopicPartition(TOPIC, index % 2)) == [(NONE, 7)]
        await life.close()


async def test_group_offsets_of_an_open_transaction_are_pending_until_its_marker(life: Life) -> None:
    wire = await life.wire()
    partition, group = await wire.partition(), unique("group")
    assert await commit_offset(wire, group, partition, 3) == NONE
    producer = await transactional(wire)
    await producer.append(partition)
    assert await producer.commit_offsets(group, partition, 8) == NONE
    await life.killed()
    wire = await life.again()
    assert await fetch_offset(wire, group, partition, require_stable=True) == [(ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)]
    assert await wire.stable_offset(partition) == 0
    await on(wire, producer).commit()

    async def is_visible() -> bool:
        return await fetch_offset(wire, group, partition, require_stable=True) == [(NONE, 8)]

    await until(is_visible)
    await wire.until_stable(partition, 2)


async def test_a_torn_tail_is_cut_with_one_line_and_kept_aside(life: Life) -> None:
    wire = await life.wire()
    partition = await wire.partition()
    for _ in range(5):
        await wire.append(partition)
    await life.killed()
    path = life.segment(partition)
    whole = path.read_bytes()
    torn = whole[: len(whole) // 5][:-9]
    path.write_bytes(whole + torn)
    wire = await life.again()
    lines = [line for line in life.process.log.splitlines() if path.name in line]
    assert len(lines) == 1, lines
    assert f"no valid batch at byte {len(whole)} (offset 5): the last {len(torn)} bytes are cut off" in lines[0]
    (aside,) = path.parent.glob("*.truncated-*")
    assert aside.read_bytes() == torn
    assert path.read_bytes() == whole
    assert await wire.append(partition) == 5


@pytest.mark.parametrize("where", ["the middle", "the end"])
async def test_a_flipped_byte_takes_its_partition_offline_and_no_other(life: Life, where: str) -> None:
    wire = await life.wire()
    partition, sound = await wire.partition(), await wire.partition()
    for _ in range(5):
        await wire.append(partition)
        await wire.append(sound)
    await life.killed()
    path = life.segment(partition)
    before = path.read_bytes()
    flip(path, len(before) // 2 if where == "the middle" else len(before) - 2)
    spoilt = path.read_bytes()
    wire = await life.again()
    assert re.search(
        rf"{partition.topic}-0 is offline: .*{path.name} is damaged: .* at byte \d+ \(offset \d\)", life.process.log
    )
    assert (await wire.fetch(partition)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    refused = await wire.produce(partition, (await idempotent(wire)).batch(partition))
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert await wire.append(sound) == 5
    assert path.read_bytes() == spoilt
    await life.killed()
    path.write_bytes(before)  # as a restored copy does
    wire = await life.again()
    assert await wire.append(partition) == 5


@pytest.mark.parametrize("is_clean", [True, False], ids=["after a clean stop", "after kill -9"])
async def test_a_missing_segment_takes_its_partition_offline_and_no_other(life: Life, is_clean: bool) -> None:
    wire = await life.wire()
    partition, sound = await wire.partition(**SMALL_SEGMENTS), await wire.partition()
    for _ in range(30):
        await wire.append(partition, size=100_000)
    if is_clean:
        await life.close()
        life.process.stop()
    else:
        await life.killed()
    segments = sorted(life.segment(partition).parent.glob("*.log"))
    assert len(segments) >= 3
    segments[1].unlink()
    wire = await life.again()
    start, end = int(segments[1].stem), int(segments[2].stem)
    missed = rf"(offsets {start}\.\.{end - 1} are missing|something between them is missing)"
    assert re.search(rf"{partition.topic}-0 is offline: .*{missed}", life.process.log)
    assert (await wire.fetch(partition)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert await wire.append(sound) == 0


async def test_a_damaged_transaction_partition_sends_its_ids_away_and_serves_the_others(life: Life) -> None:
    wire = await life.wire()
    partition = await wire.partition()
    names = {partition_for(name, 2): name for name in (f"tx-{index}" for index in range(20))}
    for name in names.values():
        producer = await transactional(wire, name)
        await producer.append(partition)
        await producer.commit()
    await life.killed()
    path = life.segment(TopicPartition("__transaction_state", 0))
    flip(path, path.stat().st_size // 2)
    wire = await life.again()
    assert (await wire.init(names[0])).error_code == ErrorCode.NOT_COORDINATOR
    assert (await wire.init(names[1])).error_code == NONE
    assert "__transaction_state-0 is offline" in life.process.log


async def test_a_damaged_offsets_partition_sends_its_groups_away_and_serves_the_others(life: Life) -> None:
    wire = await life.wire()
    partition = await wire.partition()
    names = {partition_for(name, 2): name for name in (f"group-{index}" for index in range(20))}
    for name in names.values():
        for offset in range(5):
            assert await commit_offset(wire, name, partition, offset) == NONE
    await life.killed()
    path = life.segment(TopicPartition("__consumer_offsets", 1))
    flip(path, path.stat().st_size // 2)
    wire = await life.again()
    asked = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(names[1], topics=None),))
    answer = await wire.ask(asked, 8)
    assert answer.groups[0].error_code == ErrorCode.NOT_COORDINATOR
    assert await fetch_offset(wire, names[0], partition) == [(NONE, 4)]
    assert "__consumer_offsets-1 is offline" in life.process.log


async def test_a_broker_with_damaged_metadata_does_not_start_and_says_why(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path / "data", settings=FEW).start()
    wire = await Wire.open(process.address)
    for _ in range(3):
        await wire.topic()
    await wire.close()
    process.kill()
    path = process.data_dir / "__eosin_metadata-0" / f"{0:020d}.log"
    flip(path, path.stat().st_size // 2)
    with pytest.raises(AssertionError, match="did not start"):
        process.start()
    assert "cannot use the data directory" in process.log
    assert "is damaged" in process.log
