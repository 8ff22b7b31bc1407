"""Partitions of which a follower has everything rest until there is something to say (cluster.md 4.9): its fetches do
not look at them, and wait for them all the same."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from call_counter import CallCounter
from data_broker import batch, settle
from registrations import Partition
from serving_leader import LAG_MS, FollowerSession, Leader, idle_follower, leader

from eosin.broker.fetching.resting import TOLD_TOGETHER_MS
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.fetch import PartitionData
from eosin.settings.quorum import RACK_AWARE
from eosin.storage.log.partition_log import PartitionLog

WAIT_MS = 500


async def leader_of_three(**config: Any) -> Leader:
    leads = await leader(**config)
    leads.lead(1, 2, 3)
    return leads


async def more(leads: Leader, count: int) -> list[PartitionLog]:
    """So many more partitions, whose one follower is broker 2."""
    await leads.broker.create_topic("more", partitions=count)
    logs = [leads.broker.log("more", index) for index in range(count)]
    for log in logs:
        log.become_leader(5)
        leads.leading.lead(log, log.topic_id, Partition((1, 2), (1, 2), 5, 1))
    return logs


async def resting(leads: Leader, *others: PartitionLog) -> FollowerSession:
    """Follower 2, of which all partitions rest."""
    session = FollowerSession(leads, 2)
    await session.answers(session.begin({log: log.log_end_offset for log in (leads.log, *others)}))
    for _ in range(2):
        assert await session.answers(session.begin()) == {}
    return session


async def waiting(session: FollowerSession) -> "asyncio.Future[Any]":
    begun: asyncio.Future[Any] = session.begin(max_wait_ms=WAIT_MS)
    await settle()
    assert not begun.done()
    return begun


async def only_answer(session: FollowerSession, begun: Any) -> PartitionData:
    (told,) = (await session.answers(begun)).values()
    return told


async def test_a_fetch_costs_what_has_changed_and_not_the_number_of_partitions() -> None:
    calls: list[int] = []
    for count in (1, 10, 200):  # the first makes codecs
        leads = await leader_of_three()
        session = await resting(leads, *await more(leads, count))
        with CallCounter() as counter:
            begun = session.begin(max_wait_ms=WAIT_MS)
            leads.broker.begin_produce(batch("a"))
            await settle()
        calls.append(counter.calls)
        assert (await only_answer(session, begun)).records
    assert calls[2] < calls[1] + 20, "190 partitions more take no 20 calls"


async def test_a_fetch_that_waits_is_answered_as_soon_as_something_is_written() -> None:
    leads = await leader_of_three()
    session = await resting(leads)
    begun = await waiting(session)
    leads.broker.begin_produce(batch("a"))
    await settle()
    assert begun.done(), "no time has passed"
    assert (await only_answer(session, begun)).records


async def test_what_was_written_between_two_fetches_is_in_the_answer_to_the_second() -> None:
    leads = await leader_of_three()
    (other,) = await more(leads, 1)
    session = await resting(leads, other)
    leads.broker.begin_produce(batch("a"))
    assert (await only_answer(session, session.begin(max_wait_ms=WAIT_MS))).records
    begun = session.begin({leads.log: 1}, max_wait_ms=WAIT_MS)
    await settle()
    assert not begun.done(), "it has everything again"
    leads.broker.begin_produce(batch("b"))
    await settle()
    assert (await only_answer(session, begun)).records


async def test_a_fetch_that_wants_more_than_one_batch_waits_for_all_partitions_together() -> None:
    leads = await leader_of_three()
    (other,) = await more(leads, 1)
    session = await resting(leads, other)
    size = len(batch("a"))
    begun = session.begin(max_wait_ms=WAIT_MS, min_bytes=2 * size)
    leads.broker.begin_produce(batch("a"))
    await settle()
    assert not begun.done()
    leads.broker.begin_produce(batch("a"), topic="more")
    await settle()
    assert begun.done()
    assert len(await session.answers(begun)) == 2


async def test_a_fetch_that_waits_is_not_answered_for_a_higher_high_watermark() -> None:
    leads = await leader_of_three()
    leads.broker.begin_produce(batch("a"))
    session = await resting(leads)
    begun = await waiting(session)
    await leads.fetched(3, 1)
    await settle()
    assert leads.log.high_watermark == 1
    assert not begun.done()
    leads.broker.clock.advance(WAIT_MS)
    told = await only_answer(session, begun)
    assert (told.high_watermark, told.records) == (1, b"")


async def rounds_until_told(leads: Leader) -> int:
    """Fetches, a quarter of TOLD_TOGETHER_MS each, until one that brings records of another partition tells a high
    watermark as well."""
    leads.broker.begin_produce(batch("a"))
    (other,) = await more(leads, 1)
    session = await resting(leads, other)
    await leads.fetched(3, 1)
    assert leads.log.high_watermark == 1
    for count in range(10):
        begun = session.begin({other: count} if count else {}, max_wait_ms=WAIT_MS)
        await settle()
        leads.broker.clock.advance(TOLD_TOGETHER_MS // 4)
        leads.broker.begin_produce(batch("b"), topic="more")
        await settle()
        answers = await session.answers(begun)
        assert answers[other.topic_id, 0].records
        if (leads.log.topic_id, 0) in answers:
            return count
    raise AssertionError("it is never told")


async def test_a_busy_follower_is_told_of_high_watermarks_together() -> None:
    """One in an answer costs both sides as much as a batch of records does."""
    assert await rounds_until_told(await leader_of_three()) in (3, 4)


async def test_where_consumers_may_read_from_followers_these_are_told_of_each_high_watermark() -> None:
    assert await rounds_until_told(await leader_of_three(replica_selector_class=RACK_AWARE)) == 0


async def test_records_bring_the_high_watermark_along() -> None:
    leads = await leader_of_three()
    leads.broker.begin_produce(batch("a"))
    session = await resting(leads)
    await leads.fetched(3, 1)
    begun = session.begin(max_wait_ms=WAIT_MS)
    leads.broker.begin_produce(batch("b"))
    told = await only_answer(session, begun)
    assert told.records
    assert told.high_watermark == 1
    assert await session.answers(session.begin({leads.log: 2})) == {}


async def test_a_follower_that_rests_counts_as_heard_with_each_fetch_until_there_is_more() -> None:
    leads = await leader_of_three()
    session = await resting(leads)
    third = await idle_follower(leads, 3)
    for _ in range(3):
        leads.broker.clock.advance(LAG_MS - 1)
        begun = await waiting(session)
        assert await third.fetched() is None
    leads.broker.begin_produce(batch("a"))
    await session.answers(begun)
    leads.broker.clock.advance(LAG_MS)
    await third.fetched(1)
    leads.leading.check_for_lag()
    await settle()
    assert not leads.controller.asked, "it had everything just long enough ago"
    leads.broker.clock.advance(1)
    await third.fetched()
    leads.leading.check_for_lag()
    await settle()
    assert leads.controller.confirm() == (1, 3)


changes = pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda leads: leads.lead(1, 3, replicas=(1, 3), partition_epoch=2), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (lambda leads: leads.leading.resign(leads.log), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (lambda leads: leads.elect(6), ErrorCode.FENCED_LEADER_EPOCH),
        (lambda leads: leads.log.fail(OSError("no sync")), ErrorCode.KAFKA_STORAGE_ERROR),
    ],
    ids=["no replica any more", "another leader", "a new leader epoch", "a failed log"],
)


@changes
async def test_a_fetch_that_waits_hears_at_once_why_it_is_served_no_more(
    change: Callable[[Leader], object], error: ErrorCode
) -> None:
    leads = await leader_of_three()
    session = await resting(leads)
    begun = await waiting(session)
    change(leads)
    await settle()
    assert begun.done(), "no time has passed"
    assert (await only_answer(session, begun)).error_code == error


async def test_a_broker_that_has_registered_again_is_refused_in_the_session_of_its_old_incarnation() -> None:
    leads = await leader_of_three()
    session = await resting(leads)
    leads.register(2, 201)
    assert (await only_answer(session, session.begin(max_wait_ms=WAIT_MS))).error_code == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER
    )


async def test_a_follower_hears_that_the_log_begins_later() -> None:
    leads = await leader_of_three()
    leads.broker.begin_produce(batch("a"))
    await leads.fetched(3, 1)
    session = await resting(leads)
    begun = await waiting(session)
    await leads.log.delete_records_before(1)
    await settle()
    assert begun.done(), "no time has passed"
    assert (await only_answer(session, begun)).log_start_offset == 1


async def test_a_partition_that_is_forgotten_rests_no_more() -> None:
    leads = await leader_of_three()
    (other,) = await more(leads, 1)
    session = await resting(leads, other)
    assert await session.answers(session.begin(forgotten=[leads.log])) == {}
    begun = await waiting(session)
    leads.broker.begin_produce(batch("a"))
    await settle()
    assert not begun.done()
    leads.broker.begin_produce(batch("b"), topic="more")
    await settle()
    assert [topic_id for topic_id, _ in await session.answers(begun)] == [other.topic_id]


async def test_a_follower_that_begins_another_session_is_served_there() -> None:
    """After a lost connection, say: the partition rests in the old session still."""
    leads = await leader_of_three()
    old = await resting(leads)
    session = await resting(leads)
    begun = await waiting(session)
    leads.broker.begin_produce(batch("a"))
    await settle()
    assert (await only_answer(session, begun)).records
    assert (await only_answer(old, old.begin())).records, "nor does it sleep for ever in the old one"


async def test_a_fetch_that_waits_ends_with_the_broker() -> None:
    leads = await leader_of_three()
    session = await resting(leads)
    begun = await waiting(session)
    leads.broker.services.fetch_sessions.end_waits()
    assert await session.answers(begun) == {}


async def test_a_partition_that_got_records_goes_behind_those_that_wait_for_theirs() -> None:
    leads = await leader_of_three()
    logs = await more(leads, 3)
    session = await resting(leads, *logs)
    for index in (2, 0):
        leads.broker.begin_produce(batch("a"), topic="more", partition=index)
    served: list[int] = []
    named: dict[PartitionLog, int] = {}
    for count in (1, 2):
        for _ in range(2):
            answers = await session.answers(session.begin(named, max_bytes=1))
            (index,) = (index for (_, index), data in answers.items() if data.records)
            leads.broker.begin_produce(batch("b"), topic="more", partition=index)
            served.append(index)
            named = {logs[index]: count}
    assert served == [2, 0, 2, 0]
