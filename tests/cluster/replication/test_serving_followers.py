"""A leader serves followers, and producers wait for them (cluster.md 4.4, 4.9 and 4.10). Real logs and handlers; the
controller and the followers are played by the test."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from data_broker import DataBroker, batch, settle
from registrations import Broker, Partition
from serving_leader import LAG_MS, Controller, Leader, idle_follower, leader

from eosin.broker.handlers import delete_records, fetch
from eosin.broker.markers import LocalMarkers
from eosin.cluster.replication.coordinator_log import ReplicatedCoordinatorLog
from eosin.cluster.replication.led_partitions import CHECKS_PER_TURN, LedPartitions
from eosin.cluster.replication.rules.isr import IsrChangeResult
from eosin.cluster.replication.rules.positions import Registrations
from eosin.coordinator.transactions.ports import MarkersForPartitions
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.log_results import Appended, Marker, Refused

RECORDS_AT = 61
"""Where the records of a batch begin."""


async def test_a_follower_reads_what_is_not_committed_yet_and_its_next_fetch_commits_it() -> None:
    leads = await leader()
    leads.lead(1, 2)
    produced = leads.broker.begin_produce(batch("a", "b"))
    await settle()
    assert not produced.done()
    assert (await leads.broker.fetch(0)).records == b""
    answer = await leads.fetched(2, 0)
    assert len(answer.records or b"") > 0
    assert (answer.high_watermark, answer.aborted_transactions) == (0, None)
    assert not produced.done()
    assert (await leads.fetched(2, 2)).high_watermark == 2
    assert (await produced).responses[0].partition_responses[0].error_code == 0
    assert len((await leads.broker.fetch(0)).records or b"") > 0


async def test_a_fetch_of_a_follower_that_waits_is_answered_as_soon_as_something_is_written() -> None:
    leads = await leader()
    leads.lead(1, 2)
    leads.broker.flusher.held = True
    waiting = leads.broker.begin(fetch.API, leads.fetch_request(2, 0, max_wait_ms=500), 17)
    await settle()
    assert not waiting.done()
    leads.broker.begin_produce(batch("a"))
    await settle()
    assert waiting.done()
    assert leads.log.durable_end == 0


async def test_a_fetch_of_a_follower_that_waits_is_not_answered_for_a_higher_high_watermark() -> None:
    leads = await leader()
    leads.lead(1, 2, 3)
    leads.broker.begin_produce(batch("a"))
    waiting = leads.broker.begin(fetch.API, leads.fetch_request(2, 1, max_wait_ms=500), 17)
    await settle()
    assert leads.log.high_watermark == 0
    await leads.fetched(3, 1)
    await settle()
    assert leads.log.high_watermark == 1
    assert not waiting.done()
    leads.broker.clock.advance(500)
    await settle()
    assert waiting.result().responses[0].partitions[0].high_watermark == 1


@pytest.mark.parametrize("isolation", [0, 1], ids=["read_uncommitted", "read_committed"])
async def test_a_consumer_that_waits_is_answered_as_soon_as_the_followers_have_what_it_waits_for(
    isolation: int,
) -> None:
    leads = await leader()
    leads.lead(1, 2, 3)
    waiting = asyncio.ensure_future(leads.broker.fetch(0, isolation=isolation, max_wait_ms=500))
    leads.broker.begin_produce(batch("a"))
    await leads.fetched(2, 1)
    await settle()
    assert not waiting.done()
    await leads.fetched(3, 1)
    await settle()
    assert waiting.done(), "no time has passed"
    assert (await waiting).high_watermark == 1


async def test_a_consumer_of_what_is_decided_is_answered_as_soon_as_the_followers_have_the_marker() -> None:
    leads = await leader(transaction_partition_verification_enable=False)
    leads.lead(1, 2)
    appended = leads.log.append(
        batch("a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True), now_ms=1
    )
    assert isinstance(appended, Appended)
    await leads.fetched(2, 1)
    waiting = asyncio.ensure_future(leads.broker.fetch(0, isolation=1, max_wait_ms=500))
    await settle()
    assert isinstance(leads.log.append_marker(Marker(7, 1, True, 0, 2), now_ms=1), Appended)
    await settle()
    assert not waiting.done()
    await leads.fetched(2, 2)
    await settle()
    assert waiting.done(), "no time has passed"
    assert len((await waiting).records or b"") > 0


async def test_the_leader_counts_itself_by_what_is_durable() -> None:
    leads = await leader()
    leads.lead(1, 2)
    leads.broker.flusher.held = True
    produced = leads.broker.begin_produce(batch("a"))
    await leads.fetched(2, 0)
    await leads.fetched(2, 1)
    assert leads.log.high_watermark == 0
    leads.broker.flusher.release()
    await settle()
    assert leads.log.high_watermark == 1
    assert produced.done()


async def test_acks_1_waits_for_this_broker_alone() -> None:
    leads = await leader()
    leads.lead(1, 2)
    leads.broker.flusher.held = True
    produced = leads.broker.begin_produce(batch("a"), acks=1)
    await settle()
    assert not produced.done()
    leads.broker.flusher.release()
    assert (await produced).responses[0].partition_responses[0].error_code == 0
    assert leads.log.high_watermark == 0


async def test_acks_all_is_refused_before_the_append_while_too_few_are_in_sync() -> None:
    leads = await leader(min_in_sync=2)
    leads.lead(1)
    assert (await leads.broker.produce(batch("a"))).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert leads.log.log_end_offset == 0
    assert (await leads.broker.produce(batch("a"), acks=1)).error_code == 0
    assert leads.log.high_watermark == 0, "below min.insync.replicas nothing is committed"


async def test_acks_all_says_that_replicas_left_after_the_append() -> None:
    leads = await leader(min_in_sync=2)
    leads.lead(1, 2, 3)
    produced = leads.broker.begin_produce(batch("a"))
    await settle()
    leads.lead(1, 2, replicas=(1, 2, 3), partition_epoch=2)
    await leads.fetched(2, 1)
    assert (await produced).responses[0].partition_responses[0].error_code == 0

    again = leads.broker.begin_produce(batch("b"))
    await leads.fetched(2, 1)
    await leads.fetched(2, 2)
    leads.lead(1, replicas=(1, 2, 3), partition_epoch=3)
    response = await again
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


async def test_acks_all_that_waits_too_long_is_told_so() -> None:
    leads = await leader()
    leads.lead(1, 2)
    response = await leads.broker.produce(batch("a"), timeout_ms=1)
    assert response.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert leads.log.log_end_offset == 1


async def test_a_producer_that_waits_hears_that_the_leadership_is_lost() -> None:
    leads = await leader()
    leads.lead(1, 2)
    produced = leads.broker.begin_produce(batch("a"))
    await settle()
    leads.leading.resign(leads.log)
    leads.log.become_follower()
    response = await produced
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leads.controller.withdrawn == 1


async def test_a_repeated_batch_waits_for_the_followers_as_the_first_one_did() -> None:
    leads = await leader()
    leads.lead(1, 2)
    first = leads.broker.begin_produce(batch("a", producer_id=7, producer_epoch=0, base_sequence=0))
    again = leads.broker.begin_produce(batch("a", producer_id=7, producer_epoch=0, base_sequence=0))
    await settle()
    assert not again.done()
    await leads.fetched(2, 1)
    for task in (first, again):
        partition = (await task).responses[0].partition_responses[0]
        assert (partition.error_code, partition.base_offset) == (0, 0)
    assert leads.log.log_end_offset == 1


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"node_id": 4}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"node_id": 4, "leader_epoch": -1}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"node_id": 2, "replica_epoch": 199}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"node_id": 2, "leader_epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"node_id": 2, "leader_epoch": 6}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
    ids=["no replica", "no replica and no epoch", "an old incarnation", "an old epoch", "a newer epoch"],
)
async def test_a_fetch_that_is_not_a_followers_of_now_is_refused(how: dict[str, int], error: ErrorCode) -> None:
    leads = await leader()
    leads.brokers[4] = Broker(400)
    leads.lead(1, 2)
    how = dict(how)
    node_id = how.pop("node_id")
    assert (await leads.fetched(node_id, 0, **how)).error_code == error


async def test_after_a_wait_the_leader_looks_again_whether_it_leads() -> None:
    leads = await leader()
    leads.lead(1, 2)
    waiting = leads.broker.begin(fetch.API, leads.fetch_request(2, 0, max_wait_ms=500), 17)
    await settle()
    leads.leading.resign(leads.log)
    leads.broker.partitions.long_polls.interrupt(leads.log)
    response = await leads.broker.answer(fetch.API, waiting, 17)
    assert response.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def throttled_leader() -> Leader:
    """Follower 2 is in sync, follower 3 is not, and has been sent one batch beyond the rate: two seconds' worth."""
    leads = await leader()
    leads.lead(1, 2, replicas=(1, 2, 3))
    for value in ("a", "b"):
        leads.broker.begin_produce(batch(value))
    await settle()
    size = len((await leads.fetched(2, 1)).records or b"")
    leads.throttle.rate = size // 2
    leads.throttle.count(TopicPartition("orders", 0), size, leads.leading.now_ms)
    return leads


