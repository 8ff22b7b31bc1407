"""ShareFetch and ShareAcknowledge from the wire to a real log and back (KIP-932; share-partitions.md 1 to 3)."""

import asyncio
from dataclasses import replace

import pytest
from data_broker import DataBroker, batch
from manual_clock import ManualClock
from share_fakes import (
    ACCEPT,
    GROUP,
    REJECT,
    RELEASE,
    RENEW,
    FakeShareStateStore,
    StoredState,
    Workers,
    acquired,
    values,
)
from waiting import settled

from eosin.broker.handlers import share_fetch
from eosin.broker.sharing.share_sessions import SessionKey, ShareSession, ShareSessions
from eosin.coordinator.groups.rules.config import ShareGroupConfig
from eosin.coordinator.share_states import DeliveryState, StateBatch
from eosin.model.features import SHARE_VERSION
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicIdPartition
from eosin.storage.results.log_results import Marker

NONE = ErrorCode.NONE
EARLIEST = ShareGroupConfig(auto_offset_reset="earliest")
COMMITTED = ShareGroupConfig(auto_offset_reset="earliest", isolation_level="read_committed")


async def started(*records: str, **how: object) -> Workers:
    """A group whose topic has these records, each in a batch of its own."""
    workers = await Workers.started(**how)  # type: ignore[arg-type]
    for each in records:
        await workers.broker.produce(batch(each))
    return workers


async def test_a_member_gets_records_accepts_them_and_they_never_come_again() -> None:
    workers = await started("a", "b", "c")
    member = workers.member()
    data = await member.fetch()
    assert (acquired(data), values(data)) == ([(0, 2, 1)], ["a", "b", "c"])
    assert await member.acknowledge((0, 2, (ACCEPT,))) is NONE
    assert workers.store.writes[-1] == ((StateBatch(0, 2, DeliveryState.ACKNOWLEDGED, 1),), 0, 3)
    assert acquired(await member.fetch()) == []
    other = workers.member("m2")
    await workers.broker.produce(batch("d"))
    assert values(await other.fetch()) == ["d"]


async def test_two_members_share_a_partition_and_nobody_gets_what_the_other_has() -> None:
    workers = await started("a", "b", "c", "d")
    one, two = workers.member("m1"), workers.member("m2")
    assert values(await one.fetch(max_records=2)) == ["a", "b"]
    assert values(await two.fetch(max_records=10)) == ["c", "d"]
    assert await two.acknowledge((0, 1, (ACCEPT,))) is ErrorCode.INVALID_RECORD_STATE
    assert await one.acknowledge((0, 1, (RELEASE, ACCEPT))) is NONE
    data = await two.fetch()
    assert (acquired(data), values(data)) == ([(0, 0, 2)], ["a"])


async def test_only_batches_with_acquired_records_are_sent() -> None:
    workers = await started("a", "b", "c")
    one, two = workers.member("m1"), workers.member("m2")
    whole = len((await one.fetch()).records or b"")
    assert await one.acknowledge((1, 1, (RELEASE,))) is NONE
    data = await two.fetch()
    assert values(data) == ["b"]
    assert len(data.records or b"") == whole // 3


async def test_the_first_batch_comes_whatever_the_limits_are() -> None:
    workers = await started("a" * 1000, "b")
    member = workers.member()
    data = await member.fetch(max_bytes=1, max_records=1)
    assert acquired(data) == [(0, 0, 1)]


async def test_an_exact_limit_cuts_a_batch() -> None:
    workers = await Workers.started()
    await workers.broker.produce(batch(*"abcde"))
    one, two = workers.member("m1"), workers.member("m2")
    assert values(await one.fetch(max_records=2, share_acquire_mode=1)) == ["a", "b"]
    assert values(await two.fetch(max_records=2)) == ["c", "d", "e"]


async def test_an_acknowledgement_is_answered_when_it_is_durable() -> None:
    workers = await started("a")
    member = workers.member()
    await member.fetch()
    workers.store.hold()
    begun = member.begin_acknowledge((0, 0, (ACCEPT,)))
    await settled()
    assert not begun.done()
    workers.store.release()
    assert (await member.acknowledged(begun)).responses[0].partitions[0].error_code == NONE


