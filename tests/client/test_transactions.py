"""Transactions of a cluster: who is asked what, what is tried again, and what counts as hanging."""

from typing import Any

import pytest
from stub_broker import NODE, StubBroker

from eosin.client.client import Client
from eosin.client.errors import BrokerError, UnsupportedVersion
from eosin.client.transactions import TransactionAdmin
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas import describe_transactions, list_transactions
from eosin.protocol.schemas.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from eosin.protocol.schemas.describe_transactions import DescribeTransactionsResponse, TopicData
from eosin.protocol.schemas.init_producer_id import InitProducerIdResponse
from eosin.protocol.schemas.list_transactions import ListTransactionsResponse
from eosin.protocol.schemas.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

pytestmark = pytest.mark.virtual

PARTITION = TopicPartition("topic", 0)
OPEN = ProducerState(5, 3, 0, last_timestamp=100, coordinator_epoch=-1, current_txn_start_offset=40)


def marked(code: int) -> WriteTxnMarkersResponse:
    topics = (WritableTxnMarkerTopicResult("topic", (WritableTxnMarkerPartitionResult(0, code),)),)
    return WriteTxnMarkersResponse((WritableTxnMarkerResult(5, topics),))


def told(request: DescribeProducersRequest, *producers: ProducerState) -> DescribeProducersResponse:
    topics = (
        TopicResponse(
            topic.name, tuple(PartitionResponse(each, active_producers=producers) for each in topic.partition_indexes)
        )
        for topic in request.topics
    )
    return DescribeProducersResponse(topics=tuple(topics))


def knows(broker: StubBroker, state: str, *, epoch: int = 3, partitions: tuple[int, ...] = (0,)) -> None:
    """Producer 5 is that of `tx`, which is in this state."""
    listed = list_transactions.TransactionState("tx", 5, state)
    topics = (TopicData("topic", partitions),)
    described = describe_transactions.TransactionState(0, "tx", state, 60_000, 100, 5, epoch, topics)
    broker.answers[ApiKey.LIST_TRANSACTIONS] = lambda *_: ListTransactionsResponse(transaction_states=(listed,))
    broker.answers[ApiKey.DESCRIBE_TRANSACTIONS] = lambda *_: DescribeTransactionsResponse(
        transaction_states=(described,)
    )


async def test_an_abort_is_written_as_described_and_looks_for_a_moved_leader() -> None:
    codes: list[int] = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]
    async with StubBroker() as broker, Client([broker.address]) as client:
        broker.answers[ApiKey.WRITE_TXN_MARKERS] = lambda *_: marked(codes.pop(0))
        await TransactionAdmin(client).abort(PARTITION, producer_id=5, producer_epoch=3, coordinator_epoch=9)
        assert not codes
        marker = broker.requests(ApiKey.WRITE_TXN_MARKERS)[-1].markers[0]
        assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (5, 3, 9)
        assert (marker.transaction_result, marker.transaction_version) == (False, 0)
        lookups = [each for each in broker.asked if each.key is ApiKey.METADATA]
        assert len(lookups) >= 3


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ],
)
async def test_an_abort_that_is_refused_for_good_is_not_repeated(code: ErrorCode) -> None:
    async with StubBroker() as broker, Client([broker.address]) as client:
        broker.answers[ApiKey.WRITE_TXN_MARKERS] = lambda *_: marked(code)
        with pytest.raises(BrokerError, match=code.name):
            await TransactionAdmin(client).abort(PARTITION, producer_id=5, producer_epoch=3, coordinator_epoch=-1)
        (request,) = broker.requests(ApiKey.WRITE_TXN_MARKERS)
        assert request.markers[0].coordinator_epoch == 0


async def test_the_end_of_a_transaction_is_waited_for_until_its_markers_are_written() -> None:
    states = ["PrepareCommit", "PrepareCommit", "CompleteCommit"]
    async with StubBroker() as broker, Client([broker.address]) as client:
        broker.answers[ApiKey.DESCRIBE_TRANSACTIONS] = lambda *_: DescribeTransactionsResponse(
            transaction_states=(describe_transactions.TransactionState(0, "tx", states.pop(0), 60_000, 100, 5, 3),)
        )
        await TransactionAdmin(client).wait_for_markers("tx")
        assert not states


