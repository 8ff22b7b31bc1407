"""Transactions where their data is: produced, verified, marked and read, with the real coordinator over real logs.

Names that start with b and a number are the defects of transactions.md 13, cases those of 13.1.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from data_broker import DataBroker, batch, settle

from eosin.broker.handlers import list_offsets
from eosin.client.read_committed import FetchedRecords
from eosin.coordinator.transactions.ports import MarkersForPartitions, MarkerTarget
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.protocol.schemas.fetch import PartitionData
from eosin.protocol.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from eosin.protocol.schemas.produce import PartitionProduceResponse
from eosin.storage.results.log_results import Marker, ReadResult

READ_COMMITTED = 1


class Producer:
    """A transactional producer: version 1 adds its partitions before it writes, version 2 as it writes."""

    def __init__(self, broker: DataBroker, transactional_id: str = "tx", *, transaction_version: int = 2) -> None:
        self.broker = broker
        self.transactional_id = transactional_id
        self.transaction_version = transaction_version
        self.produce_version = 12 if transaction_version == 2 else 10
        self.producer_id = self.producer_epoch = -1
        self._next: dict[int, int] = {}

    async def init(self) -> "Producer":
        result = await self.broker.transactions.init_producer_id(
            self.transactional_id, timeout_ms=60_000, producer_id=-1, producer_epoch=-1
        )
        assert result.error is ErrorCode.NONE
        self._take(result.producer_id, result.producer_epoch)
        return self

    def _take(self, producer_id: int, producer_epoch: int) -> None:
        if (producer_id, producer_epoch) != (self.producer_id, self.producer_epoch):
            self._next.clear()
        self.producer_id, self.producer_epoch = producer_id, producer_epoch

    def records(self, *values: str, partition: int = 0, sequence: int | None = None) -> bytes:
        """The next batch for a partition, or with `sequence` one out of turn."""
        first = self._next.get(partition, 0) if sequence is None else sequence
        if sequence is None:
            self._next[partition] = first + len(values)
        return batch(
            *values,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=first,
            transactional=True,
        )

    def rewind(self, following: dict[int, int]) -> None:
        """Give the sequences of refused batches back: what follows, by partition."""
        self._next = following

    def begin_send(self, *values: str, partition: int = 0) -> Any:
        return self.broker.begin_produce(
            self.records(*values, partition=partition),
            version=self.produce_version,
            partition=partition,
            transactional_id=self.transactional_id,
        )

    async def deliver(self, records: bytes, *, partition: int = 0) -> PartitionProduceResponse:
        """Have the broker receive this batch, now."""
        return await self.broker.produce(
            records, version=self.produce_version, partition=partition, transactional_id=self.transactional_id
        )

    async def add(self, *partitions: int) -> None:
        added = await self.broker.transactions.add_partitions(
            self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            partitions=[TopicPartition("orders", each) for each in partitions],
        )
        assert added.error is ErrorCode.NONE

    async def send(self, *values: str, partition: int = 0) -> PartitionProduceResponse:
        if self.transaction_version < 2:
            await self.add(partition)
        return await self.deliver(self.records(*values, partition=partition), partition=partition)

    async def end(self, *, commit: bool) -> None:
        ending = asyncio.ensure_future(
            self.broker.transactions.end(
                self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                commit=commit,
                client_transaction_version=self.transaction_version,
            )
        )
        await self.broker.clock.run(10)
        result = await ending
        assert result.error is ErrorCode.NONE
        if self.transaction_version == 2:
            self._take(result.producer_id, result.producer_epoch)

    async def commit(self) -> None:
        await self.end(commit=True)

    async def abort(self) -> None:
        await self.end(commit=False)


async def broker_with_topic(partitions: int = 2, **config: Any) -> DataBroker:
    broker = await DataBroker.started(**config)
    await broker.create_topic(partitions=partitions)
    return broker


def committed_values(answer: PartitionData) -> list[str]:
    """What a read_committed consumer makes of an answer."""
    assert answer.aborted_transactions is not None
    fetched = FetchedRecords(answer.records, from_offset=0, aborted=answer.aborted_transactions)
    return [(record.value or b"").decode() for record in fetched]


async def committed(broker: DataBroker, partition: int = 0) -> list[str]:
    return committed_values(await broker.fetch(partition=partition, isolation=READ_COMMITTED))


def hold_markers(broker: DataBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """No partition has a leader for markers, until the test undoes it."""
    monkeypatch.setattr(type(broker.marker_routes), "target", lambda _, __: ErrorCode.LEADER_NOT_AVAILABLE)


# What readers see
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transaction_version", [1, 2])
async def test_committed_records_are_visible_and_aborted_ones_are_not(transaction_version: int) -> None:
    broker = await broker_with_topic()
    producer = await Producer(broker, transaction_version=transaction_version).init()
    assert (await producer.send("a")).error_code == ErrorCode.NONE
    assert await committed(broker) == []
    await producer.commit()
    assert await committed(broker) == ["a"]
    await producer.send("b")
    await producer.abort()
    await producer.send("c")
    assert await committed(broker) == ["a"]
    await producer.commit()
    assert await committed(broker) == ["a", "c"]
    log = broker.log()
    assert (log.last_stable_offset, log.high_watermark, log.log_end_offset) == (6, 6, 6)


async def test_a_read_committed_fetch_waits_for_the_marker() -> None:
    broker = await broker_with_topic()
    producer = await Producer(broker).init()
    waiting = asyncio.create_task(broker.fetch(isolation=READ_COMMITTED, max_wait_ms=500))
    await producer.send("a")
    await settle()
    assert not waiting.done()
    await producer.commit()
    assert committed_values(await waiting) == ["a"]


async def test_the_last_stable_offset_waits_for_the_marker_to_be_durable() -> None:
    broker = await broker_with_topic()
    producer = await Producer(broker).init()
    await producer.send("a")
    broker.flusher.held = True
    marker = Marker(producer.producer_id, producer.producer_epoch + 1, True, 0, 2)
    writing = asyncio.create_task(
        broker.services.markers.write_markers((MarkersForPartitions(marker, (TopicPartition("orders", 0),)),))
    )
    await settle()
    log = broker.log()
    assert (log.log_end_offset, log.high_watermark, log.last_stable_offset) == (2, 1, 0)
    assert not writing.done()
    broker.flusher.release()
    assert set((await writing).values()) == {ErrorCode.NONE}
    assert log.last_stable_offset == 2


async def test_case_2_the_oldest_open_transaction_holds_the_last_stable_offset() -> None:
    broker = await broker_with_topic()
    for n in range(10):
        await broker.produce(batch(str(n)))
    first, second = await Producer(broker, "t1").init(), await Producer(broker, "t2").init()
    await first.send("x", "y")
    await second.send("z")
    aborted_id = second.producer_id
    await second.abort()
    log = broker.log()
    assert log.last_stable_offset == 10
    await first.commit()
    assert log.last_stable_offset == log.high_watermark == 15
    answer = await broker.fetch(isolation=READ_COMMITTED)
    aborted = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()]
    assert aborted == [(aborted_id, 12)]
    assert committed_values(answer) == [*map(str, range(10)), "x", "y"]


async def test_case_3_a_range_that_ends_before_the_abort_marker_lists_the_transaction() -> None:
    broker = await broker_with_topic()
    producer = await Producer(broker).init()
    for n in range(3):
        await producer.send(str(n) * 1000)
    await producer.abort()
    read = broker.log().read(1, max_bytes=1200, isolation=IsolationLevel.READ_COMMITTED, min_one_batch=True)
    assert isinstance(read, ReadResult)
    assert len(read.records) < 1200
    assert [(each.producer_id, each.first_offset) for each in read.aborted or ()] == [(producer.producer_id, 0)]
    answer = await broker.fetch(1, isolation=READ_COMMITTED)
    assert [each.first_offset for each in answer.aborted_transactions or ()] == [0]
    assert committed_values(answer) == []


async def test_case_4_a_transaction_without_records_leaves_a_marker_and_nothing_else() -> None:
    broker = await broker_with_topic()
    producer = await Producer(broker, transaction_version=1).init()
    await producer.add(0)
    await producer.abort()
    log = broker.log()
    assert (log.log_end_offset, log.last_stable_offset) == (1, 1)
    answer = await broker.fetch(isolation=READ_COMMITTED)
    assert answer.aborted_transactions == ()
    assert committed_values(answer) == []


async def test_case_10_a_timestamp_inside_an_open_transaction_is_not_found_by_a_read_committed_consumer() -> None:
    broker = await broker_with_topic()
    producer = await Producer(broker).init()
    await broker.produce(batch("before", timestamp=1_700_000_000_000))
    await producer.deliver(
        batch(
            "inside",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,
            transactional=True,
            timestamp=1_700_000_000_500,
        )
    )

    async def look_up(timestamp: int, isolation: int) -> int:
        wanted = ListOffsetsTopic("orders", (ListOffsetsPartition(0, timestamp=timestamp),))
        response = await broker.call(list_offsets.API, ListOffsetsRequest(-1, isolation, (wanted,)), 7)
        found = response.topics[0].partitions[0]
        assert found.error_code == ErrorCode.NONE
        return int(found.offset)

    assert await look_up(1_700_000_000_500, READ_COMMITTED) == -1
    assert await look_up(1_700_000_000_500, 0) == 1
    assert await look_up(list_offsets.LATEST, READ_COMMITTED) == 1
    assert await look_up(list_offsets.LATEST, 0) == 2
    assert await look_up(list_offsets.MAX_TIMESTAMP, READ_COMMITTED) == -1
    await producer.commit()
    assert await look_up(1_700_000_000_500, READ_COMMITTED) == 1


# Late and overtaking batches
# -------------------------------------------------------------------------------------------------


async def test_b4_a_batch_of_the_next_transaction_waits_for_the_marker_of_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = await broker_with_topic()
    producer = await Producer(broker).init()
    await producer.send("first")
    with monkeypatch.context() as held:
        hold_markers(broker, held)
        await producer.commit()
        sending = producer.begin_send("second")
        await broker.clock.run(30)
        assert not sending.done()
        assert broker.log().log_end_offset == 1
    await broker.clock.run(60)
    answer = (await sending).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 2)
    await producer.abort()
    assert await committed(broker) == ["first"]


async def test_b4_a_batch_that_waited_in_vain_is_told_to_come_back_and_joins_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = await broker_with_topic()
    producer = await Producer(broker).init()
    await producer.send("first")
    hold_markers(broker, monkeypatch)
    await producer.commit()
    for version, expected in ((12, "CONCURRENT_TRANSACTIONS"), (10, "NOT_ENOUGH_REPLICAS")):
        producer.produce_version = version
        sending = asyncio.create_task(producer.deliver(producer.records("second", sequence=0)))
        await broker.clock.run(100)
        assert ErrorCode((await sending).error_code).name == expected
    assert broker.log().log_end_offset == 1


async def test_b5_a_batch_that_loses_the_race_against_a_fencing_marker_is_fenced_not_misused() -> None:
    broker = await broker_with_topic()
    producer = await Producer(broker).init()
    broker.flusher.held = True
    sending = producer.begin_send("late")
    await settle()
    fencing = Marker(producer.producer_id, producer.producer_epoch + 1, False, 0, 2)
    broker.log().append_marker(fencing, now_ms=broker.clock.now_ms())
    broker.flusher.held = False
    broker.flusher.release()
    answer = (await sending).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.log().log_end_offset == 1


async def test_after_a_marker_between_question_and_answer_the_coordinator_is_asked_again() -> None:
    broker = await broker_with_topic()
    producer = await Producer(broker).init()
    broker.flusher.held = True
    sending = producer.begin_send("late")
    await settle()
    same_epoch = Marker(producer.producer_id, producer.producer_epoch, False, 0, 0)
    broker.log().append_marker(same_epoch, now_ms=broker.clock.now_ms())
    broker.flusher.held = False
    broker.flusher.release()
    answer = (await sending).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NONE
    assert broker.log().last_stable_offset == 1
    await producer.commit()
    assert await committed(broker) == ["late"]


async def test_b7_a_late_copy_of_the_last_marker_does_not_end_the_next_transaction() -> None:
    broker = await broker_with_topic()
    producer = await Producer(broker).init()
    await producer.send("first")
    await producer.commit()
    copy = Marker(producer.producer_id, producer.producer_epoch, True, 0, 2)
    await producer.send("second")
    partition = TopicPartition("orders", 0)
    answers = await broker.services.markers.write_markers((MarkersForPartitions(copy, (partition,)),))
    assert answers == {(producer.producer_id, partition): ErrorCode.INVALID_PRODUCER_EPOCH}
    assert broker.log().last_stable_offset == 2
    await producer.abort()
    assert await committed(broker) == ["first"]


@pytest.mark.parametrize(("transaction_version", "expected"), [(1, "INVALID_TXN_STATE"), (2, "INVALID_PRODUCER_EPOCH")])
async def test_b9_a_batch_delayed_past_the_abort_opens_nothing(transaction_version: int, expected: str) -> None:
    broker = await broker_with_topic()
    producer = await Producer(broker, transaction_version=transaction_version).init()
    await producer.send("in time")
    delayed = producer.records("delayed")
    never_seen = producer.records("never seen here", partition=1)
    await producer.abort()
    for records, partition in ((delayed, 0), (never_seen, 1)):
        answer = await producer.deliver(records, partition=partition)
        # Partition 1 has never heard of the producer: there the coordinator's word decides.
        assert ErrorCode(answer.error_code).name == expected
        log = broker.log(partition=partition)
        assert log.last_stable_offset == log.high_watermark == log.log_end_offset
    producer.rewind({0: 1} if transaction_version == 1 else {})
    await producer.send("next")
    await producer.commit()
    assert await committed(broker) == ["next"]


async def test_b10_batches_that_expired_at_the_client_and_arrive_after_its_abort_are_all_refused() -> None:
    broker = await broker_with_topic()
    producer = await Producer(broker, transaction_version=1).init()
    await producer.add(0)
    in_flight = [producer.records(str(n)) for n in range(5)]
    for records in in_flight[:2]:
        assert (await producer.deliver(records)).error_code == ErrorCode.NONE
    await producer.abort()
    for records in in_flight[2:]:
        assert (await producer.deliver(records)).error_code == ErrorCode.INVALID_TXN_STATE
    log = broker.log()
    assert log.last_stable_offset == log.high_watermark == 3


async def test_pipelined_batches_of_a_new_transaction_stay_in_order_behind_the_coordinator() -> None:
    broker = await broker_with_topic()
    producer = await Producer(broker).init()
    broker.flusher.held = True
    sending = [producer.begin_send(str(n)) for n in range(5)]
    await settle()
    assert broker.log().log_end_offset == 0, "the coordinator's record is not durable yet"
    broker.flusher.held = False
    broker.flusher.release()
    answers = [(await each).responses[0].partition_responses[0] for each in sending]
    assert [(each.error_code, each.base_offset) for each in answers] == [(0, n) for n in range(5)]
    await producer.commit()
    assert await committed(broker) == ["0", "1", "2", "3", "4"]


async def test_pipelined_batches_of_a_new_transaction_share_their_sync() -> None:
    broker = await broker_with_topic()
    producer = await Producer(broker).init()
    broker.flusher.held = True
    sending = [producer.begin_send(str(n)) for n in range(3)]
    broker.flusher.release()  # the coordinator's record
    await settle()
    assert broker.log().log_end_offset == 3
    assert not sending[0].done()
    broker.flusher.release()
    answers = [(await each).responses[0].partition_responses[0] for each in sending]
    assert [each.base_offset for each in answers] == [0, 1, 2]


async def test_a_batch_on_another_connection_cannot_overtake_the_one_that_is_being_verified() -> None:
    broker = await broker_with_topic()
    producer = await Producer(broker, transaction_version=1).init()
    await producer.add(0)
    log = broker.log()
    log.begin_verification(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, base_sequence=0)
    answer = await producer.deliver(producer.records("second", sequence=1))
    assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await producer.deliver(producer.records("first", sequence=0))).error_code == ErrorCode.NONE


async def test_b26_two_requests_of_one_producer_at_a_time_do_not_fail_each_other() -> None:
    broker = await broker_with_topic(partitions=3)
    producer = await Producer(broker).init()
    broker.flusher.held = True
    adding = [producer.begin_send("a", partition=0), producer.begin_send("b", partition=1)]
    producer.produce_version = 9
    verifying = producer.begin_send("c", partition=2)
    broker.flusher.held = False
    broker.flusher.release()
    answers = [(await each).responses[0].partition_responses[0] for each in (*adding, verifying)]
    # Each by its own version's rules: only 12 adds partitions, and 9 does not know TRANSACTION_ABORTABLE.
    expected = [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE]
    assert [each.error_code for each in answers] == expected


async def test_a_producer_unknown_here_starts_with_sequence_0_from_version_12_on() -> None:
    broker = await broker_with_topic()
    producer = await Producer(broker).init()
    lost = await producer.deliver(producer.records("later", sequence=5))
    assert lost.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_a_fenced_producer_is_fenced_with_the_code_that_lets_it_abort() -> None:
    broker = await broker_with_topic()
    zombie = await Producer(broker, transaction_version=1).init()
    await zombie.send("old")
    ending = asyncio.create_task(Producer(broker).init())
    await broker.clock.run(1000)
    await ending
    for version in (9, 11, 12):
        zombie.produce_version = version
        for partition in (0, 1):
            answer = await zombie.deliver(zombie.records("z", partition=partition), partition=partition)
            assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_without_verification_an_older_clients_batch_is_taken_at_its_word() -> None:
    broker = await broker_with_topic(transaction_partition_verification_enable=False)
    producer = await Producer(broker, transaction_version=1).init()
    assert (await producer.deliver(producer.records("a"))).error_code == ErrorCode.NONE


# Markers
# ---------------------------------------------------------------------------------------------------------------------


def markers(*each: tuple[int, int, Sequence[int]]) -> list[MarkersForPartitions]:
    return [
        MarkersForPartitions(
            Marker(producer_id, producer_epoch, True, 0), tuple(TopicPartition("orders", index) for index in partitions)
        )
        for producer_id, producer_epoch, partitions in each
    ]


async def test_b30_every_partition_answers_for_itself() -> None:
    broker = await broker_with_topic(partitions=3)
    first, second = await Producer(broker, "t1").init(), await Producer(broker, "t2").init()
    for partition in (0, 1, 2):
        await first.send("a", partition=partition)
    await second.send("b", partition=1)
    broker.log(partition=2).fail(OSError("gone"))
    answers = await broker.services.markers.write_markers(
        markers(
            (first.producer_id, first.producer_epoch + 1, (0, 1, 2, 7)),
            (second.producer_id, second.producer_epoch - 1, (1,)),
        )
    )
    assert {(pid, partition.partition): error.name for (pid, partition), error in answers.items()} == {
        (first.producer_id, 0): "NONE",
        (first.producer_id, 1): "NONE",
        (first.producer_id, 2): "KAFKA_STORAGE_ERROR",
        (first.producer_id, 7): "UNKNOWN_TOPIC_OR_PARTITION",
        (second.producer_id, 1): "INVALID_PRODUCER_EPOCH",
    }


async def test_all_markers_are_written_before_any_is_waited_for() -> None:
    broker = await broker_with_topic(partitions=3)
    broker.flusher.held = True
    target = broker.marker_routes.target(TopicPartition("orders", 0))
    assert not isinstance(target, ErrorCode)
    writing = asyncio.create_task(write(target, markers((7, 0, (0, 1, 2)), (8, 0, (0,)))))
    await settle()
    assert [broker.log(partition=index).log_end_offset for index in (0, 1, 2)] == [2, 1, 1]
    assert not writing.done()
    broker.flusher.release()
    assert await writing == [ErrorCode.NONE] * 4


async def write(target: MarkerTarget, each: Sequence[MarkersForPartitions]) -> list[ErrorCode]:
    return list((await target.write_markers(each)).values())


async def test_a_partition_that_is_gone_from_the_cluster_is_told_from_one_without_a_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = await broker_with_topic()
    target = broker.marker_routes.target
    assert target(TopicPartition("orders", 9)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    monkeypatch.setattr(broker.cluster, "leader_of", lambda _: -1)
    assert target(TopicPartition("orders", 0)) is ErrorCode.LEADER_NOT_AVAILABLE


async def test_a_transaction_over_a_deleted_topic_commits_for_the_others() -> None:
    """transactions.md 13.1 case 5."""
    broker = await broker_with_topic()
    await broker.create_topic("doomed")
    producer = await Producer(broker, transaction_version=1).init()
    await producer.send("kept")
    added = await broker.transactions.add_partitions(
        "tx",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        partitions=[TopicPartition("doomed", 0)],
    )
    assert added.error is ErrorCode.NONE
    await broker.cluster.delete_topic("doomed")
    await producer.commit()
    assert await committed(broker) == ["kept"]
    await producer.send("next")
    await producer.abort()


async def test_open_transactions_and_what_they_hold_back_survive_a_restart() -> None:
    broker = await broker_with_topic()
    producer = await Producer(broker).init()
    await producer.send("a")
    await producer.commit()
    await producer.send("b")
    await broker.stop()
    again = await DataBroker.started(disk=broker.disk, clock=broker.clock)
    assert await committed(again) == ["a"]
    assert (again.log().last_stable_offset, again.log().high_watermark) == (2, 3)
    producer.broker = again
    await producer.commit()
    assert await committed(again) == ["a", "b"]
    await again.stop()
