"""Which partitions this broker leads, and how that follows the cluster."""

import asyncio
import errno
import gc
from itertools import pairwise
from typing import Any

import pytest
from data_broker import DataBroker, batch
from manual_clock import ManualClock, TickingClock
from waiting import settled

from eosin.broker import local_replicas, partitions
from eosin.broker.markers import FEW_MARKERS, MARKERS_AT_ONCE, LocalMarkers, MarkerRoutes
from eosin.coordinator.transactions.ports import MarkersForPartitions
from eosin.model.cluster import ConfigChange, PartitionState
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.scan import sound_batches
from eosin.runtime.turns import TURN_MS
from eosin.storage.manager import LogManager
from eosin.storage.results.log_results import Appended, AppendOrigin, Marker, Refused

pytestmark = pytest.mark.virtual

ORDERS = TopicPartition("orders", 0)


async def test_a_created_topics_logs_are_served_and_a_deleted_ones_are_not() -> None:
    broker = await DataBroker.started()
    assert broker.partitions.get(ORDERS) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topic = await broker.create_topic(partitions=2)
    log = broker.log()
    assert (log.topic_id, log.leader_epoch) == (topic.topic_id, broker.cluster.leader_epoch(ORDERS))
    await broker.cluster.delete_topic("orders")
    assert broker.partitions.get(ORDERS) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert log.unusable is not None
    again = await broker.create_topic()
    assert broker.log().topic_id == again.topic_id
    assert broker.log() is not log


