"""A share session of very many partitions: no step of the event loop goes through all of them (security.md 6.2), and
what happens between two turns is not missed (share-partitions.md 1.8)."""

import asyncio
from functools import partial
from typing import Any

import pytest
from data_broker import batch
from loop_steps import LoopSteps
from share_fakes import ACCEPT, GROUP, RELEASE, Worker, Workers, acquired
from waiting import settled

from eosin.broker.handlers import share_acknowledge, share_fetch
from eosin.broker.sharing.rules.acknowledgements import MOST
from eosin.broker.sharing.share_sessions import MAX_PARTITIONS
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from eosin.protocol.schemas.share_fetch import FetchPartition, FetchTopic, ForgottenTopic, ShareFetchRequest
from eosin.protocol.types import Message
from eosin.runtime.start_now import start_now
from eosin.runtime.turns import next_turn

MOST_S = 0.025
"""Of processor time: a fetch that ended its wait at that many took a step of 41 ms, one that opened a session 27."""
WIDE = 1100
"""Partitions of which 500 are done in one turn."""
MANY, TOO_MANY = 10, 100_000
LOOKED, TURNS = 24, 30
"""After so many a fetch of `WIDE` partitions has looked at all, and after so many it waits."""


class StepsOfTheBroker(LoopSteps):
    """Not those of the test itself, which makes and reads long messages."""

    def took(self, seconds: float, what: Any) -> None:
        if not getattr(what, "__qualname__", "").startswith("test_"):
            super().took(seconds, what)


@pytest.mark.slow
async def test_share_fetches_of_as_many_partitions_as_may_be_keep_the_event_loop_for_milliseconds() -> None:
    workers = await Workers.started(partitions=MAX_PARTITIONS)
    await workers.member("m0").fetch()  # what is imported late
    one, two = workers.member("m1"), workers.member("m2")
    with StepsOfTheBroker() as steps:
        workers.broker.begin = partial(steps.begin, workers.broker.begin)  # type: ignore[method-assign]
        for member in (one, two):
            await member.response(*range(MAX_PARTITIONS))
        waits = [each.begin(max_wait_ms=60_000) for each in (one, two)]
        await settled()
        await workers.broker.produce(batch("a"), partition=MAX_PARTITIONS - 1)
        response = await one.finish(waits[0])
        waits[1].cancel()
        await asyncio.wait(waits[1:])
        await two.response(*range(MAX_PARTITIONS), epoch=0)
    assert acquired(response.responses[0].partitions[0]) == [(0, 0, 1)]
    assert steps.longest_s < MOST_S, steps.longest


@pytest.mark.slow
async def test_as_many_share_partitions_as_may_be_end_in_turns_when_the_feature_goes_off() -> None:
    workers = await Workers.started(partitions=MAX_PARTITIONS)
    one, two = workers.member("m1"), workers.member("m2")
    for member in (one, two):
        await member.response(*range(MAX_PARTITIONS))
    waits = [each.begin(max_wait_ms=60_000) for each in (one, two)]
    await settled()
    with StepsOfTheBroker() as steps:
        steps.begin(workers.sharing.partitions.lose_all)
        await settled()
    assert len(workers.sharing.partitions) == 0
    assert all(each.done() for each in waits)
    assert steps.longest_s < MOST_S, steps.longest


async def begun_in_a_step(steps: LoopSteps, workers: Workers, api: Api, request: Message, member: Worker) -> Any:
    """The response to a request that has come, and is decoded."""
    context = RequestContext(2, "test", "/127.0.0.1", "PLAINTEXT", connection=member.connection)
    found = steps.begin(start_now, api.response(request, context, workers.broker.services))
    if not asyncio.isfuture(found):
        return found
    await settled()
    workers.broker.clock.advance(0)  # a refused client waits for no time at all
    return await found


@pytest.mark.slow
async def test_as_many_acknowledgements_as_a_request_holds_keep_the_event_loop_for_milliseconds() -> None:
    workers = await Workers.started(partitions=MANY)
    member = workers.member()
    await member.response(*range(MANY))
    batches = tuple(AcknowledgementBatch(each, each, (ACCEPT,)) for each in range(MOST))
    some = tuple(AcknowledgePartition(each, batches) for each in range(MANY))
    request = ShareAcknowledgeRequest(
        GROUP, member.name, member.epoch, topics=(AcknowledgeTopic(workers.topic_id, some),)
    )
    with StepsOfTheBroker() as steps:
        response = await begun_in_a_step(steps, workers, share_acknowledge.API, request, member)
    assert [each.error_code for each in response.responses[0].partitions] == [ErrorCode.INVALID_RECORD_STATE] * MANY
    assert steps.longest_s < MOST_S, steps.longest


