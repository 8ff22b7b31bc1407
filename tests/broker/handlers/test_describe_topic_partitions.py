"""DescribeTopicPartitions."""

from typing import Any

import pytest
from data_broker import DataBroker, refused

from eosin.broker.handlers.describe_topic_partitions import API
from eosin.model.cluster import PartitionState
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest


async def with_topics() -> DataBroker:
    broker = await DataBroker.started()
    await broker.cluster.create_topic("b", partitions=3)
    await broker.cluster.create_topic("a", partitions=2)
    return broker


async def pages(broker: DataBroker, limit: int, *names: str) -> list[list[tuple[str, list[int]]]]:
    found: list[list[tuple[str, list[int]]]] = []
    cursor: Any = None
    while True:
        request = DescribeTopicPartitionsRequest(tuple(map(TopicRequest, names)), limit, cursor)
        answer = await broker.call(API, request)
        found.append([(each.name, [it.partition_index for it in each.partitions]) for each in answer.topics])
        cursor = answer.next_cursor
        if cursor is None:
            return found


async def test_topics_come_in_order_of_name_with_their_leaders() -> None:
    broker = await with_topics()
    answer = await broker.call(API, DescribeTopicPartitionsRequest((TopicRequest("b"), TopicRequest("a"))))
    assert [(each.name, len(each.partitions), each.is_internal) for each in answer.topics] == [
        ("a", 2, False),
        ("b", 3, False),
    ]
    partition = answer.topics[0].partitions[1]
    assert (partition.partition_index, partition.leader_id, partition.leader_epoch) == (1, 1, 0)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ((1,), (1,), ())
    assert partition.eligible_leader_replicas == partition.last_known_elr == ()
    assert answer.topics[0].topic_authorized_operations > 0


async def test_eligible_leader_replicas_are_told_as_the_controllers_know_them(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = await with_topics()
    state = PartitionState(2, 7, (1, 2, 3), (2,), (1,), eligible=(3,), last_known_eligible=(1,))
    monkeypatch.setattr(type(broker.cluster), "partition_state", lambda cluster, partition: state)
    answer = await broker.call(API, DescribeTopicPartitionsRequest((TopicRequest("a"),)))
    partition = answer.topics[0].partitions[0]
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ((3,), (1,))


async def test_no_names_ask_for_all_topics() -> None:
    (page,) = await pages(await with_topics(), 2000)
    assert [name for name, _ in page] == ["__consumer_offsets", "__transaction_state", "a", "b"]


async def test_pages_cover_every_partition_once() -> None:
    broker = await with_topics()
    assert await pages(broker, 2, "a", "b") == [[("a", [0, 1])], [("b", [0, 1])], [("b", [2])]]
    assert await pages(broker, 1, "a", "b") == [[("a", [0])], [("a", [1])], [("b", [0])], [("b", [1])], [("b", [2])]]
    assert await pages(broker, 4, "a", "b") == [[("a", [0, 1]), ("b", [0, 1])], [("b", [2])]]
    assert await pages(broker, 0, "a") == [[("a", [0])], [("a", [1])]]


async def test_a_cursor_on_a_topic_that_is_gone_goes_on_with_the_next() -> None:
    broker = await with_topics()
    await broker.cluster.delete_topic("a")
    answer = await broker.call(API, DescribeTopicPartitionsRequest((), 2000, Cursor("a", 1)))
    assert [each.name for each in answer.topics] == ["b"]


async def test_unknown_topics_are_told() -> None:
    broker = await with_topics()
    answer = await broker.call(API, DescribeTopicPartitionsRequest((TopicRequest("no"), TopicRequest("a/b"))))
    assert [(each.name, each.error_code) for each in answer.topics] == [("a/b", 17), ("no", 3)]


async def test_a_negative_cursor_is_invalid() -> None:
    broker = await with_topics()
    answer = await broker.call(API, DescribeTopicPartitionsRequest((TopicRequest("a"),), 1, Cursor("a", -1)))
    assert [each.error_code for each in answer.topics] == [ErrorCode.INVALID_REQUEST]


def test_a_refusal_names_each_topic() -> None:
    answer = refused(API, DescribeTopicPartitionsRequest((TopicRequest("a"),)), ErrorCode.UNKNOWN_SERVER_ERROR, 0)
    assert [(each.name, each.error_code) for each in answer.topics] == [("a", -1)]
