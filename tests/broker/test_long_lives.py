"""A whole broker through weeks of its clock, which only the test moves: what is unused goes, what is compacted stays
right, also after a restart."""

import asyncio
from typing import Any

import pytest
from manual_clock import ManualClock
from waiting import settled, until
from wire import EARLIEST, Wire, data_offsets, now_ms, unique
from wire_group import RawMember, commit_offset, fetch_offset
from wire_producer import RawProducer, idempotent, transactional

from eosin.client.read_committed import FetchedRecords
from eosin.lab.disk.lying_disk import LyingDisk
from eosin.node.node import Node
from eosin.node.running import RunningNode
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from eosin.protocol.records.batch import NewRecord, batches, build_batch, iter_records
from eosin.settings.broker import BrokerConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.manager import LogManager

pytestmark = pytest.mark.process

NONE = ErrorCode.NONE
DAY_MS = 86_400_000
TEN_YEARS_MS = 3650 * DAY_MS
FEW: dict[str, Any] = {"transaction_state_log_num_partitions": 1, "offsets_topic_num_partitions": 1}


class Broker:
    """A broker on a disk that outlives it."""

    def __init__(self) -> None:
        self.clock = ManualClock(now_ms())
        self.disk = LyingDisk(self.clock.now_ms)
        self.server: RunningNode | None = None
        self.ticking: asyncio.Task[None] | None = None

    async def _tick(self) -> None:
        """A millisecond now and then: some answers wait for one."""
        while True:
            await asyncio.sleep(0.001)
            self.clock.advance(1)

    async def start(self) -> Wire:
        self.ticking = asyncio.create_task(self._tick())
        config = BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), log_dirs=("/data",), eosin_durability="os", **FEW)
        self.server = await Node.alone(config, clock=self.clock, disk=self.disk).start()
        return await Wire.open(self.server.addresses[0])

    async def stop(self, wire: Wire) -> None:
        await wire.close()
        assert self.server is not None
        assert self.ticking is not None
        assert await self.server.shutdown()
        self.ticking.cancel()
        self.server = None

    @property
    def logs(self) -> LogManager:
        assert self.server is not None
        manager: LogManager = self.server.services.partitions._log_manager
        return manager

    def log(self, partition: TopicPartition) -> PartitionLog:
        return self.logs.logs[partition]

    async def pass_by(self, ms: int) -> None:
        """Let time pass, in one jump; whatever came due has run afterwards."""
        self.clock.advance(ms)
        for _ in range(3):  # rounds that wait for one another: rolls, checkpoints, compaction, deletions
            await settled()
            self.clock.advance(20_000)
        await settled()


async def test_unused_records_ids_and_groups_expire_by_the_clock_alone_and_stay_so_after_a_restart() -> None:
    broker = Broker()
    wire = await broker.start()
    partition, kept = await wire.partition(retention_ms=str(DAY_MS)), await wire.partition(retention_ms="-1")
    name, group = unique("tx"), unique("group")
    writer = await idempotent(wire)
    await writer.append(partition)
    producer = await transactional(wire, name)
    await producer.append(kept)
    await producer.commit()
    assert await commit_offset(wire, group, partition, 1) == NONE

    async def forgotten() -> dict[str, bool]:
        assert broker.server is not None
        services = broker.server.services
        return {
            "transactional id": services.transactions.describe(name) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
            "producers": not (broker.log(partition).producers() or broker.log(kept).producers()),
            "offset": await fetch_offset(wire, group, partition) == [(NONE, -1)],
            "records": (await wire.list_offset(partition, EARLIEST)).offset == 1,
        }

    assert not any((await forgotten()).values())
    await broker.pass_by(DAY_MS - 3_600_000)
    assert not any((await forgotten()).values()), "one hour less than a day is not enough for anything"
    await broker.pass_by(3_600_000 + 600_000)
    assert [what for what, is_gone in (await forgotten()).items() if is_gone] == ["producers", "records"]
    await broker.pass_by(7 * DAY_MS)
    assert all((await forgotten()).values()), await forgotten()
    for internal in (TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC):
        log = broker.log(TopicPartition(internal, 0))
        values = [
            record.value
            for batch in log.batches()
            for _, header in batches(batch)
            if not header.is_control
            for record in iter_records(batch)
        ]
        assert values[-1] is None, "there is a tombstone"
    assert (await wire.list_offset(kept, EARLIEST)).offset == 0
    await broker.stop(wire)
    wire = await broker.start()
    assert all((await forgotten()).values()), await forgotten()
    again = await transactional(wire, name)
    assert again.producer_id != producer.producer_id
    await broker.stop(wire)


