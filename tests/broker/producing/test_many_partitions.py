"""A Produce request of more partitions than one turn has time for: in pieces, and answered as if it were in none."""

from typing import Any

from data_broker import DataBroker, batch, settle

from eosin.broker.handlers import produce
from eosin.network.many_items import ITEMS_PER_TURN, pieces
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

T = 1_700_000_000_000
MANY = 2 * ITEMS_PER_TURN + 50


def topic(name: str, indexes: range, records: bytes | None = None) -> TopicProduceData:
    data = batch("v", timestamp=T) if records is None else records
    return TopicProduceData(name, partition_data=tuple(PartitionProduceData(each, data) for each in indexes))


def in_transaction(producer_id: int) -> bytes:
    return batch("v", timestamp=T, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)


async def answered(broker: DataBroker, *topics: TopicProduceData, **how: Any) -> Any:
    request = ProduceRequest(how.get("transactional_id"), how.get("acks", -1), 1000, topics)
    return await broker.call(produce.API, request, 11)


def errors(response: Any) -> set[int]:
    return {each.error_code for topic in response.responses for each in topic.partition_responses}


def test_pieces_of_topics_are_the_topics() -> None:
    topics = [topic("a", range(3)), topic("none", range(0)), topic("b", range(MANY)), topic("c", range(1))]
    found = list(pieces(topics, "partition_data"))
    assert [sum(max(1, len(each.partition_data)) for each in piece) for piece in found] == [200, 200, 55]
    whole: dict[str, list[int]] = {}
    for piece in found:
        for each in piece:
            whole.setdefault(each.name, []).extend(part.index for part in each.partition_data)
    assert whole == {each.name: [part.index for part in each.partition_data] for each in topics}
    assert list(pieces((), "partition_data")) == []


async def test_each_partition_is_appended_once_and_answered_in_its_place() -> None:
    broker = await DataBroker.started()
    await broker.create_topic("orders", partitions=MANY)
    await broker.create_topic("bills", partitions=1)
    asked = (
        topic("gone", range(3)),
        topic("orders", range(MANY)),
        topic("none", range(0)),
        topic("bills", range(2)),
    )
    response = await answered(broker, *asked)
    assert [(each.name, len(each.partition_responses)) for each in response.responses] == [
        ("gone", 3),
        ("orders", MANY),
        ("none", 0),
        ("bills", 2),
    ]
    gone, orders, _, bills = response.responses
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert {each.error_code for each in gone.partition_responses} == {unknown}
    assert [(each.index, each.error_code, each.base_offset) for each in orders.partition_responses] == [
        (index, 0, 0) for index in range(MANY)
    ]
    assert [each.error_code for each in bills.partition_responses] == [0, unknown]
    assert {broker.log("orders", each).log_end_offset for each in range(MANY)} == {1}
    await broker.stop()


async def test_without_acks_it_has_no_response_and_is_appended() -> None:
    broker = await DataBroker.started()
    await broker.create_topic("orders", partitions=MANY)
    assert await answered(broker, topic("orders", range(MANY)), acks=0) is None
    assert {broker.log("orders", each).log_end_offset for each in range(MANY)} == {1}
    await broker.stop()


async def test_it_is_answered_when_all_of_it_is_durable() -> None:
    broker = await DataBroker.started()
    await broker.create_topic("orders", partitions=MANY)
    await answered(broker, topic("orders", range(MANY)))
    broker.flusher.held = True
    request = ProduceRequest(None, -1, 1000, (topic("orders", range(MANY)),))
    begun = broker.begin(produce.API, request, 11)
    await settle()
    assert not begun.done()
    broker.flusher.release()
    await settle()
    assert errors(begun.result()) == {0}
    await broker.stop()


async def test_batches_of_two_producers_refuse_all_of_it_in_whatever_pieces_they_are() -> None:
    broker = await DataBroker.started()
    await broker.create_topic("orders", partitions=MANY)
    response = await answered(
        broker,
        topic("orders", range(MANY - 1), in_transaction(1)),
        topic("orders", range(MANY - 1, MANY), in_transaction(2)),
        transactional_id="t",
    )
    assert errors(response) == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert {broker.log("orders", each).log_end_offset for each in range(MANY)} == {0}
    await broker.stop()


async def test_a_transactional_batch_without_an_id_refuses_all_of_it() -> None:
    broker = await DataBroker.started()
    await broker.create_topic("orders", partitions=MANY)
    response = await answered(
        broker, topic("orders", range(MANY - 1)), topic("orders", range(MANY - 1, MANY), in_transaction(2))
    )
    assert errors(response) == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert {broker.log("orders", each).log_end_offset for each in range(MANY)} == {0}
    await broker.stop()
