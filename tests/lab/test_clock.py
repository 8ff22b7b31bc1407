"""The clock of brokers in a thread, for asyncio and in a process: the same calls, one clock for two, a real client."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaException
from confluent_kafka import Producer as ConfluentProducer
from waiting import HANG_S, wait_until

from eosin.lab.async_broker import AsyncBroker
from eosin.lab.broker import Broker
from eosin.lab.common.errors import LabError
from eosin.lab.process_broker import ProcessBroker

pytestmark = pytest.mark.process

DAY_MS = 24 * 3_600_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics=["orders"]) as started:
        yield started


def test_a_client_of_librdkafka_hears_that_its_transaction_timed_out_and_goes_on(broker: Broker) -> None:
    settings = broker.conf(transactional_id="t", transaction_timeout_ms=60_000)
    producer = ConfluentProducer(settings)
    producer.init_transactions(HANG_S)
    producer.begin_transaction()
    producer.produce("orders", b"late")
    assert producer.flush(HANG_S) == 0
    broker.settle()
    deadline = broker.transactions("t").deadline
    assert broker.clock.advance_to(deadline).aborted == ["t"]
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction(HANG_S)
    assert refused.value.args[0].txn_requires_abort() or refused.value.args[0].fatal()
    assert broker.transactions("t").outcomes == ["timeout"]
    assert broker.topic("orders").values() == []


def test_a_consumer_of_librdkafka_lives_through_a_jump_unless_it_is_to_die(broker: Broker) -> None:
    broker.topic("read").create()
    consumer = ConfluentConsumer(broker.conf(group_id="readers", session_timeout_ms=45_000))
    consumer.subscribe(["read"])
    try:
        wait_until(lambda: consumer.poll(0.01) or broker.group("readers").state == "Stable")
        generation = broker.group("readers").generation
        broker.clock.advance(seconds=46)
        assert len(broker.group("readers").members) == 1
        assert broker.group("readers").generation == generation
        broker.clock.advance(seconds=46, sessions=True)
        assert broker.group("readers").generation != generation
    finally:
        consumer.close()


def test_a_second_broker_may_share_the_clock(broker: Broker) -> None:
    with Broker(clock="frozen", clock_at=broker.clock.now_ms() + DAY_MS) as other:
        before_ms = other.clock.now_ms()
        assert other.clock.now_ms() == before_ms
        other.clock.share(broker.clock)
        assert broker.clock.now_ms() == other.clock.now_ms() == before_ms
        broker.produce("shared", "late", transactional_id="shared", commit=False)
        advanced = other.clock.advance(minutes=2)
        assert advanced.aborted == []
        assert broker.transactions("shared").outcomes == ["timeout"]
        assert broker.clock.now_ms() == other.clock.now_ms()
        broker.clock.flow()
        with pytest.raises(LabError, match=r"BrokerClock\.share needs another BrokerClock, not Broker"):
            broker.clock.share(other)  # type: ignore[arg-type]  # the mistake
        broker.clock._shared = [broker.clock]


def test_options_are_checked() -> None:
    with pytest.raises(LabError, match="clock is flowing or frozen, not 'stopped'"):
        Broker(clock="stopped")
    with pytest.raises(LabError, match="clock_at is a time in ms since the epoch"):
        Broker(clock_at="tomorrow")  # type: ignore[arg-type]  # the mistake
    with pytest.raises(LabError, match=r"clock_at is \d+ ms in the past"):
        Broker(clock_at=1_700_000_000_000)
    with pytest.raises(LabError, match="nothing is due"), Broker(clock="frozen") as frozen:
        frozen.clock.advance_to(frozen.transactions("t").deadline)


async def test_the_same_calls_can_be_awaited() -> None:
    async with AsyncBroker(clock="frozen") as broker:
        before_ms = await broker.clock.now_ms()
        await broker.produce("orders", "late", transactional_id="t", commit=False)
        assert [each.owner for each in await broker.clock.next_deadlines(100) if each.owner] == ["t"]
        advanced = await broker.clock.advance_to(await broker.transactions("t").deadline)
        assert advanced.aborted == ["t"]
        await broker.clock.advance(seconds=1)
        await broker.clock.jump_wall(1000)
        await broker.settle()
        assert await broker.clock.now_ms() >= before_ms + 62_000
        await broker.clock.flow(10)
        await broker.clock.freeze()
        async with AsyncBroker() as other:
            await broker.clock.share(other.clock)
            assert await other.clock.now_ms() == await broker.clock.now_ms()


def test_the_same_calls_reach_another_process() -> None:
    with ProcessBroker(clock="frozen", clock_at=2_000_000_000_000) as broker:
        assert broker.clock.now_ms() == 2_000_000_000_000
        broker.produce("orders", "late", transactional_id="t", commit=False)
        assert broker.clock.advance(minutes=1, seconds=1).aborted == ["t"]
        assert broker.clock.now_ms() == 2_000_000_061_000
        broker.settle(quiet_ms=1)
        assert {each.what for each in broker.clock.next_deadlines(100)} >= {
            "retention",
            "the expiry of committed offsets",
        }
        with pytest.raises(LabError, match="never goes back"):
            broker.clock.advance(ms=-1)


async def test_a_transaction_expires_on_demand_with_a_jump_to_its_deadline() -> None:
    async with AsyncBroker(topics=["orders"]) as broker:
        await broker.produce("orders", "late", transactional_id="t", commit=False)
        transactions = broker.transactions("t")
        deadline = await transactions.deadline
        assert deadline is not None
        await transactions.expire()
        assert (await transactions.outcomes, await broker.clock.now_ms() >= deadline) == (["timeout"], True)
        with pytest.raises(LabError, match="t has no open transaction with a deadline"):
            await transactions.expire()
        with pytest.raises(LabError, match='there is no transactional id "tt"'):
            await broker.transactions("tt").expire()
