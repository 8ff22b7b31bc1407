"""Requests that the controller decides, as a broker of several machines passes them on (cluster.md 5)."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from scripted_controller import HERE, ScriptedCluster, broker, partition, topic, topic_id

from eosin.broker.api import CloseConnection, RequestContext
from eosin.broker.forwarding import FORWARDED, Forwarding, decode
from eosin.broker.membership.registration import FEATURES
from eosin.broker.registry import BY_KEY
from eosin.protocol.codec import EncodedBody, decode_body, decode_request_header, encode_request
from eosin.protocol.errors import ErrorCode
from eosin.protocol.headers import SIZE_BYTES
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC
from eosin.protocol.schemas import incremental_alter_configs as incremental
from eosin.protocol.schemas.api_versions import ApiVersionsRequest, ApiVersionsResponse
from eosin.protocol.schemas.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from eosin.protocol.schemas.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from eosin.protocol.schemas.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from eosin.protocol.schemas.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from eosin.protocol.schemas.describe_cluster import DescribeClusterRequest
from eosin.protocol.schemas.records import metadata as records
from eosin.protocol.types import Message

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
CREATE = CreateTopicsRequest(topics=(CreatableTopic("new", 1, 1),))


class World(ScriptedCluster):
    """A broker whose handlers pass requests on to a script."""

    def __init__(self) -> None:
        super().__init__()
        channel: Any = self.controller
        self.apis = Forwarding(self.cluster, channel).apis(BY_KEY)
        self.publish(broker(HERE), *topic("orders", partition("orders")))

    async def ask(self, key: ApiKey, version: int, message: Message, *, correlation_id: int = 5) -> Any:
        frame = memoryview(b"".join(encode_request(key, version, correlation_id, "client", message))[SIZE_BYTES:])
        self.frame = bytes(frame)
        request = decode(key, version, frame, decode_request_header(frame).body_offset)
        services: Any = SimpleNamespace(config=self.config, cluster=self.cluster)
        context = RequestContext(version, "client", "/192.0.2.7", "PLAINTEXT")
        response = await self.apis[key].response(request, context, services)
        return decode_body(key, version, response) if isinstance(response, EncodedBody) else response


async def test_the_controller_gets_the_bytes_and_the_address_and_the_client_its_response() -> None:
    world = World()

    def answered(_: Message) -> CreateTopicsResponse:
        world.publish(*topic("new", partition("new")))
        return CreateTopicsResponse(topics=(CreatableTopicResult("new", topic_id("new"), num_partitions=1),))

    world.controller.responses.append(answered)
    response = await world.ask(ApiKey.CREATE_TOPICS, 7, CREATE)
    assert response.topics[0].topic_id == topic_id("new")
    assert world.controller.envelopes == [(world.frame, bytes((192, 0, 2, 7)))]


@pytest.mark.parametrize("error", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR])
async def test_a_request_that_no_controller_answered_is_refused_in_the_client_s_form(error: ErrorCode) -> None:
    world = World()
    world.controller.responses.append(error)
    response = await world.ask(ApiKey.CREATE_TOPICS, 7, CREATE)
    assert [(each.name, each.error_code) for each in response.topics] == [("new", error)]


async def test_a_version_that_the_controller_does_not_speak_closes_the_connection() -> None:
    world = World()
    world.controller.responses.append(ErrorCode.UNSUPPORTED_VERSION)
    with pytest.raises(CloseConnection):
        await world.ask(ApiKey.CREATE_TOPICS, 7, CREATE)


async def test_a_client_hears_of_its_change_when_this_broker_shows_it() -> None:
    world = World()
    world.controller.responses += (
        CreateTopicsResponse(topics=(CreatableTopicResult("new", topic_id("new")),)),
        CreatePartitionsResponse(results=(CreatePartitionsTopicResult("new"),)),
        incremental.IncrementalAlterConfigsResponse(
            responses=(incremental.AlterConfigsResourceResponse(0, None, TOPIC, "new"),)
        ),
        DeleteTopicsResponse(responses=(DeletableTopicResult("new", topic_id("new")),)),
    )
    changes: tuple[tuple[ApiKey, int, Message, tuple[Message, ...]], ...] = (
        (ApiKey.CREATE_TOPICS, 7, CREATE, topic("new", partition("new"))),
        (
            ApiKey.CREATE_PARTITIONS,
            3,
            CreatePartitionsRequest(topics=(CreatePartitionsTopic("new", 2),)),
            (partition("new", 1),),
        ),
        (
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            configs(TOPIC, "new", "retention.ms", "9"),
            (records.ConfigRecord(TOPIC, "new", "retention.ms", "9"),),
        ),
        (
            ApiKey.DELETE_TOPICS,
            6,
            DeleteTopicsRequest(topics=(DeleteTopicState(None, topic_id("new")),)),
            (records.RemoveTopicRecord(topic_id("new")),),
        ),
    )
    for key, version, request, batch in changes:
        asking = asyncio.ensure_future(world.ask(key, version, request))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not asking.done(), key
        world.publish(*batch)
        await asyncio.wait_for(asking, 0.4)


def configs(kind: int, name: str, setting: str, value: str) -> incremental.IncrementalAlterConfigsRequest:
    return incremental.IncrementalAlterConfigsRequest(resources=(resource(kind, name, setting, value),))


def resource(kind: int, name: str, setting: str, value: str) -> incremental.AlterConfigsResource:
    return incremental.AlterConfigsResource(kind, name, (incremental.AlterableConfig(setting, 0, value),))


async def test_a_dry_run_is_answered_at_once() -> None:
    world = World()
    world.controller.responses.append(CreateTopicsResponse(topics=(CreatableTopicResult("new"),)))
    dry = CreateTopicsRequest(topics=CREATE.topics, validate_only=True)
    assert await asyncio.wait_for(world.ask(ApiKey.CREATE_TOPICS, 7, dry), 0.4)


async def test_settings_of_loggers_and_bad_ones_of_brokers_never_reach_the_controller() -> None:
    world = World()
    world.controller.responses.append(
        lambda request: incremental.IncrementalAlterConfigsResponse(
            responses=tuple(
                incremental.AlterConfigsResourceResponse(0, None, each.resource_type, each.resource_name)
                for each in request.resources
            )
        )
    )
    request = incremental.IncrementalAlterConfigsRequest(
        resources=(
            resource(BROKER_LOGGER, "1", "eosin.broker.metadata.cluster", "DEBUG"),
            resource(BROKER, "2", "log.retention.ms", "1"),
            resource(BROKER, "1", "num.partitions", "1"),
            resource(BROKER, "", "log.retention.ms", "never"),
            resource(TOPIC, "orders", "retention.bytes", "-1"),
        ),
        validate_only=True,
    )
    response = await world.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    answers = {(each.resource_type, each.resource_name): each.error_code for each in response.responses}
    assert answers.pop((TOPIC, "orders")) == ErrorCode.NONE
    assert answers.pop((BROKER_LOGGER, "1")) == ErrorCode.NONE
    assert set(answers.values()) == {ErrorCode.INVALID_REQUEST}
    ((frame, _),) = world.controller.envelopes
    assert b"orders" in frame
    assert b"eosin.broker.metadata.cluster" not in frame
    assert decode_request_header(frame).correlation_id == 5


async def test_internal_topics_do_not_grow_and_others_of_the_request_do() -> None:
    world = World()
    world.controller.responses.append(CreatePartitionsResponse(results=(CreatePartitionsTopicResult("orders"),)))
    request = CreatePartitionsRequest(
        topics=(CreatePartitionsTopic("orders", 1), CreatePartitionsTopic(CONSUMER_OFFSETS_TOPIC, 60))
    )
    response = await world.ask(ApiKey.CREATE_PARTITIONS, 3, request)
    assert [(each.name, each.error_code != 0) for each in response.results] == [
        ("orders", False),
        (CONSUMER_OFFSETS_TOPIC, True),
    ]


async def test_forwarded_apis_are_announced_as_far_as_the_controller_serves_them() -> None:
    world = World()
    world.publish(
        records.FeatureLevelRecord("transaction.version", 1), records.FeatureLevelRecord("metadata.version", 30)
    )
    world.controller.versions[ApiKey.CREATE_TOPICS] = (3, 6)
    told: ApiVersionsResponse = await world.ask(ApiKey.API_VERSIONS, 4, ApiVersionsRequest("c", "1"))
    versions = {each.api_key: (each.min_version, each.max_version) for each in told.api_keys}
    assert versions[ApiKey.CREATE_TOPICS] == (3, 6)
    assert {each.name: each.max_version_level for each in told.finalized_features} == {
        "metadata.version": 30,
        "transaction.version": 1,
    }
    assert told.finalized_features_epoch == world.cluster.image.offset
    assert {each.name for each in told.supported_features} == set(FEATURES)


async def test_before_any_controller_was_asked_its_apis_are_not_announced() -> None:
    world = World()
    for key in FORWARDED:
        world.controller.versions[key] = None
    told: ApiVersionsResponse = await world.ask(ApiKey.API_VERSIONS, 4, ApiVersionsRequest("c", "1"))
    assert not FORWARDED & {each.api_key for each in told.api_keys}


async def test_fenced_brokers_are_described_if_they_are_asked_for() -> None:
    world = World()
    world.publish(broker(2, fenced=True))
    world.cluster.advertise("PLAINTEXT", "host-1", 9092)
    for asked, told in ((False, [(1, False)]), (True, [(1, False), (2, True)])):
        request = DescribeClusterRequest(include_fenced_brokers=asked)
        response = await world.ask(ApiKey.DESCRIBE_CLUSTER, 2, request)
        assert [(each.broker_id, each.is_fenced) for each in response.brokers] == told


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ((), False, ["a", "a+c", "default"]),
        ((("user", 0, "a"),), False, ["a", "a+c"]),
        ((("user", 0, "a"),), True, ["a"]),
        ((("user", 1, None),), False, ["default"]),
        ((("user", 2, None),), True, ["a", "default"]),
        ((("user", 2, None), ("client-id", 0, "c")), True, ["a+c"]),
        ((("ip", 2, None),), False, []),
    ],
)
async def test_quotas_are_described_by_what_they_are_for(
    components: tuple[tuple[str, int, str | None], ...], strict: bool, found: list[str]
) -> None:
    world = World()
    user, client = records.EntityData("user", "a"), records.EntityData("client-id", "c")
    world.publish(
        records.ClientQuotaRecord((user,), "producer_byte_rate", 10.0),
        records.ClientQuotaRecord((client, user), "producer_byte_rate", 5.0),
        records.ClientQuotaRecord((records.EntityData("user", None),), "producer_byte_rate", 1.0),
    )
    request = DescribeClientQuotasRequest(tuple(ComponentData(*each) for each in components), strict)
    response = await world.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, request)
    names = {(10.0,): "a", (5.0,): "a+c", (1.0,): "default"}
    assert sorted(names[tuple(value.value for value in each.values)] for each in response.entries) == found