async def test_a_wall_clock_that_jumps_ten_years_ahead_and_back_takes_only_what_is_old() -> None:
    """What goes by stored timestamps goes (docs/guarantees.md, After a pause); what is open stays, and what was in use
    a moment ago."""
    broker = Broker()
    wire = await broker.start()
    partition, kept = await wire.partition(retention_ms=str(DAY_MS)), await wire.partition(retention_ms="-1")
    idle, busy, pending = unique("idle"), unique("busy"), unique("pending")
    member = RawMember(await Wire.open(wire_address(broker)), busy)
    await member.joined(session_timeout_ms=1_800_000)
    await member.sync({member.member_id: b"everything"})
    membership = {"member_id": member.member_id, "generation_id_or_member_epoch": member.generation}
    assert await commit_offset(wire, idle, partition, 1) == NONE
    assert await commit_offset(wire, busy, partition, 1, **membership) == NONE
    await wire.append(partition)
    producer = await transactional(wire, timeout_ms=900_000)
    for each in (partition, kept):
        await producer.append(each)
    assert await producer.commit_offsets(pending, partition, 2) == NONE

    broker.clock.ahead_ms += TEN_YEARS_MS
    await broker.pass_by(610_000)  # retention, expiry of producers and of offsets have each looked
    assert [(await wire.list_offset(each, EARLIEST)).offset for each in (partition, kept)] == [0, 0]
    assert [await wire.stable_offset(each) for each in (partition, kept)] == [1, 0], "it is still open"
    assert await fetch_offset(wire, idle, partition) == [(NONE, 1)]
    assert await fetch_offset(wire, busy, partition) == [(NONE, 1)]
    assert await member.heartbeat() == NONE
    for each in (partition, kept):
        await producer.append(each)
    await producer.commit()
    await wire.until_stable(partition, 4)
    await wire.until_stable(kept, 3)
    assert data_offsets((await wire.fetch_committed(kept)).records) == [0, 1]
    assert await fetch_offset(wire, pending, partition) == [(NONE, 2)]
    producer = await transactional(wire, timeout_ms=900_000)  # one that begins ten years later than it ends
    await producer.append(kept, timestamp=broker.clock.now_ms())

    broker.clock.ahead_ms = 0
    await broker.pass_by(610_000)
    assert (await wire.list_offset(kept, EARLIEST)).offset == 0
    assert await wire.stable_offset(kept) == 3
    await producer.append(kept)
    await producer.commit()
    await wire.until_stable(kept, 6)
    assert data_offsets((await wire.fetch_committed(kept)).records) == [0, 1]
    assert data_offsets((await wire.fetch_committed(kept, 3)).records) == [3, 4], "of a segment of its own"
    assert await fetch_offset(wire, busy, partition) == [(NONE, 1)]
    assert await member.heartbeat() == NONE
    await member.wire.close()
    await broker.stop(wire)


async def test_a_transaction_that_began_ten_years_from_now_times_out_after_a_restart_as_any_other() -> None:
    broker = Broker()
    broker.clock.ahead_ms += TEN_YEARS_MS
    wire = await broker.start()
    partition = await wire.partition()
    producer = await transactional(wire, timeout_ms=600_000)
    await producer.append(partition)
    await broker.stop(wire)
    broker.clock.ahead_ms = 0
    wire = await broker.start()
    await broker.pass_by(500_000)
    assert await wire.stable_offset(partition) == 0
    await broker.pass_by(100_000)
    await wire.until_stable(partition, 2)
    await broker.stop(wire)


