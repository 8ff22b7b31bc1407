"""DescribeProducers, DescribeTransactions and ListTransactions: what a wire test cannot bring about."""

from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import patch

import pytest
from data_broker import DataBroker, batch

from eosin.broker.handlers import describe_producers, describe_transactions, list_transactions
from eosin.broker.handlers.add_partitions_to_txn import API as ADD
from eosin.broker.handlers.init_producer_id import API as INIT
from eosin.network.api import RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from eosin.protocol.schemas.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from eosin.protocol.schemas.describe_transactions import DescribeTransactionsRequest, TopicData
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.list_transactions import ListTransactionsRequest
from eosin.runtime.name_patterns import PATTERN_MAX_CHARACTERS

CONTEXT = RequestContext(0, None, "/127.0.0.1", "PLAINTEXT")


@pytest.fixture
async def broker() -> AsyncIterator[DataBroker]:
    """Producer 0 of `tx` has a transaction open in both partitions of `orders`, and records in the first."""
    broker = await DataBroker.started()
    await broker.create_topic(partitions=2)
    await broker.call(INIT, InitProducerIdRequest("tx", 60_000))
    await broker.call(ADD, AddPartitionsToTxnRequest((), "tx", 0, 0, (AddPartitionsToTxnTopic("orders", (1, 0)),)))
    records = batch("v", "w", producer_id=0, producer_epoch=0, base_sequence=0, transactional=True)
    assert (await broker.produce(records, transactional_id="tx")).error_code == 0
    yield broker
    await broker.stop()


async def listed(broker: DataBroker, version: int = 2, **filters: Any) -> tuple[int, list[str]]:
    answer = await broker.call(list_transactions.API, ListTransactionsRequest(**filters), version)
    return answer.error_code, [each.transactional_id for each in answer.transaction_states]


async def test_a_producer_is_told_field_by_field(broker: DataBroker) -> None:
    request = DescribeProducersRequest((TopicRequest("orders", (0, 1)),))
    first, second = (await broker.call(describe_producers.API, request)).topics[0].partitions
    (told,) = first.active_producers
    assert told == ProducerState(0, 0, 1, 1_700_000_000_000, -1, 0)
    assert second.active_producers == ()


async def test_a_failed_log_is_told(broker: DataBroker) -> None:
    broker.log().fail(OSError(5, "broken"))
    request = DescribeProducersRequest((TopicRequest("orders", (0,)),))
    (told,) = (await broker.call(describe_producers.API, request)).topics[0].partitions
    assert (told.error_code, told.active_producers) == (ErrorCode.KAFKA_STORAGE_ERROR, ())


async def test_the_partitions_of_a_transaction_come_by_topic_in_order(broker: DataBroker) -> None:
    await broker.create_topic("audit")
    await broker.call(ADD, AddPartitionsToTxnRequest((), "tx", 0, 0, (AddPartitionsToTxnTopic("audit", (0,)),)))
    answer = await broker.call(describe_transactions.API, DescribeTransactionsRequest(("tx",)))
    assert answer.transaction_states[0].topics == (TopicData("audit", (0,)), TopicData("orders", (0, 1)))


async def test_a_partition_of_another_coordinator_is_told(broker: DataBroker) -> None:
    broker.transactions.resign(broker.transactions.partition_for("tx"))
    answer = await broker.call(describe_transactions.API, DescribeTransactionsRequest(("tx",)))
    assert answer.transaction_states[0].error_code == ErrorCode.NOT_COORDINATOR


async def test_nothing_is_listed_before_everything_is_loaded() -> None:
    unloaded = await DataBroker.unloaded()
    assert await listed(unloaded) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])


async def test_a_duration_counts_from_the_start_of_the_open_transaction(broker: DataBroker) -> None:
    broker.clock.advance(5000)
    assert await listed(broker, duration_filter=4999) == (0, ["tx"])
    assert await listed(broker, duration_filter=5000) == (0, [])


@pytest.mark.parametrize("pattern", ["x" * (PATTERN_MAX_CHARACTERS + 1), "((((x{30}){30}){30}){30})", "\\C{1001}"])
async def test_a_pattern_that_is_too_large_is_refused(broker: DataBroker, pattern: str) -> None:
    code = ErrorCode.INVALID_REGULAR_EXPRESSION
    assert await listed(broker, transactional_id_pattern=pattern) == (code, [])


async def test_older_versions_know_no_pattern(broker: DataBroker) -> None:
    assert await listed(broker, 1, transactional_id_pattern="nothing") == (0, ["tx"])


def test_a_refusal_carries_its_error_where_there_is_room() -> None:
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    producers = describe_producers.API.refuse(
        DescribeProducersRequest((TopicRequest("orders", (0, 1)),)), CONTEXT, error
    )
    assert [each.error_code for each in producers.topics[0].partitions] == [error, error]
    states = describe_transactions.API.refuse(DescribeTransactionsRequest(("a", "b")), CONTEXT, error)
    assert [(each.transactional_id, each.error_code) for each in states.transaction_states] == [("a", -1), ("b", -1)]
    assert list_transactions.API.refuse(ListTransactionsRequest(), CONTEXT, error).error_code == error


@pytest.mark.parametrize("ids", [3, 130])
async def test_a_listing_that_is_encoded_in_pieces_says_the_same(broker: DataBroker, ids: int) -> None:
    for index in range(1, ids):
        await broker.call(INIT, InitProducerIdRequest(f"tx-{index}", 60_000))
    filters = {"state_filters": ("Empty", "Ongoing", "Nonsense")}
    expected = await broker.call(list_transactions.API, ListTransactionsRequest(**filters), 2)
    with patch.object(list_transactions, "IDS_PER_TURN", 2):
        assert await broker.call(list_transactions.API, ListTransactionsRequest(**filters), 2) == expected
    assert len(expected.transaction_states) == ids
    assert expected.unknown_state_filters == ("Nonsense",)
