"""The same broker for tests of asyncio."""

import asyncio
import unittest

import pytest

from eosin.lab import async_api, broker_api
from eosin.lab.clock_api import AsyncBrokerClock, BrokerClock
from eosin.lab.common.errors import LabError
from eosin.lab.faults.faces import AsyncFaults, Faults
from eosin.lab.history.faces import AsyncLabHistory, LabHistory
from eosin.testing import AsyncBroker, Broker

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("blocking", "awaited"),
    [
        (Broker, AsyncBroker),
        (broker_api.LabTopic, async_api.AsyncLabTopic),
        (broker_api.LabTransactions, async_api.AsyncLabTransactions),
        (broker_api.LabGroup, async_api.AsyncLabGroup),
        (Faults, AsyncFaults),
        (BrokerClock, AsyncBrokerClock),
        (LabHistory, AsyncLabHistory),
    ],
)
def test_what_blocks_can_be_awaited_by_the_same_name(blocking: type, awaited: type) -> None:
    blocked, waited = ({name for name in dir(each) if name[0] != "_"} for each in (blocking, awaited))
    assert blocked == waited


async def test_every_name_of_a_broker_is_awaited() -> None:
    async with AsyncBroker(topics={"orders": 2}) as broker:
        assert await broker.topics() == ["orders"]
        await broker.produce("orders", "a", transactional_id="t")
        await broker.produce("orders", "b", transactional_id="t", commit=False)
        topic, transactions = broker.topic("orders"), broker.transactions("t")
        assert await topic.values() == [b"a"]
        assert [each.value for each in await topic.records(isolation="read_uncommitted")] == [b"a", b"b"]
        assert await transactions.outcomes == ["commit", "open"]
        assert await transactions.state == "Ongoing"
        assert await topic.last_stable_offset() < await topic.high_watermark()
        assert [each.transactional_id for each in await broker.open_transactions()] == ["t"]
        with pytest.raises(AssertionError, match="t has a transaction open"):
            await broker.assert_no_open_transactions()
        await transactions.abort()
        assert await topic.aborted() != []
        assert await broker.group("nobody").lag("orders") == 1
        with pytest.raises(LabError, match="did you mean orders"):
            await broker.topic("order").values()


async def test_the_tests_loop_runs_on_while_the_broker_works() -> None:
    async with AsyncBroker(topics=["late"]) as broker:
        waiting = asyncio.create_task(broker.consume("late"))
        await broker.produce("late", "x")
        assert [each.value for each in await waiting] == [b"x"]

        async def seen() -> bool:
            return len(await broker.topic("late").values()) == 1

        await broker.wait_until(seen)
        with pytest.raises(AssertionError, match="a second one has not happened"):
            await broker.wait_until(lambda: asyncio.sleep(0, False), timeout=0, what="a second one")


async def test_a_broker_that_has_not_started_or_is_closed_says_so() -> None:
    broker = AsyncBroker()
    with pytest.raises(LabError, match="has not started"):
        await broker.topics()
    await broker.close()
    await broker.start()
    await broker.close()
    await broker.close()
    with pytest.raises(LabError, match="closed"):
        await broker.topics()


class InUnittest(unittest.IsolatedAsyncioTestCase):
    async def test_it_is_entered_as_a_context(self) -> None:
        broker = await self.enterAsyncContext(AsyncBroker(topics=["orders"]))
        assert await broker.topic("orders").values() == []