async def test_acknowledgements_that_come_while_one_is_written_go_together() -> None:
    workers = await started(*"abcd")
    members = [workers.member(f"m{index}") for index in range(4)]
    for index, member in enumerate(members):
        assert acquired(await member.fetch(max_records=1)) == [(index, index, 1)]
    workers.store.hold()
    begun = [members[0].begin_acknowledge((0, 0, (ACCEPT,)))]
    await settled()
    begun += [member.begin_acknowledge((at, at, (ACCEPT,))) for at, member in enumerate(members[1:], 1)]
    await settled()
    workers.store.release()
    for each, member in zip(begun, members, strict=True):
        await member.acknowledged(each)
    assert [len(batches) for batches, _, _ in workers.store.writes] == [0, 1, 3]


async def test_acknowledgements_within_a_fetch_have_their_results_in_its_response() -> None:
    workers = await started("a", "b")
    member = workers.member()
    await member.fetch()
    data = await member.fetch(acknowledge=[(0, 0, (ACCEPT,)), (1, 1, (RELEASE,))], max_wait_ms=1000)
    assert (data.acknowledge_error_code, data.error_code) == (NONE, NONE)
    assert acquired(data) == [(1, 1, 2)], "what it has released is its own to fetch"
    data = await member.fetch(acknowledge=[(0, 0, (ACCEPT,))])
    assert data.acknowledge_error_code == NONE, "before the start it is done"
    data = await member.fetch(acknowledge=[(5, 9, (ACCEPT,))])
    assert data.acknowledge_error_code == ErrorCode.INVALID_REQUEST


async def test_a_fetch_waits_for_records_and_for_what_others_let_go() -> None:
    workers = await started()
    one, two = workers.member("m1"), workers.member("m2")
    begun = one.begin(max_wait_ms=5000)
    await settled()
    assert not begun.done()
    await workers.broker.produce(batch("a"))
    assert values((await one.finish(begun)).responses[0].partitions[0]) == ["a"]
    waiting = two.begin(max_wait_ms=5000)
    await settled()
    assert not waiting.done()
    assert await one.acknowledge((0, 0, (RELEASE,))) is NONE
    data = (await two.finish(waiting)).responses[0].partitions[0]
    assert acquired(data) == [(0, 0, 2)]


async def test_a_fetch_that_waits_ends_after_its_time_and_when_another_request_comes_behind_it() -> None:
    workers = await started()
    member = workers.member()
    begun = member.begin(max_wait_ms=5000)
    await settled()
    workers.broker.clock.advance(5000)
    assert (await member.finish(begun)).responses[0].partitions[0].error_code == NONE
    begun = member.begin(max_wait_ms=5000)
    await settled()
    member.connection.end_wait()
    assert (await member.finish(begun)).responses == ()


async def test_a_fetch_waits_for_as_many_bytes_as_it_wants() -> None:
    workers = await started()
    member = workers.member()
    size = len(batch("a"))
    begun = member.begin(max_wait_ms=5000, min_bytes=size + 1)
    await settled()
    await workers.broker.produce(batch("a"))
    await settled()
    assert not begun.done()
    await workers.broker.produce(batch("b"))
    assert values((await member.finish(begun)).responses[0].partitions[0]) == ["a", "b"]


@pytest.mark.parametrize("is_left", [False, True])
async def test_a_fetch_that_wants_many_bytes_and_came_while_another_one_read_misses_nothing(is_left: bool) -> None:
    workers = await started()
    members = [workers.member(f"m{index}") for index in range(3)]
    for member in members:
        await member.fetch()
    led = workers.sharing.partitions.known(GROUP, workers.topic_id, 0)
    assert led is not None
    assert led.begin_fetch() == 0, "as one that waits for the disk"
    waiting = [member.begin(max_wait_ms=60_000, min_bytes=2, max_records=1) for member in members]
    await settled()
    if is_left:
        await workers.broker.produce(batch("a"))
    led.end_fetch()
    await settled()
    assert [each.done() for each in waiting] == [is_left, False, False]
    for value in ("b", "c", "d")[is_left:]:
        await workers.broker.produce(batch(value))
        await settled()
    assert all(each.done() for each in waiting)
    responses = [await member.finish(each) for member, each in zip(members, waiting, strict=True)]
    assert sorted(value for each in responses for value in values(each.responses[0].partitions[0])) == (
        ["a", "c", "d"] if is_left else ["b", "c", "d"]
    )