async def test_added_partitions_are_served() -> None:
    broker = await DataBroker.started()
    await broker.create_topic()
    assert broker.partitions.get(TopicPartition("orders", 2)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await broker.cluster.create_partitions("orders", count=3)
    assert (await broker.produce(batch("a"), partition=2)).error_code == ErrorCode.NONE


async def test_a_partition_that_another_broker_leads_from_now_on_ends_the_fetches_that_wait_for_it() -> None:
    broker = await DataBroker.started()
    await broker.create_topic()
    before = broker.cluster.partition_state(ORDERS)
    assert before is not None
    waiting = asyncio.ensure_future(broker.fetch(0, max_wait_ms=60_000))
    await settled()
    assert not waiting.done()
    broker.replicas.partition_changed(ORDERS, before, before._replace(leader_id=2, leader_epoch=9))
    assert (await waiting).error_code != ErrorCode.NONE
    assert ORDERS not in dict(broker.partitions.hosted())


async def opened_in_turns(monkeypatch: pytest.MonkeyPatch) -> DataBroker:
    """A broker that opens two logs per turn of the event loop."""
    monkeypatch.setattr(local_replicas, "OPENED_PER_TURN", 2)
    return await DataBroker.started()


def opened(broker: DataBroker) -> list[int]:
    return [partition.partition for partition, _ in broker.partitions.hosted() if partition.topic == "orders"]


async def test_the_logs_of_many_partitions_are_opened_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = await opened_in_turns(monkeypatch)
    creating = asyncio.ensure_future(broker.cluster.create_topic("orders", partitions=9))
    counts = [0]
    while counts[-1] < 9:
        await asyncio.sleep(0)
        counts.append(len(opened(broker)))
    assert max(later - earlier for earlier, later in pairwise(counts)) == 2
    assert (await creating).error is ErrorCode.NONE
    assert opened(broker) == list(range(9))


async def test_a_log_that_is_asked_for_before_its_turn_is_opened_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = await opened_in_turns(monkeypatch)
    await broker.cluster.create_topic("orders", partitions=30)
    assert 29 not in opened(broker)
    assert broker.partitions.leader(TopicPartition("orders", 28)) == (
        broker.cluster.node_id,
        broker.cluster.leader_epoch(ORDERS),
    )
    assert (await broker.produce(batch("a"), partition=29)).error_code == ErrorCode.NONE
    log = broker.log(partition=29)
    assert broker.partitions.get(TopicPartition("orders", 30)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await settled()
    assert sorted(opened(broker)) == list(range(30))
    assert broker.log(partition=29) is log


async def test_a_topic_that_is_deleted_while_its_logs_are_opened_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = await opened_in_turns(monkeypatch)
    await broker.cluster.create_topic("orders", partitions=30)
    await broker.cluster.delete_topic("orders")
    again = await broker.create_topic(partitions=3)
    await settled()
    assert opened(broker) == [0, 1, 2]
    assert {broker.log(partition=index).topic_id for index in range(3)} == {again.topic_id}
    assert len(broker.logs.logs_of("orders")) == 3


async def test_settings_that_change_while_logs_are_opened_hold_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = await opened_in_turns(monkeypatch)
    await broker.cluster.create_topic("orders", partitions=30)
    await broker.cluster.alter_topic_configs("orders", [ConfigChange("max.message.bytes", "1000")])
    await settled()
    assert {broker.log(partition=index).config.max_message_bytes for index in range(30)} == {1000}


async def test_partitions_that_are_added_while_others_are_opened_are_opened_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = await opened_in_turns(monkeypatch)
    await broker.cluster.create_topic("orders", partitions=30)
    await broker.cluster.create_partitions("orders", count=40)
    assert (await broker.produce(batch("a"), partition=39)).error_code == ErrorCode.NONE
    await settled()
    assert sorted(opened(broker)) == list(range(40))


async def test_new_logs_are_kept_from_the_garbage_collector_where_all_logs_are(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[int] = []
    monkeypatch.setattr(partitions, "FROZEN_AT_ONCE", 4)
    broker = await DataBroker.started()
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(len(opened(broker))))
    await broker.create_topic(partitions=6)
    assert frozen == []
    broker.partitions.freeze()
    await broker.cluster.create_partitions("orders", count=15)
    assert frozen == [6, 10, 14]


async def test_logs_follow_their_topics_settings() -> None:
    broker = await DataBroker.started()
    await broker.create_topic(partitions=2, max_message_bytes="200")
    assert (await broker.produce(batch("x" * 300))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    await broker.cluster.alter_topic_configs("orders", [ConfigChange("max.message.bytes", "1000")])
    assert (await broker.produce(batch("x" * 300))).error_code == ErrorCode.NONE


async def test_a_failed_log_is_a_storage_error() -> None:
    broker = await DataBroker.started()
    await broker.create_topic()
    broker.log().fail(OSError(errno.EIO, "gone"))
    assert broker.partitions.get(ORDERS) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_file_system_that_cannot_be_asked_for_its_room_has_none_to_tell(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await DataBroker.started()

    async def fails(self: LogManager) -> Any:
        raise OSError(errno.EIO, "the disk is gone")

    monkeypatch.setattr(LogManager, "volume", fails)
    assert await broker.partitions.volume() is None
    assert "the disk is gone" in caplog.text


async def test_a_log_that_cannot_be_opened_is_a_storage_error_and_harms_nobody_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await DataBroker.started()
    create = LogManager.create_log

    def refuse_one(self: LogManager, partition: TopicPartition, *args: Any) -> Any:
        if partition.partition == 1:
            raise OSError(errno.EMFILE, "too many open files")
        return create(self, partition, *args)

    monkeypatch.setattr(LogManager, "create_log", refuse_one)
    await broker.create_topic(partitions=3)
    errors = [(await broker.produce(batch("a"), partition=index)).error_code for index in range(3)]
    assert errors == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    assert "orders-1" in caplog.text


async def test_a_partition_led_by_another_broker_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = await DataBroker.started()
    monkeypatch.setattr(broker.cluster, "leader_of", lambda _: 2)
    monkeypatch.setattr(broker.cluster, "_state_here", lambda: PartitionState(2, 0, (2,), (2,), ()))
    await broker.create_topic()
    assert broker.partitions.get(ORDERS) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert broker.marker_routes.target(ORDERS) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert broker.partitions.leader(ORDERS) == (2, -1)


async def test_a_marker_for_a_partition_that_another_broker_leads_goes_to_that_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = await DataBroker.started()
    await broker.create_topic()
    remote = LocalMarkers(broker.partitions, clock=broker.clock)

    class Others:
        def marker_target(self, node_id: int) -> LocalMarkers | ErrorCode:
            return remote if node_id == 2 else ErrorCode.LEADER_NOT_AVAILABLE

    routes = MarkerRoutes(broker.cluster, local=broker.services.markers, others=Others())
    assert routes.target(ORDERS) is broker.services.markers
    monkeypatch.setattr(broker.cluster, "leader_of", lambda _: 2)
    assert routes.target(ORDERS) is remote


async def test_records_are_there_again_after_a_restart_and_strays_are_set_aside(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = await DataBroker.started()
    await broker.create_topic()
    await broker.produce(batch("a"))
    stray = broker.logs.create_log(TopicPartition("stray", 0), b"s" * 16, broker.config.topic_defaults, 0)
    stray.append(batch("x"), now_ms=0)
    await broker.stop()
    again = await DataBroker.started(disk=broker.disk, clock=broker.clock)
    assert again.log().log_end_offset == 1
    assert again.log().leader_epoch > broker.cluster.leader_epoch(ORDERS)
    assert "stray-0" in caplog.text
    assert TopicPartition("stray", 0) not in again.logs.logs
    await again.stop()


# For the coordinators
# -----------------------------------------------------------------------------------------------------


async def test_coordinators_get_the_logs_that_this_broker_leads() -> None:
    broker = await DataBroker.started()
    logs = broker.partitions.transaction_state_logs
    assert logs.partition_count == 3
    log = logs.log(0)
    assert not isinstance(log, ErrorCode)
    assert logs.log(0) is log
    epoch = broker.cluster.leader_epoch(TopicPartition("__transaction_state", 0))
    assert (log.leader_epoch, log.log_end_offset, log.high_watermark) == (epoch, 0, 0)
    assert logs.log(3) is ErrorCode.NOT_COORDINATOR
    broker.log("__transaction_state").fail(OSError(errno.EIO, "gone"))
    assert logs.log(0) is ErrorCode.NOT_COORDINATOR


async def test_appends_of_a_coordinator_are_not_checked_like_those_of_clients() -> None:
    broker = await DataBroker.started()
    log = broker.partitions.consumer_offsets_logs.log(1)
    assert not isinstance(log, ErrorCode)
    # A client would have to be verified, and to go on with sequence 1.
    for _ in range(2):
        records = batch("offset", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        assert not isinstance(log.append(records, now_ms=0, origin=AppendOrigin.COORDINATOR), Refused)
    assert not isinstance(log.append_marker(Marker(7, 0, True, 0), now_ms=0), Refused)
    assert await log.durable(3) is ErrorCode.NONE
    assert [base for run in log.runs() for _, _, base, *_ in sound_batches(run)] == [0, 1, 2]


class FakeGroups:
    def __init__(self, *answers: ErrorCode) -> None:
        self.answers = list(answers)
        self.asked: list[int] = []

    async def write_markers(self, partition: int, marker: Marker) -> ErrorCode:
        self.asked.append(partition)
        return self.answers.pop(0)


async def test_markers_for_offsets_go_to_the_group_coordinator_whose_answers_become_a_partitions() -> None:
    broker = await DataBroker.started()
    await broker.create_topic()
    codes = [
        "NONE",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "KAFKA_STORAGE_ERROR",
    ]
    groups: Any = FakeGroups(*(ErrorCode[code] for code in codes))
    target = LocalMarkers(broker.partitions, clock=ManualClock())
    target.bind(groups)
    offsets = [TopicPartition("__consumer_offsets", index) for index in range(5)]
    answers = await target.write_markers([MarkersForPartitions(Marker(7, 0, True, 0), (ORDERS, *offsets))])
    assert groups.asked == [0, 1, 2, 3, 4]
    assert [answers[7, partition].name for partition in (ORDERS, *offsets)] == [
        "NONE",
        "NONE",
        *["NOT_LEADER_OR_FOLLOWER"] * 3,
        "KAFKA_STORAGE_ERROR",
    ]


async def test_the_markers_of_thousands_of_partitions_are_appended_some_hundreds_in_each_turn() -> None:
    count = 3 * MARKERS_AT_ONCE
    broker = await DataBroker.started()
    await broker.create_topic(partitions=count)
    partitions = tuple(TopicPartition("orders", index) for index in range(count))
    logs = [broker.log(partition=index) for index in range(count)]
    for log in logs:
        assert isinstance(log.append(batch("first"), now_ms=0), Appended)
    markers = [MarkersForPartitions(Marker(7, 0, True, 0), partitions)]
    writing = asyncio.ensure_future(LocalMarkers(broker.partitions, clock=broker.clock).write_markers(markers))
    counts = []
    while (before := sum(log.log_end_offset for log in logs)) < 2 * count:
        await asyncio.sleep(0)
        counts.append(sum(log.log_end_offset for log in logs) - before)
        assert len(counts) < count
    assert max(counts) <= MARKERS_AT_ONCE
    assert set((await writing).values()) == {ErrorCode.NONE}
    await broker.stop()


async def test_markers_that_take_long_are_appended_for_some_milliseconds_in_each_turn() -> None:
    """The first batch of a partition makes its files."""
    count = 8 * FEW_MARKERS
    broker = await DataBroker.started()
    await broker.create_topic(partitions=count)
    partitions = tuple(TopicPartition("orders", index) for index in range(count))
    logs = [broker.log(partition=index) for index in range(count)]
    markers = [MarkersForPartitions(Marker(7, 0, True, 0), partitions)]
    writing = asyncio.ensure_future(LocalMarkers(broker.partitions, clock=TickingClock()).write_markers(markers))
    counts = []
    while (before := sum(log.log_end_offset for log in logs)) < count:
        await asyncio.sleep(0)
        counts.append(sum(log.log_end_offset for log in logs) - before)
        assert len(counts) < count
    assert max(counts) <= FEW_MARKERS + TURN_MS
    assert set((await writing).values()) == {ErrorCode.NONE}
    await broker.stop()
