"""Which transactional id has a producer id: "none" is only said when it is certain."""

import asyncio
from unittest.mock import patch

from coordinator_fakes import FakeBroker, Producer

from eosin.coordinator.transactions import coordinator
from eosin.coordinator.transactions.rules.listing import TransactionDescription
from eosin.protocol.errors import ErrorCode

ABSENT = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


async def test_a_producer_id_is_found_while_it_is_somebodys() -> None:
    broker = FakeBroker(partition_count=2)
    await broker.start()
    producer = Producer(broker)
    await producer.init()
    found = await broker.transactions.find_producer(producer.producer_id)
    assert isinstance(found, TransactionDescription)
    assert found.transactional_id == "tx"
    assert await broker.transactions.find_producer(producer.producer_id + 1) is ABSENT


async def test_nothing_is_certain_while_a_partition_is_not_ours() -> None:
    broker = FakeBroker(partition_count=2)
    assert await broker.transactions.find_producer(5) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await broker.start()
    broker.transactions.resign(1)
    assert await broker.transactions.find_producer(5) is ErrorCode.NOT_COORDINATOR


async def test_a_search_among_many_ids_lets_others_run() -> None:
    broker = FakeBroker()
    await broker.start()
    producers = [Producer(broker, f"tx-{index}") for index in range(5)]
    for producer in producers:
        await producer.init()
    with patch.object(coordinator, "ENTRIES_PER_TURN", 2):
        searching = asyncio.ensure_future(broker.transactions.find_producer(producers[-1].producer_id))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not searching.done()
        found = await searching
    assert isinstance(found, TransactionDescription)
    assert found.transactional_id == "tx-4"


async def test_nothing_is_certain_when_a_partition_was_loaded_during_the_search() -> None:
    broker = FakeBroker()
    await broker.start()
    await Producer(broker).init()
    searching = asyncio.ensure_future(broker.transactions.find_producer(5))
    await asyncio.sleep(0)
    await broker.transactions.load_partition(0)
    assert await searching is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