async def test_what_a_member_keeps_for_too_long_goes_to_others() -> None:
    workers = await started("a", "b")
    one, two = workers.member("m1"), workers.member("m2")
    await one.fetch()
    waiting = two.begin(max_wait_ms=60_000)
    workers.broker.clock.advance(29_000)
    assert await one.acknowledge((1, 1, (RENEW,)), is_renew_ack=True) is NONE
    workers.broker.clock.advance(1001)
    data = (await two.finish(waiting)).responses[0].partitions[0]
    assert acquired(data) == [(0, 0, 2)]
    assert await one.acknowledge((0, 0, (ACCEPT,))) is ErrorCode.INVALID_RECORD_STATE
    assert await one.acknowledge((1, 1, (ACCEPT,))) is NONE
    assert workers.sharing.partitions.counts.lock_timeouts == 1


@pytest.mark.parametrize("how", ["acquired", "renewed"])
async def test_a_lock_of_a_lowered_duration_ends_before_older_ones(how: str) -> None:
    workers = await started("a", "b")
    one, two, three = (workers.member(name) for name in ("m1", "m2", "m3"))
    await one.fetch(max_records=1)
    if how == "renewed":
        await two.fetch(max_records=1)
    workers.config = replace(workers.config, record_lock_duration_ms=1000)
    if how == "renewed":
        assert await two.acknowledge((1, 1, (RENEW,)), is_renew_ack=True) is NONE
    else:
        assert acquired(await two.fetch(max_records=1)) == [(1, 1, 1)]
    waiting = three.begin(max_wait_ms=60_000)
    workers.broker.clock.advance(1001)
    assert acquired((await three.finish(waiting)).responses[0].partitions[0]) == [(1, 1, 2)]
    assert await one.acknowledge((0, 0, (ACCEPT,))) is NONE


async def test_a_connection_that_ends_lets_go_of_what_its_member_has() -> None:
    workers = await started("a", "b", "c")
    one, two = workers.member("m1"), workers.member("m2")
    await one.fetch(max_records=2)
    waiting = two.begin(max_wait_ms=60_000)
    assert acquired((await two.finish(waiting)).responses[0].partitions[0]) == [(2, 2, 1)]
    one.connection.close()
    assert acquired(await two.fetch()) == [(0, 1, 2)]
    one.epoch = 1
    assert await one.acknowledge((0, 0, (ACCEPT,))) is ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_a_session_that_ends_acknowledges_and_lets_go_of_the_rest() -> None:
    workers = await started("a", "b")
    one, two = workers.member("m1"), workers.member("m2")
    await two.fetch(max_wait_ms=0, max_records=1)
    await one.fetch()
    assert await one.acknowledge((1, 1, (ACCEPT,)), epoch=-1) is NONE
    assert await two.acknowledge((0, 0, (RELEASE,))) is NONE
    assert acquired(await two.fetch()) == [(0, 0, 2)]
    data = await two.fetch(epoch=-1, acknowledge=[(0, 0, (REJECT,))])
    assert (data.acknowledge_error_code, acquired(data)) == (NONE, [])
    assert len(workers.sharing.sessions) == len(workers.sharing.partitions) == 0


async def test_a_new_session_of_a_member_keeps_what_it_had() -> None:
    workers = await started("a", "b")
    member = workers.member()
    await member.fetch(max_records=1)
    member.epoch = 0
    assert acquired(await member.fetch()) == [(1, 1, 1)]
    assert await member.acknowledge((0, 1, (ACCEPT,))) is NONE