async def test_terminating_is_the_introduction_of_a_new_instance_that_keeps_nothing() -> None:
    codes = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE]
    async with StubBroker() as broker, Client([broker.address]) as client:
        broker.answers[ApiKey.INIT_PRODUCER_ID] = lambda *_: InitProducerIdResponse(error_code=codes.pop(0))
        await TransactionAdmin(client).force_terminate("tx")
        assert not codes
        request = broker.requests(ApiKey.INIT_PRODUCER_ID)[-1]
        assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("tx", -1, -1)
        assert (request.enable_2pc, request.keep_prepared_txn) == (False, False)


@pytest.mark.parametrize(("timeout_ms", "two_phase"), [(2**31 - 1, True), (2**31 - 2, False)])
async def test_a_transaction_without_a_timeout_is_one_that_somebody_else_decides(
    timeout_ms: int, two_phase: bool
) -> None:
    described = describe_transactions.TransactionState(0, "tx", "Ongoing", timeout_ms, 100, 5, 3)
    async with StubBroker() as broker, Client([broker.address]) as client:
        broker.answers[ApiKey.DESCRIBE_TRANSACTIONS] = lambda *_: DescribeTransactionsResponse(
            transaction_states=(described,)
        )
        assert (await TransactionAdmin(client).describe("tx")).is_two_phase is two_phase


async def test_a_loading_coordinator_is_asked_again() -> None:
    answers = [ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), ListTransactionsResponse()]
    async with StubBroker() as broker, Client([broker.address]) as client:
        broker.answers[ApiKey.LIST_TRANSACTIONS] = lambda *_: answers.pop(0)
        assert await TransactionAdmin(client).list_transactions() == []


@pytest.mark.parametrize(("highest", "filters"), [(0, {"longer_than_ms": 0}), (1, {"pattern": "x"})])
async def test_a_filter_that_a_broker_does_not_know_is_not_left_out(highest: int, filters: dict[str, Any]) -> None:
    async with StubBroker() as broker, Client([broker.address]) as client:
        broker.versions[ApiKey.LIST_TRANSACTIONS] = (0, highest)
        with pytest.raises(UnsupportedVersion, match=f"broker {NODE} is too old to list transactions by"):
            await TransactionAdmin(client).list_transactions(**filters)


@pytest.mark.parametrize(
    ("state", "epoch", "partitions", "hangs"),
    [
        ("Ongoing", 3, (0,), False),
        ("Ongoing", 4, (0,), True),
        ("Ongoing", 3, (1,), True),
        ("PrepareCommit", 4, (0,), False),
        ("PrepareAbort", 3, (0,), False),
        ("CompleteCommit", 3, (), True),
        ("Empty", 4, (), True),
    ],
)
async def test_a_transaction_hangs_unless_its_coordinator_will_end_it(
    state: str, epoch: int, partitions: tuple[int, ...], hangs: bool
) -> None:
    async with StubBroker() as broker, Client([broker.address]) as client:
        broker.answers[ApiKey.DESCRIBE_PRODUCERS] = lambda request, _: told(request, OPEN)
        knows(broker, state, epoch=epoch, partitions=partitions)
        found = await TransactionAdmin(client).find_hanging([PARTITION], before_ms=101)
        assert [each.start_offset for each in found] == ([40] if hangs else [])


async def test_one_that_is_young_is_not_asked_about() -> None:
    async with StubBroker() as broker, Client([broker.address]) as client:
        broker.answers[ApiKey.DESCRIBE_PRODUCERS] = lambda request, _: told(request, OPEN)
        assert await TransactionAdmin(client).find_hanging([PARTITION], before_ms=100) == []
        assert broker.keys() == [ApiKey.DESCRIBE_PRODUCERS]


async def test_one_that_ends_while_its_coordinator_is_asked_does_not_hang() -> None:
    ended = ProducerState(5, 3, 0, last_timestamp=100, coordinator_epoch=1, current_txn_start_offset=-1)
    states = [OPEN, ended]
    async with StubBroker() as broker, Client([broker.address]) as client:
        broker.answers[ApiKey.DESCRIBE_PRODUCERS] = lambda request, _: told(request, states.pop(0))
        knows(broker, "CompleteCommit", partitions=())
        assert await TransactionAdmin(client).find_hanging([PARTITION], before_ms=101) == []
        assert not states