async def test_a_throttled_follower_out_of_sync_gets_its_records_when_the_rate_allows_it() -> None:
    leads = await throttled_leader()
    before = leads.throttle.counted
    answer = await leads.fetched(3, 0)
    assert (answer.error_code, answer.records, answer.high_watermark) == (0, b"", leads.log.high_watermark)
    waiting = leads.broker.begin(fetch.API, leads.fetch_request(3, 0, max_wait_ms=30_000), 17)
    await settle()
    leads.broker.begin_produce(batch("c"))
    leads.broker.clock.advance(1999)
    await settle()
    assert not waiting.done(), "what is written does not end its wait"
    leads.broker.clock.advance(1)
    await settle()
    assert waiting.done(), "it does not wait for longer than the throttle does"
    sent = len(waiting.result().responses[0].partitions[0].records)
    assert sent > 0
    assert leads.throttle.counted == before + sent


async def test_a_fetch_that_the_throttle_holds_for_longer_than_it_waits_is_answered_without_records() -> None:
    leads = await throttled_leader()
    waiting = leads.broker.begin(fetch.API, leads.fetch_request(3, 0, max_wait_ms=500), 17)
    await settle()
    leads.broker.clock.advance(500)
    await settle()
    assert waiting.result().responses[0].partitions[0].records == b""