async def test_epochs_tell_a_request_that_comes_twice() -> None:
    workers = await started("a")
    member = workers.member()
    assert await member.acknowledge((0, 0, (ACCEPT,)), epoch=0) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert (await member.response(epoch=3)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert (await member.response(epoch=-1)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    await member.fetch()
    assert (await member.response(epoch=2)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert await member.acknowledge((0, 0, (ACCEPT,))) is NONE
    assert await member.acknowledge((0, 0, (ACCEPT,)), epoch=1) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    next(iter(workers.sharing.sessions)).epoch = member.epoch = 2**31 - 1
    await member.fetch()
    member.epoch = 1
    await member.fetch()


async def test_requests_that_make_no_sense_are_refused() -> None:
    workers = await started("a")
    for name in ("", "m" * 37):
        assert (await workers.member(name).response()).error_code == ErrorCode.INVALID_REQUEST
    member = workers.member()
    opening = await member.response(acknowledge=[(0, 0, (ACCEPT,))])
    assert opening.error_code == ErrorCode.INVALID_REQUEST
    await member.fetch()
    assert (await member.response(is_renew_ack=True)).error_code == ErrorCode.INVALID_REQUEST
    nothing = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "max_wait_ms": 0}
    data = await member.fetch(is_renew_ack=True, acknowledge=[(0, 0, (RENEW,))], **nothing)
    assert (data.acknowledge_error_code, acquired(data)) == (NONE, [])
    assert await member.acknowledge((0, 0, (RENEW,))) is ErrorCode.INVALID_REQUEST


async def test_sessions_are_bounded_and_who_comes_too_late_waits_before_it_hears_so() -> None:
    workers = await started("a", group_share_max_share_sessions=1)
    one, two = workers.member("m1"), workers.member("m2")
    await one.fetch()
    begun = two.begin(max_wait_ms=500)
    await settled()
    assert not begun.done()
    workers.broker.clock.advance(500)
    assert (await two.finish(begun)).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    one.connection.close()
    assert values(await two.fetch(max_wait_ms=500)) == ["a"]


async def test_the_partitions_of_sessions_are_bounded_in_all_and_for_each_user() -> None:
    sharing = (await started()).sharing
    sessions = ShareSessions(sharing.partitions, clock=ManualClock(), max_sessions=9, max_partitions=6)

    def opened(member: str, count: int, owner: str) -> ShareSession | ErrorCode:
        some = [TopicIdPartition(b"t" * 16, each) for each in range(count)]
        return sessions.open(SessionKey(GROUP, member), some, None, owner)

    assert isinstance(opened("a", 3, "x"), ShareSession)
    assert opened("b", 1, "x") is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    y = opened("c", 3, "y")
    assert isinstance(y, ShareSession)
    assert opened("d", 1, "z") is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert isinstance(opened("a", 2, "x"), ShareSession), "in place of its old one"
    assert isinstance(opened("d", 1, "z"), ShareSession)
    sessions.change(y, (), y.partitions.copy())
    assert sessions.partition_count == 3
    for each in sessions:
        sessions.end(each)
    assert sessions.partition_count == 0


async def test_share_partitions_are_bounded() -> None:
    workers = await started(partitions=3, eosin_share_max_partitions=2)
    response = await workers.member().response(0, 1, 2)
    errors = [each.error_code for each in response.responses[0].partitions]
    assert errors == [NONE, NONE, ErrorCode.UNKNOWN_SERVER_ERROR]
    assert "eosin.share.max.partitions" in (response.responses[0].partitions[2].error_message or "")


async def test_unknown_topics_and_partitions_are_told_by_themselves() -> None:
    workers = await started("a")
    response = await workers.member().response(0, 7)
    assert [each.error_code for each in response.responses[0].partitions] == [
        NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert (await workers.member("m2").fetch(topic_id=b"x" * 16)).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    stray = await workers.member("m1").acknowledged(
        workers.member("m1").begin_acknowledge((0, 0, (ACCEPT,)), topic_id=b"x" * 16, epoch=1)
    )
    assert stray.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_partitions_come_in_turn() -> None:
    workers = await started(partitions=2)
    for partition in (0, 1):
        await workers.broker.produce(batch(*"abc"), partition=partition)
        await workers.broker.produce(batch(*"abc"), partition=partition)
    member = workers.member()
    first = await member.response(0, 1, max_records=1)
    assert [acquired(each) for each in first.responses[0].partitions] == [[(0, 2, 1)], []]
    second = await member.response(max_records=1)
    assert [each.partition_index for each in second.responses[0].partitions] == [1]


async def test_a_group_that_reads_committed_gets_no_aborted_record_and_no_open_one() -> None:
    workers = await started(config=COMMITTED, transaction_partition_verification_enable=False)
    log, member = workers.broker.log(), workers.member()

    async def write(value: str, producer_id: int, sequence: int) -> None:
        sent = batch(value, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True)
        assert (await workers.broker.produce(sent, transactional_id=f"t{producer_id}")).error_code == NONE

    def end(producer_id: int, *, commit: bool) -> None:
        log.append_marker(Marker(producer_id, 0, commit, 0), now_ms=workers.broker.clock.now_ms())

    await workers.broker.produce(batch("plain"))
    await write("a0", 1, 0)
    await write("b0", 2, 0)
    await write("a1", 1, 1)
    assert values(await member.fetch()) == ["plain"], "the rest is open"
    end(1, commit=False)
    assert values(await member.fetch()) == [], "the older transaction may be committed behind the open one"
    end(2, commit=True)
    await write("c0", 1, 2)
    assert values(await member.fetch()) == ["b0"]
    assert await member.acknowledge((0, 0, (ACCEPT,)), (2, 2, (ACCEPT,))) is NONE
    end(1, commit=True)
    assert values(await member.fetch()) == ["c0"]
    assert await member.acknowledge((6, 6, (ACCEPT,))) is NONE
    await member.fetch()
    share = workers.sharing.partitions.known("workers", workers.topic_id, 0)
    assert share is not None
    assert share.window is not None
    assert (share.window.start, share.window.end) == (8, 8), "markers and aborted records are done, too"


async def test_a_group_that_reads_uncommitted_gets_all_but_markers() -> None:
    workers = await started(transaction_partition_verification_enable=False)
    log, member = workers.broker.log(), workers.member()
    sent = batch("a0", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    await workers.broker.produce(sent, transactional_id="t")
    assert values(await member.fetch()) == ["a0"]
    log.append_marker(Marker(1, 0, False, 0), now_ms=workers.broker.clock.now_ms())
    await workers.broker.produce(batch("b"))
    data = await member.fetch()
    assert (acquired(data), values(data)) == ([(2, 2, 1)], ["b"])


async def test_a_stretch_of_aborted_records_alone_moves_the_stored_start() -> None:
    workers = await started(config=COMMITTED, transaction_partition_verification_enable=False)
    sent = batch(*"abc", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    await workers.broker.produce(sent, transactional_id="t")
    workers.broker.log().append_marker(Marker(1, 0, False, 0), now_ms=workers.broker.clock.now_ms())
    assert acquired(await workers.member().fetch()) == []
    await settled()
    assert workers.store.states[workers.key()].start_offset == 4


async def test_a_start_that_has_moved_is_stored_after_a_while_and_when_the_last_member_goes() -> None:
    workers = await started("a", "b")
    member = workers.member()
    await member.fetch(max_records=1)
    assert await member.acknowledge((0, 0, (ACCEPT,))) is NONE
    assert workers.store.states[workers.key()].start_offset == 0
    workers.broker.clock.advance(5000)
    await settled()
    assert workers.store.states[workers.key()].start_offset == 1
    await member.fetch()
    assert await member.acknowledge((1, 1, (ACCEPT,))) is NONE
    member.connection.close()
    await settled()
    assert workers.store.states[workers.key()].start_offset == 2


async def test_a_new_group_begins_where_its_setting_says_and_that_is_stored_at_once() -> None:
    workers = await started("a", "b", config=ShareGroupConfig())
    member = workers.member()
    assert acquired(await member.fetch()) == []
    assert workers.store.states[workers.key()].start_offset == 2
    await workers.broker.produce(batch("c"))
    assert values(await member.fetch()) == ["c"]


async def test_a_new_group_begins_at_records_of_some_age() -> None:
    workers = await started(config=ShareGroupConfig(auto_offset_reset="by_duration:PT1M"))
    now_ms = workers.broker.clock.now_ms()
    for value, age_ms in (("old", 90_000), ("young", 30_000)):
        await workers.broker.produce(batch(value, timestamp=now_ms - age_ms))
    member = workers.member()
    begun = member.begin(max_wait_ms=5000)
    data = (await member.finish(begun)).responses[0].partitions[0]
    assert values(data) == ["young"]


async def test_records_of_an_earlier_leader_that_nobody_accepted_come_again() -> None:
    workers = await started(*"abcd")
    member = workers.member()
    await member.fetch()
    assert await member.acknowledge((1, 2, (ACCEPT,))) is NONE
    broker = workers.broker
    await broker.stop()
    again = await DataBroker.started(disk=broker.disk, clock=broker.clock)
    moved = await Workers.started(broker=again, store=workers.store)
    data = await moved.member("m2").fetch()
    assert values(data) == ["a", "d"]


async def test_a_leader_of_before_writes_nothing_and_says_so() -> None:
    workers = await started("a")
    member = workers.member()
    await member.fetch()
    workers.store.states[workers.key()].leader_epoch += 1
    assert await member.acknowledge((0, 0, (ACCEPT,))) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(workers.sharing.partitions) == 0


async def test_an_acknowledgement_that_cannot_be_written_fails_and_the_member_keeps_the_record() -> None:
    workers = await started("a")
    member = workers.member()
    await member.fetch()
    workers.store.error = ErrorCode.NOT_COORDINATOR
    assert await member.acknowledge((0, 0, (ACCEPT,))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    workers.store.error = NONE
    assert await member.acknowledge((0, 0, (ACCEPT,))) is NONE


async def test_a_share_coordinator_that_is_away_is_waited_for() -> None:
    workers = await started("a")
    member = workers.member()
    workers.store.read_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    begun = member.begin(max_wait_ms=5000)
    await settled()
    workers.store.read_error = NONE
    workers.broker.clock.advance(1000)
    assert values((await member.finish(begun)).responses[0].partitions[0]) == ["a"]


@pytest.mark.parametrize("takes_turns", [False, True])
async def test_a_partition_that_nobody_has_initialized_is_unknown(takes_turns: bool) -> None:
    workers = await started("a")
    workers.store.is_open, workers.store.takes_turns = False, takes_turns
    assert (await workers.member().fetch(max_wait_ms=100)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_what_is_still_being_written_for_a_group_is_read_by_its_next_members() -> None:
    workers = await started("a", "b")
    member = workers.member()
    await member.fetch()
    workers.store.hold()
    begun = member.begin_acknowledge((0, 0, (ACCEPT,)))
    await settled()
    member.connection.close()
    other = workers.member("m2")
    waiting = other.begin(max_wait_ms=5000)
    await settled()
    workers.store.release()
    assert (await begun).responses[0].partitions[0].error_code == NONE
    data = (await other.finish(waiting)).responses[0].partitions[0]
    assert values(data) == ["b"], "the first one was accepted, and its member was told so"


async def test_records_that_retention_deletes_are_done() -> None:
    workers = await started(*"abc")
    member = workers.member()
    await member.fetch(max_records=1)
    await workers.broker.log().delete_records_before(2)
    assert values(await member.fetch()) == ["c"]
    assert await member.acknowledge((0, 2, (ACCEPT,))) is NONE


async def test_a_deleted_topic_takes_its_share_partitions_along_and_ends_waits() -> None:
    workers = await started("a")
    one, two = workers.member("m1"), workers.member("m2")
    topic_id = workers.topic_id
    await one.fetch()
    waiting = two.begin(max_wait_ms=5000)
    await settled()
    await workers.broker.cluster.delete_topic("orders")
    response = await two.finish(waiting)
    assert response.responses[0].partitions[0].error_code != NONE
    assert len(workers.sharing.partitions) == 0
    stray = await one.acknowledged(one.begin_acknowledge((0, 0, (ACCEPT,)), topic_id=topic_id))
    assert stray.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_without_the_feature_there_are_neither_sessions_nor_share_partitions() -> None:
    workers = await started("a")
    member = workers.member()
    await member.fetch()
    await workers.broker.cluster.finalize_levels({SHARE_VERSION: 0})
    assert len(workers.sharing.sessions) == len(workers.sharing.partitions) == 0
    response = await member.response()
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "share.version is 0" in (response.error_message or "")
    assert await member.acknowledge((0, 0, (ACCEPT,))) is ErrorCode.UNSUPPORTED_VERSION


async def test_a_log_that_was_cut_is_read_from_where_it_ends_and_lost_offsets_count_no_more() -> None:
    workers = await started(*"abc")
    stored = workers.store.states[workers.key()] = StoredState(0, 0)
    for offset in (1, 2, 3, 4, 5):
        stored.records[offset] = (1, DeliveryState.ACKNOWLEDGED)
    member = workers.member()
    assert values(await member.fetch()) == ["a"]
    for value in "def":
        await workers.broker.produce(batch(value))
    assert values(await member.fetch()) == ["d", "e", "f"]
    assert [each for each in workers.store.states[workers.key()].records if each > 2] == []
    assert workers.sharing.partitions.counts.log_cuts == 1


async def test_of_a_log_that_was_cut_what_is_acknowledged_stays_so_though_its_write_fails_at_first() -> None:
    workers = await started(*"abc")
    stored = workers.store.states[workers.key()] = StoredState(0, 0)
    for offset in (1, 2, 3, 4, 5):
        stored.records[offset] = (1, DeliveryState.ACKNOWLEDGED)
    workers.store.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    begun = workers.member().begin(max_wait_ms=60_000)
    await settled()
    workers.store.error = NONE
    workers.broker.clock.advance(1000)
    await settled()
    response = await workers.broker.answer(share_fetch.API, begun, 2)
    assert values(response.responses[0].partitions[0]) == ["a"]
    assert sorted(workers.store.states[workers.key()].records) == [1, 2]


async def test_a_partition_that_is_forgotten_may_still_be_acknowledged() -> None:
    workers = await started("a", "b")
    member = workers.member()
    await member.fetch(max_records=1)
    data = await member.fetch(acknowledge=[(0, 0, (ACCEPT,))], forget=(0,))
    assert (data.acknowledge_error_code, acquired(data)) == (NONE, [])
    assert (await member.response()).responses == ()


async def test_a_broker_that_stops_answers_those_who_wait_and_finishes_its_writes() -> None:
    workers = await started("a")
    one, two = workers.member("m1"), workers.member("m2")
    await one.fetch()
    waiting = two.begin(max_wait_ms=60_000)
    workers.store.hold()
    begun = one.begin_acknowledge((0, 0, (ACCEPT,)))
    await settled()
    workers.sharing.stop_waiting()
    assert acquired((await two.finish(waiting)).responses[0].partitions[0]) == []
    stopping = asyncio.ensure_future(workers.sharing.stop())
    await settled()
    workers.store.release()
    await stopping
    assert (await one.acknowledged(begun)).responses[0].partitions[0].error_code == NONE


@pytest.mark.parametrize("error", [ErrorCode.FENCED_STATE_EPOCH, ErrorCode.INVALID_REQUEST])
async def test_a_state_that_was_made_anew_is_read_anew(error: ErrorCode) -> None:
    workers = await started("a")
    member = workers.member()
    await member.fetch()
    workers.store.error = error
    assert await member.acknowledge((0, 0, (ACCEPT,))) in (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
    workers.store.error = NONE
    workers.store.states[workers.key()] = type(workers.store.states[workers.key()])(7, 0)
    assert acquired(await member.fetch()) == [(0, 0, 1)]


def test_the_fake_is_a_store() -> None:
    from eosin.coordinator.share_states import ShareStateStore

    store: ShareStateStore = FakeShareStateStore()
    assert store is not None


async def test_one_record_wakes_one_of_many_members_and_the_next_one_the_next() -> None:
    workers = await started("a")
    first = workers.member("first")
    await first.fetch()
    assert await first.acknowledge((0, 0, (ACCEPT,))) is NONE
    members = [workers.member(f"m{number}") for number in range(50)]
    begun = [member.begin(max_wait_ms=60_000) for member in members]
    await settled()
    partition = workers.sharing.partitions.known("workers", workers.topic_id, 0)
    assert partition is not None
    for number in range(3):
        await workers.broker.produce(batch("b"))
        await settled()
        assert [each.done() for each in begun] == [place <= number for place in range(50)]
    for _ in range(3):  # three at once, of which each is for one
        workers.broker.log().append(batch("c"), now_ms=1)
    await settled()
    got = [await member.finish(each) for member, each in zip(members[3:4], begun[3:4], strict=True)]
    assert values(got[0].responses[0].partitions[0]) == ["c", "c", "c"], "one fetch takes all that it may"
    assert not begun[4].done()
