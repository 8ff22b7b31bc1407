"""A broker that paused, or whose wall clock was set: who did what it had to do in time is neither aborted nor expelled.

The pause is that of a process which is stopped: time passes, nothing runs, and then every timer is late at once, before
a single request is read. What the sockets hold is read in the turns after that: here it is asked for between them.
"""

import asyncio

import pytest
from coordinator_fakes import ORDERS_0, FakeBroker, Producer
from group_fakes import Broker
from manual_clock import PausingClock

from eosin.coordinator.groups.offset_requests import Committer
from eosin.coordinator.groups.rules.offset_store import OffsetToCommit
from eosin.coordinator.transactions.rules.state import TransactionState
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition

pytestmark = pytest.mark.virtual

NONE = ErrorCode.NONE
TIMEOUT_MS = 60_000
SESSION_MS = 10_000
DAY_MS = 86_400_000


async def open_transaction(clock: PausingClock, transactional_id: str = "tx") -> tuple[FakeBroker, Producer]:
    broker = FakeBroker(clock=clock)
    await broker.start()
    producer = Producer(broker, transactional_id)
    assert await producer.init() is NONE
    assert await producer.add(ORDERS_0) is NONE
    return broker, producer


def state(broker: FakeBroker) -> TransactionState:
    return broker.states("tx")[-1]


@pytest.mark.parametrize("before_ms", [1000, 30_000, 59_000])
async def test_a_commit_that_came_in_a_pause_beyond_its_deadline_is_a_commit(before_ms: int) -> None:
    clock = PausingClock()
    broker, producer = await open_transaction(clock)
    clock.advance(before_ms)
    clock.pause(10 * TIMEOUT_MS)
    clock.advance(0)  # all timers, before the first request
    await asyncio.sleep(0)
    assert await producer.commit() is NONE
    clock.advance(10 * TIMEOUT_MS)
    assert TransactionState.PREPARE_ABORT not in broker.states("tx")


async def test_a_transaction_whose_producer_is_gone_is_aborted_after_the_rest_of_its_time() -> None:
    clock = PausingClock()
    broker, _ = await open_transaction(clock)
    clock.advance(TIMEOUT_MS // 2)
    clock.pause(10 * TIMEOUT_MS)
    clock.advance(TIMEOUT_MS // 2 - 1000)
    assert state(broker) is TransactionState.ONGOING
    clock.advance(2000)
    assert TransactionState.PREPARE_ABORT in broker.states("tx")


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_wall_clock_that_is_set_neither_aborts_a_transaction_nor_keeps_it_open(hours: int) -> None:
    clock = PausingClock()
    broker, _ = await open_transaction(clock)
    clock.ahead_ms += hours * 3_600_000
    clock.advance(TIMEOUT_MS - 1000)
    assert state(broker) is TransactionState.ONGOING
    clock.advance(2000)
    assert TransactionState.PREPARE_ABORT in broker.states("tx")


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_transaction_has_its_whole_time_though_the_clock_is_set_while_its_first_record_is_written(
    hours: int,
) -> None:
    clock = PausingClock()
    broker = FakeBroker(clock=clock)
    await broker.start()
    producer = Producer(broker)
    assert await producer.init() is NONE
    broker.log.held = True
    added = asyncio.create_task(producer.add(ORDERS_0))
    await asyncio.sleep(0)
    clock.ahead_ms += hours * 3_600_000
    clock.advance(1000)
    broker.log.held = False
    broker.log.release()
    assert await added is NONE
    clock.advance(TIMEOUT_MS - 2000)
    assert state(broker) is TransactionState.ONGOING
    clock.advance(2000)
    assert TransactionState.PREPARE_ABORT in broker.states("tx")


async def test_the_next_transaction_of_an_id_has_its_whole_time_though_the_clock_is_set_between_them() -> None:
    clock = PausingClock()
    broker, producer = await open_transaction(clock)
    clock.advance(TIMEOUT_MS // 2)
    assert await producer.commit() is NONE
    clock.ahead_ms -= 3_600_000
    assert await producer.add(ORDERS_0) is NONE
    clock.ahead_ms += 7_200_000
    clock.advance(TIMEOUT_MS - 1000)
    assert state(broker) is TransactionState.ONGOING
    clock.advance(2000)
    assert TransactionState.PREPARE_ABORT in broker.states("tx")


async def test_a_wall_clock_that_is_set_forward_forgets_no_id_that_was_used_a_moment_ago() -> None:
    broker = FakeBroker()
    await broker.start()
    producer = Producer(broker)
    assert await producer.init() is NONE
    await broker.clock.run(2 * DAY_MS)
    assert await producer.transaction("a", ORDERS_0) == [NONE, NONE, NONE]
    broker.clock.ahead_ms += 30 * DAY_MS
    await broker.clock.run(6 * DAY_MS)
    assert await producer.transaction("b", ORDERS_0) == [NONE, NONE, NONE]
    await broker.clock.run(8 * DAY_MS)
    assert await producer.add(ORDERS_0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


async def test_a_wall_clock_that_is_set_forward_takes_no_committed_offset_away() -> None:
    broker = await Broker().started()
    place = TopicPartition("orders", 0)
    await broker.groups.offsets.commit("g", [OffsetToCommit(place, 5)], committer=Committer(), api_version=9)
    broker.clock.ahead_ms += 30 * DAY_MS
    for days, left in ((6, 5), (2, -1)):
        await broker.clock.run(days * DAY_MS)
        _, (fetched,) = await broker.groups.offsets.fetch("g", [place], require_stable=False)
        assert fetched.offset == left


async def test_a_member_whose_heartbeat_came_in_a_pause_beyond_its_session_stays() -> None:
    clock = PausingClock()
    broker = await Broker(clock=clock).started()
    joined = await broker.member(session_timeout_ms=SESSION_MS)
    for _ in range(3):
        clock.advance(SESSION_MS - 1000)
        clock.pause(3 * SESSION_MS)
        clock.advance(0)  # all timers, before the first request
        await asyncio.sleep(0)
        assert broker.groups.heartbeat("g", generation_id=joined.generation_id, member_id=joined.member_id) is NONE


async def test_a_member_that_is_gone_is_expelled_after_the_rest_of_its_session() -> None:
    clock = PausingClock()
    broker = await Broker(clock=clock).started()
    joined = await broker.member(session_timeout_ms=SESSION_MS)
    clock.advance(SESSION_MS // 2)
    clock.pause(3 * SESSION_MS)
    clock.advance(SESSION_MS // 2 + 1000)
    assert (
        broker.groups.heartbeat("g", generation_id=joined.generation_id, member_id=joined.member_id)
        is ErrorCode.UNKNOWN_MEMBER_ID
    )
