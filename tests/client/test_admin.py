"""Administration: what is asked, and how refusals come back."""

from typing import Any

import pytest
from stub_broker import NODE, StubBroker

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.errors import BrokerError
from eosin.protocol.config_resources import ConfigResourceType
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.create_partitions import CreatePartitionsResponse, CreatePartitionsTopicResult
from eosin.protocol.schemas.create_topics import CreatableTopicResult, CreateTopicsResponse
from eosin.protocol.schemas.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from eosin.protocol.schemas.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from eosin.protocol.schemas.describe_cluster import DescribeClusterResponse
from eosin.protocol.schemas.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from eosin.protocol.schemas.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

pytestmark = pytest.mark.virtual


async def test_creating_a_topic_says_what_is_wanted_and_raises_what_is_refused() -> None:
    results = [CreatableTopicResult("t"), CreatableTopicResult("t", error_code=36, error_message="it is there")]

    async with StubBroker() as broker, Client([broker.address]) as client:
        broker.answers[ApiKey.CREATE_TOPICS] = lambda *_: CreateTopicsResponse(topics=(results.pop(0),))
        admin = Admin(client)
        await admin.create_topic("t", 3, configs={"cleanup.policy": "compact"})
        with pytest.raises(BrokerError, match=r"creating topic t: TOPIC_ALREADY_EXISTS \(it is there\)"):
            await admin.create_topic("t")
        first, second = (request.topics[0] for request in broker.requests(ApiKey.CREATE_TOPICS))
        assert (first.name, first.num_partitions, first.replication_factor) == ("t", 3, -1)
        assert [(each.name, each.value) for each in first.configs] == [("cleanup.policy", "compact")]
        assert second.num_partitions == -1


@pytest.mark.parametrize("version", [5, 6])
async def test_topics_are_deleted_by_name_in_either_form(version: int) -> None:
    async with StubBroker() as broker, Client([broker.address], versions={ApiKey.DELETE_TOPICS: version}) as client:
        broker.answers[ApiKey.DELETE_TOPICS] = lambda *_: DeleteTopicsResponse(
            responses=(DeletableTopicResult("a"), DeletableTopicResult("b", error_code=3))
        )
        with pytest.raises(BrokerError, match="deleting topic b: UNKNOWN_TOPIC_OR_PARTITION"):
            await Admin(client).delete_topics(["a", "b"])
        (request,) = broker.requests(ApiKey.DELETE_TOPICS)
        names = [topic.name for topic in request.topics] if version >= 6 else list(request.topic_names)
        assert names == ["a", "b"]


async def test_the_cluster_and_its_topics_are_described() -> None:
    async with StubBroker(topics=("a", "b")) as broker, Client([broker.address]) as client:
        broker.answers[ApiKey.DESCRIBE_CLUSTER] = lambda *_: DescribeClusterResponse(cluster_id="c")
        admin = Admin(client)
        assert (await admin.describe_cluster()).cluster_id == "c"
        assert sorted((await admin.topics()).topics) == ["a", "b"]
        assert (await admin.topics(["nope"])).topics["nope"].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_settings_are_read_by_name() -> None:
    setting = DescribeConfigsResourceResult("retention.ms", "5")

    def describe(request: Any, _: int) -> DescribeConfigsResponse:
        asked = request.resources[0]
        result = DescribeConfigsResult(0, None, asked.resource_type, asked.resource_name, (setting,))
        return DescribeConfigsResponse(results=(result,))

    async with StubBroker() as broker, Client([broker.address]) as client:
        broker.answers[ApiKey.DESCRIBE_CONFIGS] = describe
        admin = Admin(client)
        assert await admin.describe_configs("topic", keys=["retention.ms"]) == {"retention.ms": setting}
        await admin.describe_configs(str(NODE), kind=ConfigResourceType.BROKER)
        first, second = (request.resources[0] for request in broker.requests(ApiKey.DESCRIBE_CONFIGS))
        assert (first.resource_type, first.configuration_keys) == (2, ("retention.ms",))
        assert (second.resource_type, second.configuration_keys) == (4, None)


async def test_settings_are_set_and_put_back_one_by_one() -> None:
    async with StubBroker() as broker, Client([broker.address]) as client:
        answers = [AlterConfigsResourceResponse(), AlterConfigsResourceResponse(40, "no such setting")]
        broker.answers[ApiKey.INCREMENTAL_ALTER_CONFIGS] = lambda *_: IncrementalAlterConfigsResponse(
            responses=(answers.pop(0),)
        )
        admin = Admin(client)
        await admin.alter_configs("topic", {"retention.ms": "5", "segment.ms": None})
        changes = broker.requests(ApiKey.INCREMENTAL_ALTER_CONFIGS)[0].resources[0].configs
        assert [(each.name, each.config_operation, each.value) for each in changes] == [
            ("retention.ms", 0, "5"),
            ("segment.ms", 1, None),
        ]
        with pytest.raises(BrokerError, match=r"INVALID_CONFIG \(no such setting\)"):
            await admin.alter_configs("topic", {"x": "y"})


async def test_partitions_are_added_and_records_deleted() -> None:
    async with StubBroker() as broker, Client([broker.address]) as client:
        broker.answers[ApiKey.CREATE_PARTITIONS] = lambda *_: CreatePartitionsResponse(
            results=(CreatePartitionsTopicResult("topic", 37, "it has more"),)
        )
        deleted = DeleteRecordsTopicResult("topic", (DeleteRecordsPartitionResult(1, 42),))
        broker.answers[ApiKey.DELETE_RECORDS] = lambda *_: DeleteRecordsResponse(topics=(deleted,))
        admin = Admin(client)
        with pytest.raises(BrokerError, match=r"INVALID_PARTITIONS \(it has more\)"):
            await admin.create_partitions("topic", 1)
        assert await admin.delete_records(TopicPartition("topic", 1), 42) == 42
