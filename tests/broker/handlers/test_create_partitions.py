"""CreatePartitions."""

import pytest
from data_broker import DataBroker, refused

from eosin.broker.handlers.create_partitions import API
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)


def grow(name: str, count: int, *replicas: tuple[int, ...]) -> CreatePartitionsTopic:
    assignments = tuple(CreatePartitionsAssignment(nodes) for nodes in replicas) or None
    return CreatePartitionsTopic(name, count, assignments)


async def with_orders() -> DataBroker:
    broker = await DataBroker.started()
    await broker.cluster.create_topic("orders", partitions=2)
    return broker


@pytest.mark.parametrize("version", API.versions)
async def test_every_version_adds_partitions(version: int) -> None:
    broker = await with_orders()
    answer = await broker.call(API, CreatePartitionsRequest(topics=(grow("orders", 4, (1,), (1,)),)), version)
    assert [(each.name, each.error_code) for each in answer.results] == [("orders", 0)]
    assert broker.cluster.topics["orders"].partitions == 4


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (grow("orders", 2), ErrorCode.INVALID_PARTITIONS),
        (grow("orders", 1), ErrorCode.INVALID_PARTITIONS),
        (grow("orders", 3, (1,), (1,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (grow("orders", 3, (7,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (grow("unknown", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (grow("__consumer_offsets", 60), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
async def test_each_fault_has_its_code_and_a_message(topic: CreatePartitionsTopic, error: ErrorCode) -> None:
    broker = await with_orders()
    (result,) = (await broker.call(API, CreatePartitionsRequest(topics=(topic,)))).results
    assert result.error_code == error
    assert result.error_message
    assert broker.cluster.topics["orders"].partitions == 2


async def test_a_topic_that_is_named_twice_is_refused() -> None:
    broker = await with_orders()
    answer = await broker.call(API, CreatePartitionsRequest(topics=(grow("orders", 3), grow("orders", 4))))
    assert [each.error_code for each in answer.results] == [ErrorCode.INVALID_REQUEST]


async def test_a_dry_run_adds_nothing() -> None:
    broker = await with_orders()
    answer = await broker.call(API, CreatePartitionsRequest(topics=(grow("orders", 3),), validate_only=True))
    assert [each.error_code for each in answer.results] == [0]
    assert broker.cluster.topics["orders"].partitions == 2


def test_a_refusal_names_each_topic() -> None:
    answer = refused(API, CreatePartitionsRequest(topics=(grow("orders", 3),)), ErrorCode.NOT_CONTROLLER, 0)
    assert [(each.name, each.error_code) for each in answer.results] == [("orders", 41)]