async def test_a_follower_in_sync_is_never_throttled_and_what_it_gets_counts() -> None:
    leads = await throttled_leader()
    before = leads.throttle.counted
    sent = len((await leads.fetched(2, 0)).records or b"")
    assert sent > 0
    assert leads.throttle.counted == before + sent
    leads.lead(1, 2, 3, partition_epoch=2)
    assert (await leads.fetched(3, 0)).records, "it has come into sync"


async def test_one_answer_brings_throttled_partitions_until_a_second_s_worth_is_spent() -> None:
    """A follower asks for many partitions at once: they do not all come because the rate allowed the first, and those
    that have little come together."""
    leads = await leader()
    await leads.broker.create_topic("others")
    other = leads.broker.log("others")
    other.become_leader(5)
    leads.lead(1, replicas=(1, 3))
    leads.leading.lead(other, other.topic_id, Partition((1, 3), (1,), 5, 1))
    for log in (leads.log, other):
        assert isinstance(log.append(batch("a"), now_ms=1), Appended)
    await settle()
    request = leads.fetch_request(3, 0)
    both = (*request.topics, msgspec.structs.replace(request.topics[0], topic_id=other.topic_id))
    request = msgspec.structs.replace(request, topics=both)

    async def sent() -> list[bool]:
        response = await leads.broker.call(fetch.API, request, 17)
        return [bool(topic.partitions[0].records) for topic in response.responses]

    assert await sent() == [True, True]
    leads.throttle.rate = 1000
    assert await sent() == [True, True], "some hundred bytes"
    assert await sent() == [False, False]
    leads.throttle.rate, leads.throttle.free_ms = 1, 0
    assert await sent() == [True, False]
    assert await sent() == [False, False]


async def test_a_fetch_that_finds_a_follower_idle_still_says_that_it_has_caught_up() -> None:
    leads = await leader()
    leads.lead(1, 2)
    session = await idle_follower(leads)
    leads.broker.clock.advance(LAG_MS - 1)
    assert await session.fetched() is None
    leads.broker.clock.advance(LAG_MS - 1)
    leads.broker.begin_produce(batch("a"))
    leads.leading.check_for_lag()
    await settle()
    assert not leads.controller.asked, "it was heard a moment ago"
    leads.broker.clock.advance(2)
    leads.leading.check_for_lag()
    await settle()
    assert leads.controller.confirm() == (1,)


