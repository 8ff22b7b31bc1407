"""Requests that the controller decides, as a broker of several machines passes them on (cluster.md 5)."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import pytest
from manual_clock import ManualClock
from scripted_controller import HERE, ScriptedCluster, broker, partition, topic, topic_id

from eosin.broker.handlers.registry import BY_KEY
from eosin.broker.joined.forwarding import FORWARDED, Forwarding, decode
from eosin.model.close_connection import CloseConnection
from eosin.model.cluster import NO_LEADER
from eosin.model.features import SUPPORTED_JOINED
from eosin.model.principals import Principal
from eosin.network.api import RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from eosin.protocol.schemas import incremental_alter_configs as incremental
from eosin.protocol.schemas.add_raft_voter import AddRaftVoterRequest
from eosin.protocol.schemas.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from eosin.protocol.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from eosin.protocol.schemas.api_versions import ApiVersionsRequest, ApiVersionsResponse
from eosin.protocol.schemas.create_delegation_token import CreateDelegationTokenRequest
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
from eosin.protocol.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from eosin.protocol.schemas.describe_delegation_token import DescribeDelegationTokenRequest
from eosin.protocol.schemas.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from eosin.protocol.schemas.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from eosin.protocol.schemas.expire_delegation_token import ExpireDelegationTokenRequest
from eosin.protocol.schemas.list_config_resources import ListConfigResourcesRequest
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from eosin.protocol.schemas.records import metadata as records
from eosin.protocol.schemas.remove_raft_voter import RemoveRaftVoterRequest
from eosin.protocol.schemas.renew_delegation_token import RenewDelegationTokenRequest
from eosin.protocol.schemas.unregister_broker import UnregisterBrokerRequest
from eosin.protocol.schemas.unregister_controller import UnregisterControllerRequest
from eosin.protocol.schemas.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import EncodedBody, decode_body, decode_request_header, encode_request
from eosin.protocol.wire.headers import SIZE_BYTES
from eosin.security.session import NOBODY, SecurityProtocol, Session

pytestmark = pytest.mark.virtual

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
CREATE = CreateTopicsRequest(topics=(CreatableTopic("new", 1, 1),))


class World(ScriptedCluster):
    """A broker whose handlers pass requests on to a script."""

    has_open_two_phase = False

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        channel: Any = self.controller
        self.apis = Forwarding(self.cluster, channel, controller=channel).apis(BY_KEY)
        self.publish(broker(HERE), *topic("orders", partition("orders")))

    async def ask(
        self, key: ApiKey, version: int, message: Message, *, correlation_id: int = 5, session: Session = NOBODY
    ) -> Any:
        frame = memoryview(b"".join(encode_request(key, version, correlation_id, "client", message))[SIZE_BYTES:])
        self.frame = bytes(frame)
        request = decode(key, version, frame, decode_request_header(frame).body_offset)
        services: Any = SimpleNamespace(
            clock=ManualClock(),
            config=self.config,
            cluster=self.cluster,
            transactions=SimpleNamespace(has_open_two_phase=self.has_open_two_phase),
        )
        context = RequestContext(version, "client", "/192.0.2.7", "PLAINTEXT", session=session)
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
        incremental.IncrementalAlterConfigsResponse(
            responses=(incremental.AlterConfigsResourceResponse(0, None, GROUP, "g"),)
        ),
        UpdateFeaturesResponse(),
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
        (
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            configs(GROUP, "g", "consumer.session.timeout.ms", "50000"),
            (records.ConfigRecord(GROUP, "g", "consumer.session.timeout.ms", "50000"),),
        ),
        (
            ApiKey.UPDATE_FEATURES,
            2,
            UpdateFeaturesRequest(feature_updates=(FeatureUpdateKey("group.version", 1, upgrade_type=1),)),
            (records.FeatureLevelRecord("group.version", 1),),
        ),
    )
    for key, version, request, batch in changes:
        asking = asyncio.ensure_future(world.ask(key, version, request))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not asking.done(), key
        world.publish(*batch)
        await asyncio.wait_for(asking, 0.4)


_DAY: Final = incremental.AlterableConfig("retention.ms", 0, "86400000")


def configs(kind: int, name: str, setting: str, value: str) -> incremental.IncrementalAlterConfigsRequest:
    return incremental.IncrementalAlterConfigsRequest(resources=(resource(kind, name, setting, value),))


def resource(kind: int, name: str, setting: str, value: str) -> incremental.AlterConfigsResource:
    return incremental.AlterConfigsResource(kind, name, (incremental.AlterableConfig(setting, 0, value),))


async def test_a_dry_run_is_answered_at_once() -> None:
    world = World()
    world.controller.responses.append(CreateTopicsResponse(topics=(CreatableTopicResult("new"),)))
    dry = CreateTopicsRequest(topics=CREATE.topics, validate_only=True)
    assert await asyncio.wait_for(world.ask(ApiKey.CREATE_TOPICS, 7, dry), 0.4)


async def test_settings_of_loggers_and_changes_that_make_no_sense_never_reach_the_controller() -> None:
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
            resource(BROKER_LOGGER, "1", "eosin.cluster.metadata", "DEBUG"),
            resource(BROKER, "2", "log.retention.ms", "1"),
            resource(BROKER, "1", "num.partitions", "1"),
            resource(BROKER, "", "log.retention.ms", "never"),
            resource(TOPIC, "orders", "retention.bytes", "-1"),
            # An Apache Kafka controller takes the last of two, and null for a deletion: its brokers look, too.
            incremental.AlterConfigsResource(TOPIC, "twice", (_DAY, _DAY)),
            incremental.AlterConfigsResource(GROUP, "null", (incremental.AlterableConfig("x", 0, None),)),
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
    assert b"eosin.cluster.metadata" not in frame
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
        records.FeatureLevelRecord("transaction.version", 1), records.FeatureLevelRecord("metadata.version", 33)
    )
    world.controller.versions[ApiKey.CREATE_TOPICS] = (3, 6)
    told: ApiVersionsResponse = await world.ask(ApiKey.API_VERSIONS, 4, ApiVersionsRequest("c", "1"))
    versions = {each.api_key: (each.min_version, each.max_version) for each in told.api_keys}
    assert versions[ApiKey.CREATE_TOPICS] == (3, 6)
    assert {each.name: each.max_version_level for each in told.finalized_features} == {
        "metadata.version": 33,
        "transaction.version": 1,
    }
    assert told.finalized_features_epoch == world.cluster.image.offset
    assert {each.name for each in told.supported_features} == set(SUPPORTED_JOINED)


async def test_the_level_of_kraft_version_is_told_as_the_controller_told_it() -> None:
    world = World()
    world.publish(records.FeatureLevelRecord("metadata.version", 33))
    world.controller.features = {"kraft.version": 1, "metadata.version": 29}
    told: ApiVersionsResponse = await world.ask(ApiKey.API_VERSIONS, 4, ApiVersionsRequest("c", "1"))
    assert {each.name: each.max_version_level for each in told.finalized_features} == {
        "metadata.version": 33,
        "kraft.version": 1,
    }


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


@pytest.mark.parametrize(
    ("component", "error"),
    [
        (("", 0, "a"), ErrorCode.INVALID_REQUEST),
        (("group", 0, "a"), ErrorCode.UNSUPPORTED_VERSION),
        (("user", 3, None), ErrorCode.INVALID_REQUEST),
        (("user", 0, None), ErrorCode.INVALID_REQUEST),
        (("user", 1, "a"), ErrorCode.INVALID_REQUEST),
        (("user", 2, "a"), ErrorCode.INVALID_REQUEST),
        (("client-id", 2, None), ErrorCode.INVALID_REQUEST),
        (("ip", 2, None), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_filter_of_quotas_that_makes_no_sense_is_refused(
    component: tuple[str, int, str | None], error: ErrorCode
) -> None:
    world = World()
    first = ComponentData("client-id", 2)
    response = await world.ask(
        ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, DescribeClientQuotasRequest((first, ComponentData(*component)))
    )
    assert (response.error_code, response.entries) == (error, None)
    assert response.error_message


SCRAM_SHA_256, SCRAM_SHA_512 = 1, 2


async def test_scram_credentials_are_described_from_the_metadata() -> None:
    world = World()
    world.publish(
        records.UserScramCredentialRecord("bob", SCRAM_SHA_512, b"s", b"k", b"v", 4096),
        records.UserScramCredentialRecord("alice", SCRAM_SHA_256, b"s", b"k", b"v", 8192),
        records.UserScramCredentialRecord("bob", SCRAM_SHA_256, b"s", b"k", b"v", 5000),
        records.UserScramCredentialRecord("carol", SCRAM_SHA_256, b"s", b"k", b"v", 5000),
        records.RemoveUserScramCredentialRecord("carol", SCRAM_SHA_256),
    )
    every = await world.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, DescribeUserScramCredentialsRequest())
    assert [
        (each.user, {info.mechanism: info.iterations for info in each.credential_infos}) for each in every.results
    ] == [("alice", {SCRAM_SHA_256: 8192}), ("bob", {SCRAM_SHA_256: 5000, SCRAM_SHA_512: 4096})]
    named = DescribeUserScramCredentialsRequest(users=tuple(map(UserName, ("bob", "carol", "alice", "alice"))))
    some = await world.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, named)
    assert [(each.user, each.error_code, len(each.credential_infos)) for each in some.results] == [
        ("bob", ErrorCode.NONE, 2),
        ("carol", ErrorCode.RESOURCE_NOT_FOUND, 0),
        ("alice", ErrorCode.DUPLICATE_RESOURCE, 0),
    ]


GROUP, CLIENT_METRICS = 32, 16
DEFAULT = 5


async def test_settings_of_groups_and_client_metrics_are_told_as_the_controllers_have_them() -> None:
    world = World()
    world.cluster.advertise("PLAINTEXT", "host-1", 9092)
    world.publish(
        records.ConfigRecord(GROUP, "g", "consumer.session.timeout.ms", "50000"),
        records.ConfigRecord(GROUP, "g", "consumer.heartbeat.interval.ms", "6000"),
        records.ConfigRecord(CLIENT_METRICS, "m", "interval.ms", "5000"),
    )
    listed = await world.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, ListConfigResourcesRequest(resource_types=(GROUP,)))
    assert [(each.resource_type, each.resource_name) for each in listed.config_resources] == [(GROUP, "g")]
    every = await world.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, ListConfigResourcesRequest())
    assert {(GROUP, "g"), (CLIENT_METRICS, "m"), (TOPIC, "orders")} <= {
        (each.resource_type, each.resource_name) for each in every.config_resources
    }
    subscriptions = await world.ask(ApiKey.LIST_CONFIG_RESOURCES, 0, ListConfigResourcesRequest())
    assert [each.resource_name for each in subscriptions.config_resources] == ["m"]
    request = DescribeConfigsRequest(
        resources=(
            DescribeConfigsResource(GROUP, "g"),
            DescribeConfigsResource(GROUP, "g", ("consumer.heartbeat.interval.ms",)),
            DescribeConfigsResource(CLIENT_METRICS, "m"),
            DescribeConfigsResource(GROUP, "other"),
        )
    )
    response = await world.ask(ApiKey.DESCRIBE_CONFIGS, 4, request)
    set_ones = [
        {config.name: config.value for config in each.configs if config.config_source != DEFAULT}
        for each in response.results
    ]
    assert set_ones == [
        {"consumer.heartbeat.interval.ms": "6000", "consumer.session.timeout.ms": "50000"},
        {"consumer.heartbeat.interval.ms": "6000"},
        {"interval.ms": "5000"},
        {},
    ]
    assert world.cluster.group_configs("g")["consumer.session.timeout.ms"] == "50000"


@pytest.mark.parametrize(
    ("session", "error"),
    [
        (Session(), ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (Session(security_protocol=SecurityProtocol.SSL), ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (
            Session(security_protocol=SecurityProtocol.SSL, principal=Principal("User", "CN=alice")),
            ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
        ),
        (
            Session(security_protocol=SecurityProtocol.SASL_PLAINTEXT, principal=Principal("User", "alice")),
            ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
        ),
    ],
    ids=["no identity", "no certificate", "a certificate", "a password"],
)
async def test_delegation_tokens_are_refused_as_by_apache_kafka_without_a_secret_key(
    session: Session, error: ErrorCode
) -> None:
    world = World()
    for key, request in (
        (ApiKey.CREATE_DELEGATION_TOKEN, CreateDelegationTokenRequest()),
        (ApiKey.RENEW_DELEGATION_TOKEN, RenewDelegationTokenRequest()),
        (ApiKey.EXPIRE_DELEGATION_TOKEN, ExpireDelegationTokenRequest()),
        (ApiKey.DESCRIBE_DELEGATION_TOKEN, DescribeDelegationTokenRequest()),
    ):
        response = await world.ask(key, 2, request, session=session)
        assert response.error_code == error
    assert not world.controller.envelopes


@pytest.mark.parametrize(
    ("key", "request_", "codes"),
    [
        (ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(3), lambda response: [response.error_code]),
        (ApiKey.UNREGISTER_CONTROLLER, UnregisterControllerRequest(3), lambda response: [response.error_code]),
        (ApiKey.ADD_RAFT_VOTER, AddRaftVoterRequest(), lambda response: [response.error_code]),
        (ApiKey.REMOVE_RAFT_VOTER, RemoveRaftVoterRequest(), lambda response: [response.error_code]),
        (
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            AlterUserScramCredentialsRequest((ScramCredentialDeletion("a", 1),), (ScramCredentialUpsertion("b", 1),)),
            lambda response: [each.error_code for each in response.results],
        ),
    ],
)
async def test_apis_that_a_broker_alone_does_not_serve_reach_the_controller_too(
    key: ApiKey, request_: Message, codes: Callable[[Any], list[int]]
) -> None:
    world = World()
    world.controller.responses.append(ErrorCode.REQUEST_TIMED_OUT)
    response = await world.ask(key, 0, request_)
    assert [each[0] for each in world.controller.envelopes] == [world.frame]
    assert set(codes(response)) == {ErrorCode.REQUEST_TIMED_OUT}


def moves(**to: tuple[int, ...] | None) -> AlterPartitionReassignmentsRequest:
    """The first partitions of topics, each to its replicas."""
    return AlterPartitionReassignmentsRequest(
        topics=tuple(ReassignableTopic(name, (ReassignablePartition(0, replicas),)) for name, replicas in to.items())
    )


def all_done(request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        responses=tuple(
            ReassignableTopicResponse(
                topic.name, tuple(ReassignablePartitionResponse(each.partition_index) for each in topic.partitions)
            )
            for topic in request.topics
        )
    )


async def moved(world: World, request: AlterPartitionReassignmentsRequest) -> dict[str, int]:
    world.controller.responses.append(all_done)
    response = await world.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request)
    return {each.name: each.partitions[0].error_code for each in response.responses}


@pytest.mark.parametrize(("enabled", "opened"), [(True, False), (False, True)])
async def test_the_transaction_log_is_not_moved_to_another_kind_of_broker_while_there_are_two_phase_commits(
    enabled: bool, opened: bool
) -> None:
    world = World(transaction_two_phase_commit_enable=enabled)
    world.has_open_two_phase = opened
    world.publish(broker(2), *topic(TRANSACTION_STATE_TOPIC, partition(TRANSACTION_STATE_TOPIC)))
    request = moves(orders=(2,), **{TRANSACTION_STATE_TOPIC: (HERE, 2)})
    assert await moved(world, request) == {
        "orders": ErrorCode.NONE,
        TRANSACTION_STATE_TOPIC: ErrorCode.INVALID_REQUEST,
    }
    ((frame, _),) = world.controller.envelopes
    assert TRANSACTION_STATE_TOPIC.encode() not in frame
    refused = moves(**{TRANSACTION_STATE_TOPIC: (2,)})
    assert await moved(world, refused) == {TRANSACTION_STATE_TOPIC: ErrorCode.INVALID_REQUEST}
    assert len(world.controller.envelopes) == 1
    world.controller.responses.clear()
    ended = moves(**{TRANSACTION_STATE_TOPIC: None})
    assert await moved(world, ended) == {TRANSACTION_STATE_TOPIC: ErrorCode.NONE}


async def test_without_two_phase_commits_the_transaction_log_moves_anywhere() -> None:
    world = World()
    world.publish(broker(2), *topic(TRANSACTION_STATE_TOPIC, partition(TRANSACTION_STATE_TOPIC)))
    assert await moved(world, moves(**{TRANSACTION_STATE_TOPIC: (2,)})) == {TRANSACTION_STATE_TOPIC: ErrorCode.NONE}


LISTENER_VERSION = 6


@pytest.mark.parametrize("version", [5, LISTENER_VERSION, 12])
async def test_a_leader_without_the_client_s_listener_is_told_as_by_apache_kafka(version: int) -> None:
    world = World()
    world.cluster.advertise("PLAINTEXT", "host-1", 9092)
    world.publish(
        broker(2, listeners=("INTERNAL",)),
        *topic("far", partition("far", leader=2, replicas=(2, HERE)), partition("far", 1, replicas=(HERE, 2))),
    )
    wanted = MetadataRequest(topics=(MetadataRequestTopic(name="far"),), allow_auto_topic_creation=False)
    told = await world.ask(ApiKey.METADATA, version, wanted)
    assert [each.node_id for each in told.brokers] == [HERE]
    assert [
        (each.error_code, each.leader_id, each.replica_nodes, each.offline_replicas)
        for each in told.topics[0].partitions
    ] == [
        (
            ErrorCode.LISTENER_NOT_FOUND if version >= LISTENER_VERSION else ErrorCode.LEADER_NOT_AVAILABLE,
            NO_LEADER,
            (2, HERE),
            (2,),
        ),
        (ErrorCode.NONE, HERE, (HERE, 2), (2,)),
    ]
    described = await world.ask(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, DescribeTopicPartitionsRequest(topics=(TopicRequest("far"),))
    )
    assert [(each.error_code, each.leader_id, each.offline_replicas) for each in described.topics[0].partitions] == [
        (ErrorCode.NONE, NO_LEADER, (2,)),
        (ErrorCode.NONE, HERE, (2,)),
    ]
    world.publish(broker(2, epoch=9, listeners=("INTERNAL", "PLAINTEXT")))
    told = await world.ask(ApiKey.METADATA, version, wanted)
    assert [(each.error_code, each.leader_id, each.offline_replicas) for each in told.topics[0].partitions] == [
        (ErrorCode.NONE, 2, ()),
        (ErrorCode.NONE, HERE, ()),
    ]


async def test_a_partition_without_a_leader_is_described_without_an_error_as_by_apache_kafka() -> None:
    world = World()
    world.publish(*topic("away", partition("away", leader=NO_LEADER, replicas=(7,))))
    described = await world.ask(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, DescribeTopicPartitionsRequest(topics=(TopicRequest("away"),))
    )
    ((one,),) = ([*each.partitions] for each in described.topics)
    assert (one.error_code, one.leader_id, one.offline_replicas) == (ErrorCode.NONE, NO_LEADER, (7,))
