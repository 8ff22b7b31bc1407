"""How many transactional ids and producers there may be (cases 53 and 54 of security.md 9.3)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from batches import data
from guarded_broker import GuardedBroker, guarded_broker
from manual_clock import ManualClock
from waiting import until

from eosin.broker.security.new_producers import AT_ONCE_S, PAUSE_MS, NewProducers
from eosin.model.principals import ANONYMOUS, Principal
from eosin.network.api import RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.security.session import Session

MALLORY, ALICE = "User:mallory", "User:alice"


@asynccontextmanager
async def broker_of_users(**settings: Any) -> AsyncIterator[GuardedBroker]:
    """One where everybody may do everything, and the connections are those of users."""
    async with guarded_broker(authorizer_class_name="", super_users="", **settings) as broker:
        yield broker


async def init(broker: GuardedBroker, who: str, transactional_id: str) -> ErrorCode:
    request = InitProducerIdRequest(transactional_id, transaction_timeout_ms=60_000)
    response = await broker.ask(who, ApiKey.INIT_PRODUCER_ID, request, version=4)
    return ErrorCode(response.error_code)


async def append(broker: GuardedBroker, who: str, producer_id: int, sequence: int = 0) -> ErrorCode:
    one = PartitionProduceData(index=0, records=data(pid=producer_id, seq=sequence, at=broker.server.clock.now_ms()))
    request = ProduceRequest(acks=1, timeout_ms=5000, topic_data=(TopicProduceData("t", partition_data=(one,)),))
    response = await broker.ask(who, ApiKey.PRODUCE, request, version=9)
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


async def test_one_user_adds_only_so_many_transactional_ids_and_others_do_not_notice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with broker_of_users(eosin_principal_transactional_ids_rate=1) as broker:
        errors = [await init(broker, MALLORY, f"id-{number}") for number in range(AT_ONCE_S + 20)]
        assert errors[:AT_ONCE_S] == [ErrorCode.NONE] * AT_ONCE_S
        assert errors.count(ErrorCode.POLICY_VIOLATION) > 10
        assert errors.count(ErrorCode.POLICY_VIOLATION) + errors.count(ErrorCode.NONE) == len(errors)
        assert caplog.text.count("too many new producers") == 1
        assert await init(broker, MALLORY, "id-0") is ErrorCode.NONE, "what is there goes on"
        assert await init(broker, ALICE, "of-alice") is ErrorCode.NONE


async def test_beyond_the_total_no_id_is_new_and_all_others_go_on() -> None:
    async with broker_of_users(eosin_transactional_ids_max=3) as broker:
        errors = [await init(broker, f"User:{number}", f"id-{number}") for number in range(4)]
        assert errors == [ErrorCode.NONE] * 3 + [ErrorCode.POLICY_VIOLATION]
        assert await init(broker, MALLORY, "id-2") is ErrorCode.NONE


async def test_a_producer_for_each_message_makes_its_connection_wait() -> None:
    async with broker_of_users(eosin_principal_producer_ids_rate=1) as broker:
        await broker.create_topics("t")
        mallory, clock, pauses = broker.peer(MALLORY), broker.server.clock, 0
        for number in range(AT_ONCE_S + 3):
            begun_ms = clock.elapsed_ms()
            assert await append(broker, MALLORY, number) is ErrorCode.NONE, "nothing is lost"
            if mallory.transport.reading:
                continue
            pauses += 1
            assert number >= AT_ONCE_S
            assert await append(broker, ALICE, 5000 + number) is ErrorCode.NONE
            await until(lambda: mallory.transport.reading)
            assert clock.elapsed_ms() - begun_ms >= PAUSE_MS
        assert pauses > 0
        assert await append(broker, MALLORY, 0, 1) is ErrorCode.NONE


async def test_beyond_the_total_no_producer_is_new_and_all_others_go_on() -> None:
    async with broker_of_users(eosin_producer_ids_max=3) as broker:
        await broker.create_topics("t")
        errors = [await append(broker, MALLORY, number) for number in range(5)]
        assert errors == [ErrorCode.NONE] * 3 + [ErrorCode.POLICY_VIOLATION] * 2
        assert await append(broker, ALICE, 2, 1) is ErrorCode.NONE
        assert await append(broker, ALICE, -1, -1) is ErrorCode.NONE, "without idempotence there is nothing to remember"
        limits = broker.server.services.new_producers
        assert limits is not None
        await limits.recount(())  # they have expired
        assert await append(broker, MALLORY, 7) is ErrorCode.NONE


class Connection:
    """Counts its pauses."""

    def __init__(self) -> None:
        self.pauses = 0

    def pause_for(self, pause_ms: int) -> None:
        self.pauses += 1


def context(name: str, connection: Connection) -> RequestContext:
    session = Session(principal=Principal("User", name))
    return RequestContext(9, "c", "/127.0.0.1", "SASL", session=session, connection=connection)


async def test_a_producer_counts_once_for_all_its_partitions_and_the_allowance_comes_back() -> None:
    clock, connection = ManualClock(), Connection()
    limits = NewProducers(clock, producer_ids_rate=1)
    for _ in range(3 * AT_ONCE_S):
        assert limits.came(7, context("alice", connection)) is None
    assert connection.pauses == 0
    for producer_id in range(1000, 1000 + AT_ONCE_S):
        limits.came(producer_id, context("alice", connection))
    assert connection.pauses == 1
    clock.advance(5000)
    for producer_id in range(2000, 2010):
        limits.came(producer_id, context("alice", connection))
    assert connection.pauses == 1 + 5
    assert limits.entries == 3 * AT_ONCE_S + AT_ONCE_S + 10
    clock.advance(4_000_000)
    await limits.recount(())
    assert limits.entries == 0
    assert not limits._of_producers, "who has added nothing for an hour is forgotten"


def test_nobody_in_particular_has_no_rate() -> None:
    connection = Connection()
    limits = NewProducers(ManualClock(), producer_ids_rate=1, transactional_ids_rate=1)
    nobody = context(ANONYMOUS.name, connection)
    for producer_id in range(3 * AT_ONCE_S):
        assert limits.refusal_of_id(nobody, known=producer_id) is ErrorCode.NONE
        limits.came(producer_id, nobody)
    assert connection.pauses == 0


@pytest.mark.virtual
async def test_a_pause_does_not_end_what_a_login_holds() -> None:
    async with broker_of_users() as broker:
        connection = broker.peer(ALICE).connection
        connection.hold()
        connection.pause_for(1)
        await asyncio.sleep(0.02)
        assert connection._pause is not None
        connection.release()
        assert connection._pause is None


class Counted:
    """A log that knows one producer, and counts how often it is looked at."""

    def __init__(self) -> None:
        self.looks = 0

    @property
    def producer_state(self) -> list[int]:
        self.looks += 1
        return [7]


async def test_logs_are_looked_at_when_producers_have_come_since_or_when_there_are_many() -> None:
    log, connection = Counted(), Connection()
    limits = NewProducers(ManualClock(), producer_ids_max=4)
    for _ in range(3):
        await limits.recount([log])  # type: ignore[list-item]
    assert (log.looks, limits.entries) == (1, 1)
    limits.came(8, context("alice", connection))
    for _ in range(3):
        await limits.recount([log])  # type: ignore[list-item]
    assert (log.looks, limits.entries) == (2, 1)
    for _ in range(3):
        await limits.recount([log] * 3)  # type: ignore[list-item]
    assert log.looks == 2
    limits.came(9, context("alice", connection))
    for _ in range(2):
        await limits.recount([log] * 3)  # type: ignore[list-item]
    assert (log.looks, limits.entries) == (2 + 2 * 3, 3), "half of what may be is many: each that expires makes room"
