"""DeleteTopics."""

import asyncio

import pytest
from data_broker import DataBroker, refused

from eosin.broker.handlers import delete_topics
from eosin.broker.handlers.delete_topics import API
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from eosin.settings.broker import BrokerConfig


async def with_topics(*names: str) -> DataBroker:
    broker = await DataBroker.started()
    for name in names:
        await broker.cluster.create_topic(name)
    return broker


@pytest.mark.parametrize("version", API.versions)
async def test_every_version_deletes_by_name(version: int) -> None:
    broker = await with_topics("a", "b")
    request = DeleteTopicsRequest(topic_names=("a", "no"), topics=(DeleteTopicState("a"), DeleteTopicState("no")))
    answer = await broker.call(API, request, version)
    assert [(each.name, each.error_code) for each in answer.responses] == [("a", 0), ("no", 3)]
    assert "a" not in broker.cluster.topics
    assert "b" in broker.cluster.topics


async def test_a_topic_is_deleted_by_id_and_the_answer_has_both() -> None:
    broker = await with_topics("a")
    topic_id = broker.cluster.topics["a"].topic_id
    request = DeleteTopicsRequest(topics=(DeleteTopicState(None, topic_id), DeleteTopicState(None, b"x" * 16)))
    answer = await broker.call(API, request)
    assert [(each.name, each.topic_id, each.error_code) for each in answer.responses] == [
        ("a", topic_id, 0),
        (None, b"x" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert "a" not in broker.cluster.topics


async def test_a_topic_is_named_by_either_name_or_id() -> None:
    broker = await with_topics("a")
    topic_id = broker.cluster.topics["a"].topic_id
    request = DeleteTopicsRequest(topics=(DeleteTopicState("a", topic_id), DeleteTopicState(None)))
    answer = await broker.call(API, request)
    assert [each.error_code for each in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2
    assert "a" in broker.cluster.topics


async def test_a_topic_that_is_named_twice_stays() -> None:
    broker = await with_topics("a", "b")
    topic_id = broker.cluster.topics["a"].topic_id
    request = DeleteTopicsRequest(
        topics=(DeleteTopicState("a"), DeleteTopicState("b"), DeleteTopicState(None, topic_id))
    )
    answer = await broker.call(API, request)
    assert [each.error_code for each in answer.responses] == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]
    assert "a" in broker.cluster.topics


async def test_internal_topics_stay() -> None:
    broker = await with_topics()
    answer = await broker.call(API, DeleteTopicsRequest(topics=(DeleteTopicState("__transaction_state"),)))
    assert [each.error_code for each in answer.responses] == [ErrorCode.INVALID_TOPIC_EXCEPTION]


@pytest.mark.parametrize(("version", "error"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
async def test_deletion_can_be_disabled(version: int, error: ErrorCode) -> None:
    broker = await DataBroker.started(BrokerConfig(delete_topic_enable=False))
    await broker.cluster.create_topic("a")
    answer = await broker.call(API, DeleteTopicsRequest(topic_names=("a",)), version)
    assert [(each.name, each.error_code) for each in answer.responses] == [("a", error)]
    assert "a" in broker.cluster.topics


def test_a_refusal_names_each_topic() -> None:
    answer = refused(API, DeleteTopicsRequest(topics=(DeleteTopicState("a"),)), ErrorCode.NOT_CONTROLLER, 6)
    assert [(each.name, each.error_code) for each in answer.responses] == [("a", 41)]


async def test_topics_of_one_request_are_put_away_a_few_partitions_at_a_time() -> None:
    broker = await DataBroker.started()
    names = [f"topic-{index}" for index in range(7)]
    for name in names:
        await broker.cluster.create_topic(name, partitions=delete_topics.PARTITIONS_AT_ONCE // 3)
    left: list[int] = []

    async def beside() -> None:
        while len(broker.cluster.topics) > 2:
            left.append(len(broker.cluster.topics) - 2)
            await asyncio.sleep(0)

    watching = asyncio.ensure_future(beside())
    answer = await broker.call(API, DeleteTopicsRequest(topics=tuple(DeleteTopicState(name=each) for each in names)))
    await watching
    assert [each.error_code for each in answer.responses] == [0] * 7
    assert {4, 1} <= set(left)