async def test_an_idle_follower_is_looked_at_by_comparisons_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker follows thousands of partitions of another one, and each of its fetches asks for all of them."""
    leads = await leader()
    leads.lead(1, 2)
    session = await idle_follower(leads)
    looks: list[PartitionLog] = []

    def fetched(log: PartitionLog, *_: object) -> None:
        looks.append(log)

    monkeypatch.setattr(leads.leading, "fetched", fetched)
    assert await session.fetched() is None
    assert looks == []
    leads.broker.begin_produce(batch("a"))
    await settle()
    told = await session.fetched()
    assert told is not None
    assert told.records
    assert looks == [leads.log]


async def test_an_idle_follower_hears_of_what_was_committed_and_deleted() -> None:
    leads = await leader()
    leads.lead(1, 2, 3)
    leads.broker.begin_produce(batch("a"))
    session = await idle_follower(leads)
    assert leads.log.high_watermark == 0
    await leads.fetched(3, 1)
    told = await session.fetched()
    assert told is not None
    assert (told.high_watermark, told.log_start_offset) == (1, 0)
    assert await session.fetched() is None
    await leads.log.delete_records_before(1)
    told = await session.fetched()
    assert told is not None
    assert told.log_start_offset == 1


changes_that_refuse_a_follower = pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda leads: leads.lead(1, 3, replicas=(1, 3), partition_epoch=2), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (lambda leads: leads.register(2, 201), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (lambda leads: leads.leading.resign(leads.log), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (lambda leads: leads.elect(6), ErrorCode.FENCED_LEADER_EPOCH),
        (lambda leads: leads.log.fail(OSError("no sync")), ErrorCode.KAFKA_STORAGE_ERROR),
    ],
    ids=["no replica any more", "a newer incarnation", "another leader", "a new leader epoch", "a failed log"],
)


@changes_that_refuse_a_follower
async def test_an_idle_follower_is_refused_as_any_other(change: Callable[[Leader], object], error: ErrorCode) -> None:
    leads = await leader()
    leads.lead(1, 2)
    session = await idle_follower(leads)
    change(leads)
    told = await session.fetched()
    assert told is not None
    assert told.error_code == error


async def waiting_follower(leads: Leader, offset: int) -> "asyncio.Future[Any]":
    """The fetch of a follower that has everything."""
    request = leads.fetch_request(2, offset, max_wait_ms=500)
    waiting = leads.broker.begin(fetch.API, request, 17)
    await settle()
    assert not waiting.done()
    return waiting


@changes_that_refuse_a_follower
async def test_a_follower_that_waited_is_refused_for_what_changed_meanwhile(
    change: Callable[[Leader], object], error: ErrorCode
) -> None:
    leads = await leader()
    leads.lead(1, 2)
    waiting = await waiting_follower(leads, 0)
    change(leads)
    leads.broker.partitions.long_polls.interrupt(leads.log)
    told = (await leads.broker.answer(fetch.API, waiting, 17)).responses[0].partitions[0]
    assert told.error_code == error


async def test_a_follower_that_waited_for_records_that_were_deleted_meanwhile_is_told_so() -> None:
    leads = await leader()
    leads.lead(1, 2)
    waiting = await waiting_follower(leads, 0)
    leads.broker.begin_produce(batch("a"))
    await leads.fetched(2, 1)  # of another session: so it is committed, and may be deleted
    await leads.log.delete_records_before(1)
    told = (await leads.broker.answer(fetch.API, waiting, 17)).responses[0].partitions[0]
    assert told.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_follower_that_is_out_of_the_isr_asks_to_be_taken_in_with_each_fetch() -> None:
    leads = await leader()
    leads.brokers = {**leads.brokers, 2: Broker(200, fenced=True)}
    leads.lead(1, replicas=(1, 2))
    session = await idle_follower(leads)
    assert not leads.controller.asked
    leads.register(2, 200)
    await session.fetched()
    assert leads.controller.confirm() == (1, 2)


async def test_a_log_that_parts_is_told_where_and_its_position_does_not_count() -> None:
    leads = await leader()
    leads.lead(1, 2)
    leads.broker.begin_produce(batch("a"))
    await settle()
    epoch = leads.log.leader_epoch
    answer = await leads.fetched(2, 5, last_epoch=epoch)
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (epoch, 1)
    assert answer.records == b""
    assert leads.log.high_watermark == 0
    follower = leads.leading.state(leads.log)
    assert follower is not None
    assert follower.followers[0].offset == -1


async def test_a_follower_that_has_caught_up_is_taken_into_the_isr_and_counts_before_that_is_confirmed() -> None:
    leads = await leader()
    leads.lead(1, 2)
    await leads.fetched(2, 0)
    await leads.fetched(3, 0)
    (asked,) = leads.controller.asked
    assert asked.change.isr == ((1, 100), (2, 200), (3, 300))
    leads.broker.begin_produce(batch("a"))
    await leads.fetched(2, 1)
    assert leads.log.high_watermark == 0
    leads.controller.confirm()
    await leads.fetched(3, 1)
    assert leads.log.high_watermark == 1
    assert not leads.controller.asked


async def test_a_follower_that_lags_is_taken_out_and_then_holds_nothing_up() -> None:
    leads = await leader()
    leads.lead(1, 2)
    produced = leads.broker.begin_produce(batch("a"))
    await settle()
    leads.leading.check_for_lag()
    assert not leads.controller.asked
    leads.broker.clock.advance(LAG_MS + 1)
    leads.leading.check_for_lag()
    await settle()
    assert leads.log.high_watermark == 0
    assert leads.controller.confirm() == (1,)
    await settle()
    assert leads.log.high_watermark == 1
    assert produced.done()


async def test_many_partitions_follow_a_change_of_brokers_in_turns() -> None:
    """cluster.md 2.10"""
    broker = await DataBroker.started()
    await broker.create_topic("many", partitions=2 * CHECKS_PER_TURN)
    looks = 0

    def brokers() -> Registrations:
        nonlocal looks
        looks += 1
        return {}

    leading = LedPartitions(
        1,
        brokers=brokers,
        own_epoch=lambda: 100,
        isr_changes=Controller(),
        progress=broker.partitions.long_polls,
        clock=broker.clock,
        max_lag_ms=LAG_MS,
    )
    for index in range(2 * CHECKS_PER_TURN):
        log = broker.log("many", index)
        leading.lead(log, log.topic_id, Partition((1, 2), (1, 2), log.leader_epoch, 1))
    looks = 0
    leading.brokers_changed()
    assert looks == CHECKS_PER_TURN
    await asyncio.sleep(0)
    assert looks == 2 * CHECKS_PER_TURN


async def test_an_answer_of_the_controller_that_comes_after_a_new_election_changes_nothing() -> None:
    leads = await leader()
    leads.lead(1, 2)
    await leads.fetched(3, 0)
    asked = leads.controller.asked.pop()
    leads.leading.resign(leads.log)
    leads.lead(1, 2, 3)
    asked.answered(IsrChangeResult(ErrorCode.NONE, asked.change.leader_epoch, 9, (1,)))
    state = leads.leading.state(leads.log)
    assert state is not None
    assert state.isr == (1, 2, 3)


async def test_a_marker_is_written_only_while_enough_replicas_are_in_sync() -> None:
    leads = await leader(min_in_sync=2)
    broker = leads.broker
    markers = LocalMarkers(broker.partitions, clock=broker.clock, has_enough_in_sync=leads.leading.has_enough_in_sync)
    orders = TopicPartition("orders", 0)
    wanted = (MarkersForPartitions(Marker(7, 0, True, 0, 2), (orders,)),)
    leads.lead(1)
    assert await markers.write_markers(wanted) == {(7, orders): ErrorCode.NOT_ENOUGH_REPLICAS}
    leads.lead(1, 2, replicas=(1, 2, 3), partition_epoch=2)
    written = asyncio.ensure_future(markers.write_markers(wanted))
    await settle()
    assert not written.done()
    await leads.fetched(2, 1)
    assert await written == {(7, orders): ErrorCode.NONE}


async def deleting(leads: Leader, offset: int, *, timeout_ms: int = 1000) -> tuple[str, int]:
    wanted = DeleteRecordsTopic("orders", (DeleteRecordsPartition(0, offset),))
    response = await leads.broker.call(delete_records.API, DeleteRecordsRequest((wanted,), timeout_ms), 2)
    (told,) = response.topics[0].partitions
    return ErrorCode(told.error_code).name, told.low_watermark


async def leader_with_records(count: int) -> Leader:
    leads = await leader()
    leads.lead(1, 2, 3)
    writing = leads.broker.begin_produce(batch(*(str(each) for each in range(count))))
    for node_id in (2, 3):
        await leads.fetched(node_id, count)
    await writing
    return leads


async def test_records_are_deleted_when_every_live_replica_starts_behind_them() -> None:
    leads = await leader_with_records(3)
    deleted = asyncio.ensure_future(deleting(leads, 2))
    await leads.fetched(2, 3, log_start=2)
    await settle()
    assert not deleted.done()
    await leads.fetched(3, 3, log_start=2)
    assert await deleted == ("NONE", 2)


async def test_a_dead_replica_holds_up_no_deletion() -> None:
    leads = await leader_with_records(3)
    deleted = asyncio.ensure_future(deleting(leads, -1))
    await leads.fetched(2, 3, log_start=3)
    await settle()
    assert not deleted.done()
    leads.brokers[3] = Broker(300, fenced=True)
    leads.leading.brokers_changed()
    assert await deleted == ("NONE", 3)


async def test_a_deletion_that_replicas_do_not_follow_in_time_says_so() -> None:
    leads = await leader_with_records(3)
    assert await deleting(leads, 2, timeout_ms=1) == ("REQUEST_TIMED_OUT", -1)


async def test_a_leader_that_resigns_ends_the_wait_for_a_deletion() -> None:
    leads = await leader_with_records(3)
    deleted = asyncio.ensure_future(deleting(leads, 2))
    await settle()
    leads.leading.resign(leads.log)
    assert await deleted == ("NOT_LEADER_OR_FOLLOWER", -1)


async def test_a_coordinator_writes_only_while_enough_replicas_are_in_sync() -> None:
    leads = await leader(min_in_sync=2)
    log = ReplicatedCoordinatorLog(leads.log, leads.leading.has_enough_in_sync)
    records = batch("state")[RECORDS_AT:]
    leads.lead(1)
    refused = log.append_records(records, count=1, now_ms=0)
    assert isinstance(refused, Refused)
    assert refused.error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert log.log_end_offset == 0
    leads.lead(1, 2, replicas=(1, 2, 3), partition_epoch=2)
    assert isinstance(log.append_records(records, count=1, now_ms=0), Appended)


async def test_a_replica_asks_for_the_log_end_and_a_consumer_waits_for_the_start_of_the_epoch() -> None:
    leads = await leader()
    leads.broker.flusher.held = True
    leads.broker.begin_produce(batch("a", "b"), acks=0)
    leads.lead(1, 2)  # the epoch begins at 2, and nothing is known to be committed
    assert await leads.offset(-1, replica_id=2) == (0, 2)
    assert await leads.offset(-1) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    assert await leads.offset(-1, version=4) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert await leads.offset(-2) == (0, 0)
    leads.broker.flusher.release()
    await leads.fetched(2, 2)
    assert await leads.offset(-1) == (0, 2)


async def test_when_a_follower_registers_again_its_position_is_void() -> None:
    leads = await leader()
    leads.lead(1, 2)
    leads.broker.flusher.held = True
    leads.broker.begin_produce(batch("a"))
    await leads.fetched(2, 0)
    await leads.fetched(2, 1)
    leads.brokers[2] = Broker(201)
    leads.leading.brokers_changed()
    leads.broker.flusher.release()
    await asyncio.sleep(0)
    assert leads.log.high_watermark == 0
    await leads.fetched(2, 1)
    assert leads.log.high_watermark == 1


async def test_a_broker_that_is_alone_serves_no_follower() -> None:
    broker = await DataBroker.started()
    await broker.create_topic()
    leads = Leader(broker, broker.log())
    broker.services.led_partitions = None
    assert (await leads.fetched(2, 0)).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert await leads.offset(-1, replica_id=2) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)