@pytest.mark.slow
async def test_a_session_that_names_more_partitions_than_it_may_is_refused_in_a_short_step() -> None:
    workers = await Workers.started(partitions=1)
    member = workers.member()
    await member.response(0)
    asked = {"min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500}
    forgets = ShareFetchRequest(
        GROUP,
        member.name,
        1,
        **asked,
        forgotten_topics_data=(ForgottenTopic(workers.topic_id, tuple(range(TOO_MANY))),),
    )
    names = ShareFetchRequest(
        GROUP,
        member.name,
        0,
        **asked,
        topics=(FetchTopic(workers.topic_id, tuple(map(FetchPartition, range(TOO_MANY)))),),
    )
    with StepsOfTheBroker() as steps:
        response = await begun_in_a_step(steps, workers, share_fetch.API, forgets, member)
        assert response.error_code == ErrorCode.INVALID_REQUEST
        response = await begun_in_a_step(steps, workers, share_fetch.API, names, member)
        assert response.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert steps.longest_s < MOST_S, steps.longest


async def _record_comes(workers: Workers, other: Worker, partition: int) -> None:
    await workers.broker.produce(batch("a"), partition=partition)


async def _leader_changes(workers: Workers, other: Worker, partition: int) -> None:
    led = workers.sharing.partitions.known(GROUP, workers.topic_id, partition)
    assert led is not None
    led.lose(ErrorCode.NOT_LEADER_OR_FOLLOWER)


async def _record_is_released(workers: Workers, other: Worker, partition: int) -> None:
    last = workers.broker.log("orders", partition).log_end_offset - 1
    assert await other.acknowledge((last, last, (RELEASE,)), partition=partition) is ErrorCode.NONE


async def _broker_stops(workers: Workers, other: Worker, partition: int) -> None:
    workers.sharing.stop_waiting()


@pytest.mark.parametrize("min_bytes", [1, 2])
@pytest.mark.parametrize("happens", [_record_comes, _leader_changes, _record_is_released, _broker_stops])
async def test_what_happens_between_two_turns_of_a_share_fetch_ends_its_wait(happens: Any, min_bytes: int) -> None:
    """Time stands still here: a wake-up that is lost never comes."""
    for partition in (0, WIDE - 1):
        workers = await Workers.started(partitions=WIDE)
        member, other = workers.member("m1"), workers.member("m2")
        await member.response(*range(WIDE))
        moments = range(LOOKED, TURNS) if happens is _leader_changes else range(partition % 3, TURNS, 3)
        for turns in moments:
            if happens is _record_is_released:
                await workers.broker.produce(batch("a"), partition=partition)
                assert acquired((await other.response(partition, epoch=0)).responses[0].partitions[0])
                other.epoch = 1
            begun = member.begin(max_wait_ms=60_000, min_bytes=min_bytes)
            for _ in range(turns):
                await next_turn()
            await happens(workers, other, partition)
            await settled()
            assert begun.done(), (partition, turns)
            response = await member.finish(begun)
            (found,) = response.responses[0].partitions if response.responses else (None,)
            assert happens is _broker_stops or (found is not None and found.partition_index == partition)
            workers.sharing.is_stopping = False
            if found is not None and found.acquired_records:
                first, last, _ = acquired(found)[0]
                assert await member.acknowledge((first, last, (1,)), partition=partition) is ErrorCode.NONE


async def test_a_share_fetch_whose_records_another_one_takes_at_any_turn_hears_of_the_next_ones() -> None:
    """It wants more than one byte, and begins to wait where somebody reads, or where nothing is left for it."""
    workers = await Workers.started(partitions=WIDE)
    member, other = workers.member("m1"), workers.member("m2")
    await member.response(*range(WIDE))
    for turns in range(0, TURNS, 3):
        await workers.broker.produce(batch("a"), partition=WIDE - 1)
        begun = member.begin(max_wait_ms=60_000, min_bytes=2)
        for _ in range(turns):
            await next_turn()
        await other.response(WIDE - 1, epoch=0)
        await settled()
        await workers.broker.produce(batch("b"), partition=0)
        await settled()
        assert begun.done(), turns
        await member.finish(begun)
        await member.response()  # the next round begins with nothing to take


@pytest.mark.parametrize("waits_turns", range(0, TURNS, 3))
async def test_a_share_fetch_that_is_given_up_at_any_turn_keeps_nothing_from_the_next_one(waits_turns: int) -> None:
    workers = await Workers.started(partitions=WIDE)
    one, two = workers.member("m1"), workers.member("m2")
    for member in (one, two):
        await member.response(*range(WIDE))
    waiting = two.begin(max_wait_ms=60_000)
    given_up = one.begin(max_wait_ms=60_000)
    for _ in range(waits_turns):
        await next_turn()
    given_up.cancel()
    await next_turn()
    given_up.cancel()  # while it ends
    await asyncio.wait([given_up])
    await workers.broker.produce(batch("a"), partition=WIDE - 1)
    await settled()
    assert waiting.done()
    assert acquired((await two.finish(waiting)).responses[0].partitions[0]) == [(0, 0, 1)]
    assert not any(len(each._waiters) for each in workers.sharing.partitions)


@pytest.mark.parametrize("turns", range(0, TURNS, 3))
async def test_a_session_that_ends_at_any_turn_of_its_first_fetch_leaves_no_share_partition(turns: int) -> None:
    workers = await Workers.started(partitions=WIDE)
    member, elsewhere = workers.member("m1"), workers.member("m1")
    begun = member.begin(*range(WIDE), max_wait_ms=60_000)
    for _ in range(turns):
        await next_turn()
    assert (await elsewhere.response(epoch=-1)).error_code == ErrorCode.NONE
    await settled()
    assert (len(workers.sharing.sessions), len(workers.sharing.partitions)) == (0, 0)
    begun.cancel()
    await asyncio.wait([begun])


async def test_a_request_that_comes_behind_a_share_fetch_at_any_turn_ends_its_wait() -> None:
    workers = await Workers.started(partitions=WIDE)
    member = workers.member()
    await member.response(*range(WIDE))
    for turns in range(0, TURNS, 3):
        begun = member.begin(max_wait_ms=60_000)
        for _ in range(turns):
            await next_turn()
        member.connection.end_wait()
        await settled()
        assert begun.done(), turns
        await member.finish(begun)
