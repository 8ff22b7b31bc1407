"""A Fetch of more partitions than one turn has time for: answered as if it were in none."""

import asyncio
from typing import Any

from data_broker import DataBroker, batch, settle
from manual_clock import ManualClock

from eosin.broker.fetching.sessions import MAX_PARTITIONS, FetchSessions, FullFetch, IncrementalFetch
from eosin.broker.handlers import fetch
from eosin.network.many_items import ITEMS_PER_TURN
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from eosin.runtime.chance import SeededChance

MANY = 2 * ITEMS_PER_TURN + 50


def topic(name: str, indexes: range, *, offset: int = 0, max_bytes: int = 1 << 20) -> FetchTopic:
    wanted = (FetchPartition(each, fetch_offset=offset, partition_max_bytes=max_bytes) for each in indexes)
    return FetchTopic(name, partitions=tuple(wanted))


def request(*topics: FetchTopic, **how: Any) -> FetchRequest:
    return FetchRequest(**{"max_wait_ms": 0, "min_bytes": 1, "topics": topics, **how})


async def filled_broker() -> DataBroker:
    """One with a record in every third partition."""
    broker = await DataBroker.started()
    await broker.create_topic("orders", partitions=MANY)
    await broker.create_topic("bills")
    for index in range(0, MANY, 3):
        await broker.produce(batch(f"v{index:04}"), partition=index)
    return broker


