"""AddPartitionsToTxn at each version that clients use, and AddOffsetsToTxn, which adds one partition of its own."""

import pytest
from data_broker import DataBroker

from eosin.broker.handlers.add_offsets_to_txn import API as ADD_OFFSETS
from eosin.broker.handlers.add_partitions_to_txn import API
from eosin.broker.handlers.init_producer_id import API as INIT
from eosin.coordinator.transactions.rules.listing import TransactionDescription
from eosin.network.api import RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TopicPartition
from eosin.protocol.schemas.add_offsets_to_txn import AddOffsetsToTxnRequest
from eosin.protocol.schemas.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOT_ATTEMPTED = ErrorCode.OPERATION_NOT_ATTEMPTED


async def introduced() -> DataBroker:
    """A broker with two topics of two partitions, on which `tx` is producer 0 at epoch 0."""
    broker = await DataBroker.started()
    await broker.create_topic("orders", partitions=2)
    await broker.create_topic("payments", partitions=2)
    await broker.call(INIT, InitProducerIdRequest("tx", 60_000))
    return broker


def adding(*topics: tuple[str, tuple[int, ...]], epoch: int = 0, name: str = "tx") -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest((), name, 0, epoch, tuple(AddPartitionsToTxnTopic(*each) for each in topics))


def fields_of(response: AddPartitionsToTxnResponse) -> dict[str, list[tuple[int, int]]]:
    return {
        topic.name: [(each.partition_index, each.partition_error_code) for each in topic.results_by_partition]
        for topic in response.results_by_topic_v3_and_below
    }


def registered(broker: DataBroker) -> tuple[str, tuple[TopicPartition, ...]]:
    description = broker.transactions.describe("tx")
    assert isinstance(description, TransactionDescription)
    return description.state, description.partitions


@pytest.mark.parametrize("version", API.versions)
async def test_every_version_adds_partitions(version: int) -> None:
    broker = await introduced()
    response = await broker.call(API, adding(("orders", (0, 1)), ("payments", (1,))), version)
    assert fields_of(response) == {"orders": [(0, 0), (1, 0)], "payments": [(1, 0)]}
    assert registered(broker) == ("Ongoing", (("orders", 0), ("orders", 1), ("payments", 1)))


async def test_one_partition_that_is_not_there_keeps_all_others_out() -> None:
    broker = await introduced()
    response = await broker.call(API, adding(("orders", (0, 2)), ("nowhere", (0,)), ("payments", (0,))))
    assert fields_of(response) == {
        "orders": [(0, NOT_ATTEMPTED), (2, UNKNOWN)],
        "nowhere": [(0, UNKNOWN)],
        "payments": [(0, NOT_ATTEMPTED)],
    }
    assert registered(broker) == ("Empty", ())


async def test_internal_topics_are_not_for_clients() -> None:
    broker = await introduced()
    response = await broker.call(API, adding((CONSUMER_OFFSETS_TOPIC, (0,)), ("orders", (0,))))
    assert fields_of(response) == {
        CONSUMER_OFFSETS_TOPIC: [(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)],
        "orders": [(0, NOT_ATTEMPTED)],
    }


async def test_adding_nothing_begins_nothing() -> None:
    broker = await introduced()
    assert fields_of(await broker.call(API, adding())) == {}
    assert registered(broker) == ("Empty", ())


@pytest.mark.parametrize("version", API.versions)
async def test_a_fenced_producer_is_told_so_in_the_words_of_its_version(version: int) -> None:
    broker = await introduced()
    expected = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert fields_of(await broker.call(API, adding(("orders", (0,)), epoch=1), version)) == {"orders": [(0, expected)]}


async def test_one_error_is_repeated_for_every_partition() -> None:
    broker = await introduced()
    for name, error in (("", ErrorCode.INVALID_REQUEST), ("other", ErrorCode.INVALID_PRODUCER_ID_MAPPING)):
        response = await broker.call(API, adding(("orders", (0, 1)), ("payments", (1,)), name=name))
        assert fields_of(response) == {"orders": [(0, error), (1, error)], "payments": [(1, error)]}


def test_refusals_carry_their_errors() -> None:
    context = RequestContext(3, None, "/127.0.0.1", "PLAINTEXT")
    refusal = API.refuse(adding(("orders", (0, 1))), context, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert fields_of(refusal) == {"orders": [(0, -1), (1, -1)]}
    offsets = AddOffsetsToTxnRequest("tx", 0, 0, "g")
    assert ADD_OFFSETS.refuse(offsets, context, ErrorCode.UNKNOWN_SERVER_ERROR).error_code == -1


@pytest.mark.parametrize("version", ADD_OFFSETS.versions)
async def test_offsets_add_the_partition_of_their_group(version: int) -> None:
    broker = await introduced()
    response = await broker.call(ADD_OFFSETS, AddOffsetsToTxnRequest("tx", 0, 0, "readers"), version)
    assert response.error_code == 0
    partition = broker.groups.partition_for("readers")
    assert registered(broker) == ("Ongoing", ((CONSUMER_OFFSETS_TOPIC, partition),))


async def test_offsets_wait_until_the_coordinator_knows_their_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take the partition for deleted at the end, and leave the transaction open there."""
    broker = await introduced()
    wanted: list[str] = []
    monkeypatch.setattr(broker.cluster, "leader_of", lambda partition: None)
    monkeypatch.setattr(broker.cluster, "want_internal_topic", wanted.append)
    response = await broker.call(ADD_OFFSETS, AddOffsetsToTxnRequest("tx", 0, 0, "readers"))
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert wanted == [CONSUMER_OFFSETS_TOPIC]
    assert registered(broker) == ("Empty", ())


@pytest.mark.parametrize("version", ADD_OFFSETS.versions)
async def test_offsets_of_a_fenced_producer_are_refused_in_the_words_of_its_version(version: int) -> None:
    broker = await introduced()
    expected = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    response = await broker.call(ADD_OFFSETS, AddOffsetsToTxnRequest("tx", 0, 7, "readers"), version)
    assert response.error_code == expected
