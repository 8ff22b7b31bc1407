"""Waits until a broker has nothing to do: what they wait for, what they leave alone, and what they say."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from lab_broker_in_loop import MINUTE_MS, Lab, lab

from eosin.client.client import Client
from eosin.client.consumer import Consumer
from eosin.client.producer import Producer
from eosin.coordinator.transactions.ports import MarkerTargets
from eosin.lab.common.errors import LabError
from eosin.network.request_hooks import ObservedRequest, RequestHooks, RequestVerdict
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord

pytestmark = pytest.mark.virtual

ORDERS_0 = TopicPartition("orders", 0)
RECORD = NewRecord(None, b"one", 1)


@asynccontextmanager
async def client_of(broker: Lab) -> AsyncIterator[Client]:
    """A client that connects."""
    client = Client(broker.node.addresses[0])
    try:
        yield client
    finally:
        await client.close()


class Slow(RequestHooks):
    """Holds the responses of one API."""

    def __init__(self, key: ApiKey, delay_ms: int) -> None:
        self.key = key
        self.delay_ms = delay_ms

    async def begun(self, observed: ObservedRequest) -> Any:
        return RequestVerdict(delay_ms=self.delay_ms) if observed.api.key is self.key else None


class NoLeaders:
    """Lets no marker be written until a test says so."""

    def __init__(self, targets: MarkerTargets) -> None:
        self._targets = targets
        self.is_open = False

    def target(self, partition: TopicPartition) -> Any:
        return self._targets.target(partition) if self.is_open else ErrorCode.LEADER_NOT_AVAILABLE


async def test_a_broker_without_work_is_quiet_at_once() -> None:
    async with lab() as broker:
        began_ms = broker.clock.wire.elapsed_ms()
        await broker.operations.settle(0, 1000)
        assert broker.clock.wire.elapsed_ms() == began_ms


async def test_a_request_that_is_worked_on_is_waited_for_and_named() -> None:
    async with lab(hooks=Slow(ApiKey.PRODUCE, 500)) as broker, client_of(broker) as client:
        await broker.operations.create_topic("orders", 1, {})
        sending = asyncio.create_task(Producer(client).send(ORDERS_0, [RECORD]))
        await broker.clock.wire.sleep(100)
        with pytest.raises(LabError, match=r"the broker is not quiet after 0\.1 s: PRODUCE has no response yet"):
            await broker.operations.settle(0, 100)
        assert not sending.done()
        await broker.operations.settle(0, 10_000)
        await broker.clock.wire.sleep(1)
        assert sending.done()
        await sending


async def test_a_reader_that_waits_for_records_is_left_alone() -> None:
    async with lab() as broker, client_of(broker) as client:
        await broker.operations.create_topic("orders", 1, {})
        consumer = Consumer(client)
        await consumer.assign_from([ORDERS_0])
        polling = asyncio.create_task(consumer.poll(10_000))
        await broker.clock.wire.sleep(100)
        assert ApiKey.FETCH in broker.node.host.running.values()
        await broker.operations.settle(0, 100)
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)


async def test_a_member_that_waits_for_others_is_left_alone() -> None:
    async with lab() as broker:
        await broker.join()
        second = asyncio.create_task(broker.join())
        await asyncio.sleep(0)
        await broker.operations.settle(0, 100)
        assert not second.done(), "the first one has not joined again"
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)


async def test_markers_that_cannot_be_written_are_named_and_do_not_hold_up_time() -> None:
    made: list[NoLeaders] = []

    def with_no_leaders(targets: MarkerTargets) -> NoLeaders:
        made.append(NoLeaders(targets))
        return made[0]

    async with lab(markers=with_no_leaders) as broker:
        await broker.write("late", transactional_id="t", commit=False)
        await broker.operations.advance(MINUTE_MS + 10, False)
        assert broker.node.services.transactions.outstanding[0] == 1
        with pytest.raises(LabError, match="a transaction waits for its markers"):
            await broker.operations.settle(0, 100)
        made[0].is_open = True
        await broker.operations.settle(0, 10_000)
        assert await broker.operations.outcomes("t") == ["timeout"]


async def test_what_a_fault_holds_is_named_and_does_not_hold_up_time() -> None:
    async with lab() as broker:
        held: str | None = "the rule 'hold EndTxn' holds 1 request"
        broker.inside.quiet.held.append(lambda: held)
        with pytest.raises(LabError, match="the rule 'hold EndTxn' holds 1 request"):
            await broker.operations.settle(0, 100)
        await broker.operations.advance(MINUTE_MS, False)
        held = None
        await broker.operations.settle(0, 100)


async def test_a_client_that_still_sends_is_waited_for() -> None:
    async with lab() as broker, client_of(broker) as client:
        await broker.operations.create_topic("orders", 1, {})
        producer = Producer(client)

        async def send() -> None:
            for _ in range(5):
                await producer.send(ORDERS_0, [RECORD])
                await broker.clock.wire.sleep(80)

        sending = asyncio.create_task(send())
        await broker.operations.settle(100, 10_000)
        assert sending.done()
        assert len(await broker.values()) == 5
        sending = asyncio.create_task(send())
        with pytest.raises(LabError, match=r"not quiet after 0\.2 s: a client has sent something in the last 100 ms"):
            await broker.operations.settle(100, 200)
        await sending


async def test_a_client_that_only_reads_is_quiet() -> None:
    async with lab() as broker, client_of(broker) as client:
        await broker.operations.create_topic("orders", 1, {})
        consumer = Consumer(client)
        await consumer.assign_from([ORDERS_0])

        async def read() -> None:
            while True:
                await consumer.poll(10)

        reading = asyncio.create_task(read())
        await broker.clock.wire.sleep(50)
        await broker.operations.settle(100, 1000)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def test_waits_are_longer_where_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async with lab() as broker:
        broker.inside.quiet.held.append(lambda: "something is held")
        monkeypatch.setenv("EOSIN_LAB_TIMEOUT", "3")
        with pytest.raises(LabError, match=r"not quiet after 0\.3 s"):
            await broker.operations.settle(0, 100)
        monkeypatch.setenv("EOSIN_LAB_TIMEOUT", "long")
        with pytest.raises(LabError, match="EOSIN_LAB_TIMEOUT is a number that multiplies waits, not 'long'"):
            await broker.operations.settle(0, 100)
