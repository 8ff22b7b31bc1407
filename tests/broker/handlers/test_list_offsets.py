"""ListOffsets over real logs."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from data_broker import DataBroker, batch, settle
from hostile_batches import many_headers

from eosin.broker.handlers import list_offsets
from eosin.model.principals import Principal
from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.records.budget import HEADER_WORK
from eosin.protocol.records.compression import Compression
from eosin.protocol.schemas.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from eosin.security.session import Session
from eosin.storage.disk.memory import MemoryDisk

T = 1_700_000_000_000


async def broker_with_records() -> DataBroker:
    """Offsets 0 to 3 at T, T+20, T+10, T+30."""
    broker = await DataBroker.started()
    await broker.create_topic(partitions=2)
    for delay in (0, 20, 10, 30):
        await broker.produce(batch("v", timestamp=T + delay))
    return broker


async def look_up(
    broker: DataBroker, timestamp: int, *, version: int = 11, isolation: int = 0, **fields: Any
) -> ListOffsetsPartitionResponse:
    partition = ListOffsetsPartition(0, timestamp=timestamp, **fields)
    request = ListOffsetsRequest(-1, isolation, (ListOffsetsTopic("orders", (partition,)),))
    response = await broker.call(list_offsets.API, request, version)
    answer: ListOffsetsPartitionResponse = response.topics[0].partitions[0]
    return answer


@pytest.mark.parametrize("version", list_offsets.API.versions)
async def test_every_version_finds_the_end_the_start_and_a_time(version: int) -> None:
    broker = await broker_with_records()
    epoch = broker.log().leader_epoch if version >= 4 else -1
    for timestamp, expected in (
        (list_offsets.LATEST, (-1, 4, epoch)),
        (list_offsets.EARLIEST, (-1, 0, epoch)),
        (T + 15, (T + 20, 1, epoch)),
        (0, (T, 0, epoch)),
        (T + 31, (-1, -1, -1)),
    ):
        found = await look_up(broker, timestamp, version=version)
        assert found.error_code == ErrorCode.NONE
        assert (found.timestamp, found.offset, found.leader_epoch) == expected


async def test_the_largest_timestamp_is_found_at_its_first_record() -> None:
    broker = await broker_with_records()
    await broker.produce(batch("v", timestamp=T + 5))
    found = await look_up(broker, list_offsets.MAX_TIMESTAMP)
    assert (found.timestamp, found.offset) == (T + 30, 3)


async def test_an_empty_log_has_no_largest_timestamp() -> None:
    broker = await DataBroker.started()
    await broker.create_topic()
    found = await look_up(broker, list_offsets.MAX_TIMESTAMP)
    assert (found.error_code, found.timestamp, found.offset) == (ErrorCode.NONE, -1, -1)


async def test_without_tiers_everything_is_local() -> None:
    broker = await broker_with_records()
    await broker.log().delete_records_before(2)
    assert (await look_up(broker, list_offsets.EARLIEST_LOCAL)).offset == 2
    tiered = await look_up(broker, list_offsets.LATEST_TIERED)
    assert (tiered.error_code, tiered.offset, tiered.leader_epoch) == (ErrorCode.NONE, -1, -1)
    pending = await look_up(broker, list_offsets.EARLIEST_PENDING_UPLOAD)
    assert (pending.error_code, pending.offset, pending.leader_epoch) == (ErrorCode.NONE, -1, -1)


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11), (-9, 11)])
async def test_a_special_timestamp_that_the_version_does_not_know_is_unsupported(timestamp: int, version: int) -> None:
    found = await look_up(await broker_with_records(), timestamp, version=version)
    assert (found.error_code, found.offset) == (ErrorCode.UNSUPPORTED_VERSION, -1)


async def test_a_record_that_is_not_durable_is_not_found() -> None:
    broker = await broker_with_records()
    broker.flusher.held = True
    writing = broker.begin_produce(batch("v", timestamp=T + 99))
    assert (await look_up(broker, list_offsets.LATEST)).offset == 4
    assert (await look_up(broker, T + 99)).offset == -1
    assert (await look_up(broker, list_offsets.MAX_TIMESTAMP)).offset == -1
    broker.flusher.release()
    await writing
    assert (await look_up(broker, T + 99)).offset == 4


async def test_a_client_that_poses_as_a_replica_is_refused() -> None:
    broker = await broker_with_records()
    broker.flusher.held = True
    writing = broker.begin_produce(batch("v", timestamp=T + 99))
    asked = ListOffsetsPartition(0, timestamp=list_offsets.LATEST)
    for replica_id in (0, 2):
        request = ListOffsetsRequest(replica_id, 0, (ListOffsetsTopic("orders", (asked,)),))
        answer = (await broker.call(list_offsets.API, request, 11)).topics[0].partitions[0]
        assert (answer.error_code, answer.offset) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)
    broker.flusher.release()
    await writing


async def test_a_request_to_any_replica_gets_the_end_of_the_log() -> None:
    broker = await broker_with_records()
    broker.flusher.held = True
    writing = broker.begin_produce(batch("v", timestamp=T + 99))
    asked = ListOffsetsPartition(0, timestamp=list_offsets.LATEST)
    request = ListOffsetsRequest(list_offsets.ANY_REPLICA, 0, (ListOffsetsTopic("orders", (asked,)),))
    answer = (await broker.call(list_offsets.API, request, 11)).topics[0].partitions[0]
    assert (answer.error_code, answer.offset) == (ErrorCode.NONE, 5)
    broker.flusher.release()
    await writing


async def test_leader_epochs_are_checked() -> None:
    broker = await broker_with_records()
    broker.log().leader_epoch = 5
    assert (await look_up(broker, -1, current_leader_epoch=4)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (await look_up(broker, -1, current_leader_epoch=6)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await look_up(broker, -1, current_leader_epoch=5)).leader_epoch == 5


async def test_unknown_and_doubled_partitions_are_refused_one_by_one() -> None:
    broker = await broker_with_records()
    asked = tuple(ListOffsetsPartition(index, timestamp=-1) for index in (0, 1, 7, 1))
    request = ListOffsetsRequest(-1, 0, (ListOffsetsTopic("orders", asked), ListOffsetsTopic("nowhere", asked[:1])))
    response = await broker.call(list_offsets.API, request, 7)
    answered = [ErrorCode(each.error_code).name for topic in response.topics for each in topic.partitions]
    unknown = "UNKNOWN_TOPIC_OR_PARTITION"
    assert answered == ["NONE", "INVALID_REQUEST", unknown, "INVALID_REQUEST", unknown]


def test_a_refusal_reaches_every_partition() -> None:
    request = ListOffsetsRequest(topics=(ListOffsetsTopic("orders", (ListOffsetsPartition(3),)),))
    context: Any = None
    response = list_offsets.API.refuse(request, context, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert [(each.partition_index, each.error_code) for each in response.topics[0].partitions] == [(3, -1)]


class HeldDisk(MemoryDisk):
    """A disk whose threads finish when the test says so, and tell who wanted them."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[asyncio.Future[None]] | None = None

    async def compute(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.held is not None:
            self.held.append(asyncio.get_running_loop().create_future())
            await self.held[-1]
        return function(*args, **kwargs)


def begin(broker: DataBroker, timestamp: int, user: str = "someone") -> Any:
    request = ListOffsetsRequest(-1, 0, (ListOffsetsTopic("orders", (ListOffsetsPartition(0, timestamp=timestamp),)),))
    return broker.begin(list_offsets.API, request, 11, session=Session(principal=Principal("User", user)))


def offset_of(begun: Any) -> int:
    answer: ListOffsetsPartitionResponse = begun.result().topics[0].partitions[0]
    return answer.offset


@pytest.mark.parametrize("timestamp", [T, list_offsets.MAX_TIMESTAMP])
async def test_records_are_looked_at_in_a_thread_and_in_turns_of_users(timestamp: int) -> None:
    disk = HeldDisk()
    broker = await DataBroker.started(disk=disk)
    await broker.create_topic()
    await broker.produce(batch("v", timestamp=T))
    disk.held = []
    many = [begin(broker, timestamp, "mallory") for _ in range(5)]
    other = begin(broker, timestamp, "other")
    for done in range(2):
        await settle()
        assert len(disk.held) == done + 1
        assert not other.done()
        disk.held[done].set_result(None)
    await settle()
    assert offset_of(other) == 0
    assert sum(each.done() for each in many) == 1
    assert not isinstance(begin(broker, list_offsets.LATEST), asyncio.Future), "nothing is looked at"


async def test_a_search_that_costs_too_much_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = await broker_with_records()
    await broker.produce(many_headers(100_000))
    monkeypatch.setattr(list_offsets, "SEARCH_WORK", 1000 * HEADER_WORK)
    assert (await look_up(broker, T)).offset == 0
    assert (await look_up(broker, T + 31)).error_code == ErrorCode.NONE
    newest = await DataBroker.started()
    await newest.create_topic()
    await newest.produce(many_headers(100_000))
    assert (await look_up(newest, list_offsets.MAX_TIMESTAMP)).error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_a_batch_that_cannot_be_read_is_an_error_of_its_partition(caplog: pytest.LogCaptureFixture) -> None:
    broker = await broker_with_records()
    file = broker.log().segments.active.file
    file.content[61:70] = b"\xff" * 9
    found = await look_up(broker, T)
    assert found.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "orders-0" in caplog.text
    assert "Traceback" not in caplog.text


async def test_a_batch_that_inflates_beyond_64_mib_is_searched() -> None:
    broker = await DataBroker.started()
    await broker.create_topic(max_message_bytes=str(128 << 20))
    large = build_batch([NewRecord(b"k", bytes(65 << 20), T)], timestamp=T, compression=Compression.SNAPPY)
    assert (await broker.produce(large)).error_code == ErrorCode.NONE
    found = await look_up(broker, T)
    assert (found.error_code, found.offset, found.timestamp) == (ErrorCode.NONE, 0, T)
