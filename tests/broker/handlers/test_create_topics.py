"""CreateTopics."""

import asyncio

import pytest
from data_broker import DataBroker, refused

from eosin.broker.handlers.create_topics import API
from eosin.network import many_items
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from eosin.settings.broker import BrokerConfig


def topic(name: str, partitions: int = 1, factor: int = 1, **configs: str | None) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=tuple(CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()),
    )


def assigned(name: str, *replicas: tuple[int, tuple[int, ...]]) -> CreatableTopic:
    assignments = tuple(CreatableReplicaAssignment(index, nodes) for index, nodes in replicas)
    return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)


async def errors(
    broker: DataBroker, *topics: CreatableTopic, version: int = 7, validate_only: bool = False
) -> list[int]:
    request = CreateTopicsRequest(topics=topics, validate_only=validate_only)
    return [each.error_code for each in (await broker.call(API, request, version)).topics]


@pytest.mark.parametrize("version", API.versions)
async def test_every_version_creates_topics(version: int) -> None:
    broker = await DataBroker.started()
    assert await errors(broker, topic("a", 2), topic("b", retention_ms="5"), version=version) == [0, 0]
    assert broker.cluster.topics["a"].partitions == 2
    assert broker.cluster.topics["b"].configs == {"retention.ms": "5"}


async def test_the_answer_tells_the_size_the_id_and_every_effective_config() -> None:
    broker = await DataBroker.started(BrokerConfig(num_partitions=4, given={"num.partitions": "4"}))
    request = CreateTopicsRequest(topics=(topic("orders", -1, -1, retention_ms="5"),))
    (result,) = (await broker.call(API, request)).topics
    assert (result.num_partitions, result.replication_factor) == (4, 1)
    assert result.topic_id == broker.cluster.topics["orders"].topic_id
    configs = {each.name: each for each in result.configs}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", 1)
    assert (configs["cleanup.policy"].value, configs["cleanup.policy"].config_source) == ("delete", 5)
    assert list(configs) == sorted(configs)
    assert len(configs) > 25


async def test_each_fault_has_its_code() -> None:
    broker = await DataBroker.started()
    await broker.cluster.create_topic("orders")
    faults = {
        "exists": (topic("orders"), ErrorCode.TOPIC_ALREADY_EXISTS),
        "name": (topic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        "partitions": (topic("p", 0), ErrorCode.INVALID_PARTITIONS),
        "factor 0": (topic("f0", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        "factor 3": (topic("f3", 1, 3), ErrorCode.INVALID_REPLICATION_FACTOR),
        "config": (topic("c", no_such="1"), ErrorCode.INVALID_CONFIG),
        "null config": (topic("n", retention_ms=None), ErrorCode.INVALID_CONFIG),
        "broker": (assigned("b", (0, (9,))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        "twice assigned": (assigned("t", (0, (1,)), (0, (1,))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        "reserved": (topic("__cluster_metadata"), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        "none": (assigned("ok", (1, (1,)), (0, (1,))), ErrorCode.NONE),
    }
    assert await errors(broker, *(each for each, _ in faults.values())) == [code for _, code in faults.values()]
    assert broker.cluster.topics["ok"].partitions == 2


async def test_a_name_that_stands_twice_is_refused_once_and_the_others_created() -> None:
    broker = await DataBroker.started()
    request = CreateTopicsRequest(topics=(topic("a"), topic("b"), topic("a", 2)))
    results = (await broker.call(API, request)).topics
    assert [(each.name, each.error_code) for each in results] == [("a", ErrorCode.INVALID_REQUEST), ("b", 0)]
    assert "a" not in broker.cluster.topics


async def test_a_dry_run_creates_nothing_but_tells_what_would_be() -> None:
    broker = await DataBroker.started()
    request = CreateTopicsRequest(topics=(topic("a", 3),), validate_only=True)
    (result,) = (await broker.call(API, request)).topics
    assert (result.error_code, result.num_partitions) == (0, 3)
    assert "a" not in broker.cluster.topics


async def test_topics_of_one_request_are_created_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_items, "CHANGES_AT_ONCE", 2)
    broker = await DataBroker.started()
    internal = len(broker.cluster.topics)
    there: list[int] = []

    async def beside() -> None:
        while not there or there[-1] < 5:
            there.append(len(broker.cluster.topics) - internal)
            await asyncio.sleep(0)

    watching = asyncio.ensure_future(beside())
    names = [f"topic-{index}" for index in range(5)]
    results = (await broker.call(API, CreateTopicsRequest(topics=tuple(topic(name) for name in names)))).topics
    await watching
    assert [(each.name, each.error_code) for each in results] == [(name, 0) for name in names]
    assert {2, 4} <= set(there)


async def test_too_many_partitions_violate_the_policy_for_the_whole_request() -> None:
    broker = await DataBroker.started()
    assert await errors(broker, topic("a", 9000), topic("b", 1001)) == [ErrorCode.POLICY_VIOLATION] * 2


def test_a_refusal_names_each_topic_once() -> None:
    request = CreateTopicsRequest(topics=(topic("a"), topic("a"), topic("b")))
    answer = refused(API, request, ErrorCode.NOT_CONTROLLER, 0)
    assert [(each.name, each.error_code) for each in answer.topics] == [("a", 41), ("b", 41)]