async def test_with_a_wall_clock_ten_years_back_nothing_is_lost_and_records_from_the_future_are_refused() -> None:
    broker = Broker()
    wire = await broker.start()
    partition, group = await wire.partition(retention_ms=str(DAY_MS)), unique("group")
    producer, single = await transactional(wire, timeout_ms=900_000), await idempotent(wire)
    await single.append(partition)
    await producer.append(partition)
    assert await commit_offset(wire, group, partition, 1) == NONE
    broker.clock.ahead_ms -= TEN_YEARS_MS
    await broker.pass_by(610_000)
    batch = single.batch(partition, timestamp=now_ms())
    assert (await single.resend(partition, batch)).error_code == ErrorCode.INVALID_TIMESTAMP
    batch = single.batch(partition, sequence=1, timestamp=broker.clock.now_ms())
    assert (await single.resend(partition, batch)).error_code == NONE
    assert (await single.resend(partition, batch)).base_offset == 2, "it is known to be a repetition"
    await producer.commit()
    await wire.until_stable(partition, 4)
    assert data_offsets((await wire.fetch_committed(partition)).records) == [0, 1, 2]
    assert await fetch_offset(wire, group, partition) == [(NONE, 1)]
    await broker.stop(wire)


def wire_address(broker: Broker) -> str:
    """Where it listens."""
    assert broker.server is not None
    return broker.server.addresses[0]


def keyed(producer: RawProducer, partition: TopicPartition, key: str, value: bytes | None) -> bytearray:
    """The next batch of a producer: one record."""
    sequence = producer.sequences.get(partition, 0)
    producer.sequences[partition] = sequence + 1
    return build_batch(
        [NewRecord(key.encode(), value)],
        timestamp=now_ms(),
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=sequence,
        transactional=producer.transactional_id is not None,
    )


async def table(wire: Wire, partition: TopicPartition) -> dict[str, bytes | None]:
    """The latest committed value of each key, tombstones included, as a consumer from the beginning sees it."""
    found: dict[str, bytes | None] = {}
    offset, end = (await wire.list_offset(partition, EARLIEST)).offset, await wire.stable_offset(partition)
    while offset < end:
        answer = await wire.fetch_committed(partition, offset, partition_max_bytes=4 << 20)
        assert answer.error_code == NONE
        assert answer.records, offset
        fetched = FetchedRecords(answer.records, from_offset=offset, aborted=answer.aborted_transactions or ())
        found |= {(record.key or b"").decode(): record.value for record in fetched}
        offset = fetched.next_offset
    return found


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_compacted_topic_keeps_what_was_committed_last_and_a_retry_of_it_is_a_duplicate(
    restarted: bool,
) -> None:
    broker = Broker()
    wire = await broker.start()
    partition = await wire.partition(
        cleanup_policy="compact",
        segment_bytes=str(1 << 20),
        min_cleanable_dirty_ratio="0.01",
        delete_retention_ms=str(DAY_MS),
    )
    writer = await idempotent(wire)
    written = [keyed(writer, partition, "key-0", b"of no transaction") for _ in range(5)]
    bases = [(await writer.resend(partition, batch)).base_offset for batch in written]
    producer = await transactional(wire, unique("tx"), level=1)
    expected: dict[str, bytes | None] = {}
    for number in range(40):
        key, value = f"key-{number % 5}", None if number == 37 else bytes([number]) * 60_000
        await producer.add(partition)
        assert (await producer.resend(partition, keyed(producer, partition, key, value))).error_code == NONE
        if number % 4 == 3:
            await producer.abort()
        else:
            await producer.commit()
            expected[key] = value
    filler = await transactional(wire, unique("tx"), level=1)
    for _ in range(20):
        await filler.add(partition)
        assert (await filler.resend(partition, keyed(filler, partition, "filler", b"f" * 60_000))).error_code == NONE
        await filler.commit()
    expected["filler"] = b"f" * 60_000
    assert await table(wire, partition) == expected
    log = broker.log(partition)
    before = log.size_bytes
    if restarted:
        await broker.stop(wire)
        wire = await broker.start()
        writer.wire = wire
        log = broker.log(partition)

    async def is_small() -> bool:
        await broker.pass_by(60_000)
        return log.size_bytes < before / 2

    await until(is_small)
    assert await table(wire, partition) == expected
    assert expected["key-2"] is None
    end = await wire.end_offset(partition)
    for batch, base in zip(written, bases, strict=True):
        again = await writer.resend(partition, batch)
        assert (again.error_code, again.base_offset) == (NONE, base), "known, although no record of it is left"
    assert await wire.end_offset(partition) == end
    await broker.stop(wire)
