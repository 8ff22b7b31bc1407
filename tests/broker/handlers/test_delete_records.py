"""DeleteRecords over real logs."""

import asyncio
import errno
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest
from data_broker import DataBroker, batch, settle

from eosin.broker.handlers import delete_records
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from eosin.runtime.turns import TURN_MS
from eosin.storage.checkpoints.recovery_points import OffsetCheckpoints
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.manager import LogManager

API = delete_records.API


async def broker_with_records(**configs: str) -> DataBroker:
    broker = await DataBroker.started()
    await broker.create_topic(partitions=2, **configs)
    await broker.produce(batch("a", "b"))
    await broker.produce(batch("c"))
    return broker


def request(*offsets: int, topic: str = "orders", timeout_ms: int = 1000) -> DeleteRecordsRequest:
    partitions = tuple(DeleteRecordsPartition(index, offset) for index, offset in enumerate(offsets))
    return DeleteRecordsRequest((DeleteRecordsTopic(topic, partitions),), timeout_ms)


async def delete(broker: DataBroker, asked: DeleteRecordsRequest, version: int = 2) -> list[tuple[str, int]]:
    response = await broker.call(API, asked, version)
    return [(ErrorCode(each.error_code).name, each.low_watermark) for each in response.topics[0].partitions]


@pytest.mark.parametrize("version", API.versions)
async def test_the_start_moves_to_the_offset_or_to_the_high_watermark(version: int) -> None:
    broker = await broker_with_records()
    assert await delete(broker, request(1), version) == [("NONE", 1)]
    assert (await broker.fetch(0)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert await delete(broker, request(0), version) == [("NONE", 1)]
    assert await delete(broker, request(-1, -1), version) == [("NONE", 3), ("NONE", 0)]


async def test_an_offset_that_cannot_be_is_out_of_range() -> None:
    broker = await broker_with_records()
    assert await delete(broker, request(4)) == [("OFFSET_OUT_OF_RANGE", -1)]
    assert await delete(broker, request(-2)) == [("OFFSET_OUT_OF_RANGE", -1)]
    broker.flusher.held = True
    writing = broker.begin_produce(batch("d"))
    assert await delete(broker, request(4)) == [("OFFSET_OUT_OF_RANGE", -1)]
    broker.flusher.release()
    await writing
    assert await delete(broker, request(4)) == [("NONE", 4)]


async def test_compacted_and_internal_topics_keep_their_records() -> None:
    broker = await broker_with_records(cleanup_policy="compact")
    assert await delete(broker, request(1)) == [("POLICY_VIOLATION", -1)]
    assert await delete(broker, request(0, topic="__consumer_offsets")) == [("INVALID_TOPIC_EXCEPTION", -1)]
    assert await delete(broker, request(0, topic="nowhere")) == [("UNKNOWN_TOPIC_OR_PARTITION", -1)]


@pytest.mark.parametrize("timeout_ms", [-1, 0, 1000])
async def test_a_save_under_way_is_awaited_however_short_the_timeout(
    monkeypatch: pytest.MonkeyPatch, timeout_ms: int
) -> None:
    broker = await broker_with_records()
    gate = asyncio.Event()
    save = LogManager.save_log_starts

    async def slow(self: LogManager) -> None:
        await gate.wait()
        await save(self)

    monkeypatch.setattr(LogManager, "save_log_starts", slow)
    deleting = asyncio.create_task(delete(broker, request(1, 7, timeout_ms=timeout_ms)))
    await settle()
    broker.clock.advance(60_000)
    await settle()
    assert not deleting.done()
    gate.set()
    assert await deleting == [("NONE", 1), ("OFFSET_OUT_OF_RANGE", -1)]


async def test_the_partitions_of_a_request_share_one_save(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = await broker_with_records()
    await broker.create_topic("many", partitions=50)
    saves = 0
    save = LogManager.save_log_starts

    async def counted(self: LogManager) -> None:
        nonlocal saves
        saves += 1
        await save(self)

    monkeypatch.setattr(LogManager, "save_log_starts", counted)
    assert await delete(broker, request(*[0] * 50, topic="many")) == [("NONE", 0)] * 50
    assert saves == 1
    assert await delete(broker, request(-1, 7)) == [("NONE", 3), ("OFFSET_OUT_OF_RANGE", -1)]
    assert saves == 2


async def test_a_save_that_fails_is_told_for_each_partition_that_it_was_for() -> None:
    broker = await broker_with_records()
    with patch.object(OffsetCheckpoints, "save_log_starts", side_effect=OSError(errno.EIO, "injected")):
        assert await delete(broker, request(1, 7)) == [("KAFKA_STORAGE_ERROR", -1), ("OFFSET_OUT_OF_RANGE", -1)]
    assert await delete(broker, request(1)) == [("NONE", 1)]


async def test_the_starts_of_many_partitions_are_moved_a_few_in_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 4 * TURN_MS
    broker = await DataBroker.started()
    await broker.create_topic("many", partitions=count)
    moved, turns = 0, list[int]()
    move = PartitionLog.move_start_before

    def slow(self: PartitionLog, offset: int) -> ErrorCode:
        nonlocal moved
        moved += 1
        broker.clock.pause(1)
        return move(self, offset)

    monkeypatch.setattr(PartitionLog, "move_start_before", slow)
    deleting = asyncio.ensure_future(delete(broker, request(*[0] * count, topic="many")))
    while moved < count:
        turns.append(moved)
        await asyncio.sleep(0)
    assert max(after - before for before, after in pairwise(turns)) <= TURN_MS
    assert await deleting == [("NONE", 0)] * count


async def test_nothing_to_delete_is_nothing_to_wait_for() -> None:
    broker = await broker_with_records()
    response = await broker.call(API, DeleteRecordsRequest((), 1000), 2)
    assert response.topics == ()


def test_a_refusal_reaches_every_partition() -> None:
    context: Any = None
    response = API.refuse(request(1, 2), context, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert [(each.partition_index, each.error_code) for each in response.topics[0].partitions] == [(0, -1), (1, -1)]
