"""WriteTxnMarkers: each marker into each partition, each with its own answer."""

import logging

import pytest
from data_broker import DataBroker, batch

from eosin.broker.handlers.add_partitions_to_txn import API as ADD
from eosin.broker.handlers.init_producer_id import API as INIT
from eosin.broker.handlers.write_txn_markers import API
from eosin.network.api import RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import read_control_record, read_header
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


async def hanging() -> DataBroker:
    """A broker on which producer 0 at epoch 0 has a transaction open in both partitions of `orders`."""
    broker = await DataBroker.started()
    await broker.create_topic(partitions=2)
    await broker.call(INIT, InitProducerIdRequest("tx", 60_000))
    await broker.call(ADD, AddPartitionsToTxnRequest((), "tx", 0, 0, (AddPartitionsToTxnTopic("orders", (0, 1)),)))
    for partition in (0, 1):
        records = batch("v", producer_id=0, producer_epoch=0, base_sequence=0, transactional=True)
        assert (await broker.produce(records, partition=partition, transactional_id="tx")).error_code == 0
    return broker


def marker(
    *topics: tuple[str, tuple[int, ...]], producer_id: int = 0, epoch: int = 0, commit: bool = False, version: int = 0
) -> WritableTxnMarker:
    named = tuple(WritableTxnMarkerTopic(*topic) for topic in topics)
    return WritableTxnMarker(producer_id, epoch, commit, named, coordinator_epoch=9, transaction_version=version)


def fields_of(response: WriteTxnMarkersResponse) -> list[tuple[int, dict[str, list[tuple[int, int]]]]]:
    return [
        (
            result.producer_id,
            {
                topic.name: [(each.partition_index, each.error_code) for each in topic.partitions]
                for topic in result.topics
            },
        )
        for result in response.markers
    ]


@pytest.mark.parametrize("version", API.versions)
async def test_an_administrator_ends_a_hanging_transaction_in_one_partition(version: int) -> None:
    broker = await hanging()
    response = await broker.call(API, WriteTxnMarkersRequest((marker(("orders", (1,))),)), version)
    assert fields_of(response) == [(0, {"orders": [(1, 0)]})]
    assert (broker.log(partition=0).last_stable_offset, broker.log(partition=1).last_stable_offset) == (0, 2)


async def test_the_marker_is_a_control_record_with_the_epoch_of_its_coordinator() -> None:
    broker = await hanging()
    await broker.call(API, WriteTxnMarkersRequest((marker(("orders", (0,)), commit=True),)))
    last = bytes(list(broker.log().batches())[-1])
    header = read_header(last)
    assert (header.is_control, header.is_transactional, header.producer_id, header.producer_epoch) == (True, True, 0, 0)
    control = read_control_record(last)
    assert control is not None
    assert control.coordinator_epoch == 9


async def test_each_partition_has_its_own_answer() -> None:
    broker = await hanging()
    await broker.call(API, WriteTxnMarkersRequest((marker(("orders", (0,)), epoch=5),)))
    response = await broker.call(API, WriteTxnMarkersRequest((marker(("orders", (0, 1, 2)), ("nowhere", (0,))),)))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fields_of(response) == [
        (
            0,
            {
                "orders": [(0, ErrorCode.INVALID_PRODUCER_EPOCH), (1, 0), (2, unknown)],
                "nowhere": [(0, unknown)],
            },
        )
    ]


async def test_the_strict_rule_applies_to_markers_of_version_2_only() -> None:
    broker = await hanging()
    strict = WriteTxnMarkersRequest((marker(("orders", (0,)), version=2),))
    assert fields_of(await broker.call(API, strict, 2)) == [(0, {"orders": [(0, ErrorCode.INVALID_PRODUCER_EPOCH)]})]
    assert fields_of(await broker.call(API, strict, 1)) == [(0, {"orders": [(0, 0)]})]


async def test_two_markers_of_one_producer_keep_their_answers_apart() -> None:
    broker = await hanging()
    request = WriteTxnMarkersRequest((marker(("orders", (0,)), epoch=5), marker(("orders", (0,)), epoch=4)))
    response = await broker.call(API, request)
    assert fields_of(response) == [
        (0, {"orders": [(0, 0)]}),
        (0, {"orders": [(0, ErrorCode.INVALID_PRODUCER_EPOCH)]}),
    ]


async def test_several_producers_share_a_request() -> None:
    broker = await hanging()
    request = WriteTxnMarkersRequest((marker(("orders", (0,))), marker(("orders", (1,)), producer_id=77)))
    assert fields_of(await broker.call(API, request)) == [(0, {"orders": [(0, 0)]}), (77, {"orders": [(1, 0)]})]


async def test_no_markers_have_no_answers() -> None:
    broker = await DataBroker.started()
    assert fields_of(await broker.call(API, WriteTxnMarkersRequest(()))) == []


def test_a_refusal_carries_its_error_for_every_partition() -> None:
    context = RequestContext(2, None, "/127.0.0.1", "PLAINTEXT")
    request = WriteTxnMarkersRequest((marker(("orders", (0, 1))),))
    refusal = API.refuse(request, context, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert fields_of(refusal) == [(0, {"orders": [(0, -1), (1, -1)]})]


async def test_the_audit_log_names_the_client_that_ends_a_hanging_transaction(caplog: pytest.LogCaptureFixture) -> None:
    broker = await hanging()
    with caplog.at_level(logging.INFO, "eosin.audit"):
        await broker.call(API, WriteTxnMarkersRequest((marker(("orders", (0, 1))), marker(("forged\nline", (3,))))))
    lines = [record for record in caplog.records if record.name == "eosin.audit"]
    facts = [vars(record)["eosin_fields"] for record in lines]
    assert [each["partitions"] for each in facts] == ["orders-0 orders-1", "forged\\nline-3"]
    assert {each["producer_id"] for each in facts} == {"0"}
    assert all(each["host"] and each["listener"] for each in facts)