async def test_each_partition_is_answered_as_in_a_small_fetch_and_in_its_place() -> None:
    broker = await filled_broker()
    asked = (topic("gone", range(2)), topic("orders", range(MANY + 2)), topic("bills", range(1)))
    whole = await broker.call(fetch.API, request(*asked), 12)
    assert [(each.topic, len(each.partitions)) for each in whole.responses] == [
        ("gone", 2),
        ("orders", MANY + 2),
        ("bills", 1),
    ]
    for one in asked:
        parts: list[Any] = []
        for start in range(0, len(one.partitions), ITEMS_PER_TURN // 2):
            some = FetchTopic(one.topic, partitions=one.partitions[start : start + ITEMS_PER_TURN // 2])
            parts += (await broker.call(fetch.API, request(some), 12)).responses[0].partitions
        (found,) = (each for each in whole.responses if each.topic == one.topic)
        assert list(found.partitions) == parts
    await broker.stop()


async def test_the_bytes_of_a_response_are_limited_over_all_turns() -> None:
    broker = await filled_broker()
    one = len((await broker.fetch(0, partition=0)).records)
    response = await broker.call(fetch.API, request(topic("orders", range(MANY)), max_bytes=10 * one), 12)
    sizes = [len(each.records) for each in response.responses[0].partitions]
    assert sum(1 for size in sizes if size) == 10
    await broker.stop()


async def test_it_waits_for_any_of_its_partitions() -> None:
    broker = await filled_broker()
    wanted = topic("orders", range(1, MANY, 3))
    begun = broker.begin(fetch.API, request(wanted, max_wait_ms=500), 12)
    await settle()
    assert not begun.done()
    await broker.produce(batch("new"), partition=1 + 3 * 100)
    await settle()
    response = begun.result()
    assert [each.partition_index for each in response.responses[0].partitions if each.records] == [301]
    await broker.stop()


async def test_a_fetch_of_one_partition_again_and_again_waits_for_it_once() -> None:
    broker = await DataBroker.started()
    await broker.create_topic()
    wanted = FetchTopic("orders", partitions=(FetchPartition(0, partition_max_bytes=1 << 20),) * MANY)
    begun = broker.begin(fetch.API, request(wanted, max_wait_ms=500), 12)
    await settle()
    assert broker.partitions.long_polls.waiting(broker.log()) == 1
    await broker.produce(batch("new"))
    await settle()
    assert len(begun.result().responses[0].partitions) == MANY
    await broker.stop()


async def test_a_session_goes_on_with_what_is_new_in_it() -> None:
    broker = await filled_broker()
    first = await broker.call(fetch.API, request(topic("orders", range(MANY)), session_epoch=0), 12)
    assert first.session_id
    read = tuple(FetchPartition(index, fetch_offset=int(index % 3 == 0)) for index in range(MANY))
    how = {"session_id": first.session_id, "session_epoch": 1}
    again = await broker.call(fetch.API, request(FetchTopic("orders", partitions=read), **how), 12)
    assert (again.session_id, again.responses) == (first.session_id, ())
    await broker.produce(batch("new"), partition=7)
    news = await broker.call(fetch.API, request(**{**how, "session_epoch": 2}), 12)
    assert [each.partition_index for each in news.responses[0].partitions] == [7]
    await broker.stop()


def sessions() -> FetchSessions:
    return FetchSessions(slots=3, clock=ManualClock(), chance=SeededChance(1))


def wanted_by(found: FullFetch | IncrementalFetch | ErrorCode) -> list[tuple[Any, int]]:
    assert not isinstance(found, ErrorCode)
    return [(each.key, each.fetch_offset) for each in found.wanted]


async def test_a_session_that_changes_in_turns_is_one_that_changes_at_once() -> None:
    full = request(topic("orders", range(MANY)), topic("bills", range(3)), session_epoch=0)
    change = (topic("orders", range(10, MANY + 300), offset=5), topic("new", range(2)))
    even = tuple(range(0, MANY, 2))
    forgotten = (ForgottenTopic("orders", partitions=even), ForgottenTopic("bills", partitions=(1,)))

    async def begun(
        of: FetchSessions, asked: FetchRequest, *, in_turns: bool
    ) -> FullFetch | IncrementalFetch | ErrorCode:
        if in_turns:
            return await of.begin_in_turns(asked, uses_topic_ids=False)
        return of.begin(asked, uses_topic_ids=False)

    found = []
    for in_turns in (False, True):
        of = sessions()
        fetched = await begun(of, full, in_turns=in_turns)
        assert isinstance(fetched, FullFetch)
        session = of.open(fetched)
        assert session is not None
        later = request(*change, forgotten_topics_data=forgotten, session_id=session.session_id, session_epoch=1)
        changed = await begun(of, later, in_turns=in_turns)
        assert isinstance(changed, IncrementalFetch)
        found.append((wanted_by(fetched), wanted_by(changed), len(changed.added), of.held_bytes, session.epoch))
    assert found[0] == found[1]


async def test_a_session_that_ends_while_it_changes_is_not_found() -> None:
    of = sessions()
    fetched = of.begin(request(topic("orders", range(3)), session_epoch=0), uses_topic_ids=False)
    assert isinstance(fetched, FullFetch)
    session = of.open(fetched)
    assert session is not None
    later = request(topic("orders", range(MANY)), session_id=session.session_id, session_epoch=1)
    changing = asyncio.ensure_future(of.begin_in_turns(later, uses_topic_ids=False))
    await asyncio.sleep(0)
    of.drop(session.session_id)
    assert await changing is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(of), of.held_bytes) == (0, 0)


async def test_a_change_beyond_what_a_session_may_hold_ends_it_before_it_is_made() -> None:
    of = sessions()
    fetched = of.begin(request(topic("orders", range(3)), session_epoch=0), uses_topic_ids=False)
    assert isinstance(fetched, FullFetch)
    session = of.open(fetched)
    assert session is not None
    sizes: list[int] = []
    later = request(topic("orders", range(3 * MAX_PARTITIONS)), session_id=session.session_id, session_epoch=1)
    changing = asyncio.ensure_future(of.begin_in_turns(later, uses_topic_ids=False))
    while not changing.done():
        sizes.append(len(session.partitions))
        await asyncio.sleep(0)
    assert changing.result() is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert max(sizes) <= MAX_PARTITIONS + ITEMS_PER_TURN
    assert (len(of), of.held_bytes) == (0, 0)
