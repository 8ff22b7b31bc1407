"""Finding the cluster, choosing versions, trying again."""

from typing import Any

import pytest
from stub_broker import NODE, StubBroker

from eosin.client.addresses import Address
from eosin.client.client import Client, CoordinatorType
from eosin.client.connection import Connection
from eosin.client.errors import BrokerError, ClientError, ConnectionFailed, RequestTimedOut, UnsupportedVersion
from eosin.client.health import probe
from eosin.client.metadata import ClusterMetadata
from eosin.client.versions import Versions
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.api_versions import ApiVersion, ApiVersionsResponse
from eosin.protocol.schemas.find_coordinator import Coordinator, FindCoordinatorResponse
from eosin.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataResponse

pytestmark = pytest.mark.virtual

PARTITION = TopicPartition("topic", 0)


def client_of(broker: StubBroker, **settings: Any) -> Client:
    return Client([broker.address], **{"retry_timeout_ms": 500, **settings})


async def test_probing_a_broker_answers_with_its_versions() -> None:
    async with StubBroker() as broker:
        response = await probe(broker.address, 1000)
        assert {api.api_key for api in response.api_keys} == set(broker.versions)
        assert response.finalized_features[0].max_version_level == 2


async def test_probing_where_nobody_listens_or_answers_is_a_client_error() -> None:
    async with StubBroker() as broker:
        gone = broker.address
        broker.answers[ApiKey.API_VERSIONS] = lambda *_: None
        with pytest.raises(RequestTimedOut):
            await probe(broker.address, 20)
    with pytest.raises(ConnectionFailed):
        await probe(gone, 1000)


async def test_an_older_broker_is_asked_again_at_the_version_it_names() -> None:
    async with StubBroker() as broker:
        broker.versions[ApiKey.API_VERSIONS] = (0, 2)
        await probe(broker.address, 1000)
        assert [each.version for each in broker.asked] == [5, 2]


async def test_the_transaction_protocol_is_asked_for_again_where_a_broker_has_hung_up() -> None:
    async with StubBroker() as broker, client_of(broker) as client:
        answer = broker.answers[ApiKey.API_VERSIONS]

        def hang_up(*_: Any) -> Any:
            broker.answers[ApiKey.API_VERSIONS] = answer
            raise ConnectionResetError

        broker.answers[ApiKey.API_VERSIONS] = hang_up
        assert await client.transaction_version() == 2


async def test_the_highest_common_version_is_spoken_unless_one_is_pinned() -> None:
    async with StubBroker() as broker:
        broker.versions[ApiKey.METADATA] = (4, 7)
        async with client_of(broker) as client:
            await client.metadata()
        async with client_of(broker, versions={ApiKey.METADATA: 5}) as client:
            await client.metadata()
        async with client_of(broker, versions={ApiKey.METADATA: 9}) as client:
            with pytest.raises(UnsupportedVersion, match="METADATA version 9 is wanted, versions 4 to 7 are served"):
                await client.metadata()
        assert [each.version for each in broker.asked if each.key is ApiKey.METADATA] == [7, 5]


def test_versions_without_anything_in_common_are_refused() -> None:
    versions = Versions(
        ApiVersionsResponse(api_keys=(ApiVersion(ApiKey.METADATA, 90, 99), ApiVersion(ApiKey.PRODUCE, 3, 12)))
    )
    for key, fault in ((ApiKey.METADATA, "served in versions 90 to 99"), (ApiKey.FETCH, "does not serve FETCH")):
        with pytest.raises(UnsupportedVersion, match=fault):
            versions.pick(key)
    assert versions.pick(ApiKey.PRODUCE) == 12
    assert versions.pick(ApiKey.PRODUCE, at_most=11) == 11
    with pytest.raises(UnsupportedVersion, match="at most 2"):
        versions.pick(ApiKey.PRODUCE, at_most=2)


async def test_leaders_and_coordinators_are_looked_up_once() -> None:
    async with StubBroker() as broker, client_of(broker) as client:
        for _ in range(2):
            assert await client.leader(PARTITION) == NODE
            assert await client.coordinator(CoordinatorType.GROUP, "g") == NODE
            assert await client.coordinator(CoordinatorType.TRANSACTION, "t") == NODE
        assert len(broker.requests(ApiKey.METADATA)) == 1
        assert [(each.key_type, each.coordinator_keys) for each in broker.requests(ApiKey.FIND_COORDINATOR)] == [
            (0, ("g",)),
            (1, ("t",)),
        ]


async def test_coordinators_are_found_by_the_older_form_too() -> None:
    async with StubBroker() as broker, client_of(broker) as client:
        broker.versions[ApiKey.FIND_COORDINATOR] = (0, 3)
        assert await client.coordinator(CoordinatorType.GROUP, "g") == NODE
        assert broker.requests(ApiKey.FIND_COORDINATOR)[0].key == "g"


async def test_a_topic_that_does_not_exist_yet_is_looked_up_again() -> None:
    async with StubBroker() as broker, client_of(broker) as client:
        with pytest.raises(BrokerError) as caught:
            await client.leader(TopicPartition("later", 0))
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        broker.topics["later"] = bytes(16)
        assert await client.leader(TopicPartition("later", 0)) == NODE
        with pytest.raises(BrokerError, match="looking for topic-9"):
            await client.leader(TopicPartition("topic", 9))


async def test_metadata_does_not_create_topics() -> None:
    async with StubBroker() as broker, client_of(broker) as client:
        await client.metadata("topic")
        assert broker.requests(ApiKey.METADATA)[0].allow_auto_topic_creation is False
        known = await client.fetch_metadata()
        assert isinstance(known, ClusterMetadata)
        assert known.name_of(known.topic_id("topic")) == "topic"
        assert (known.cluster_id, known.controller_id, known.brokers) == ("stub", NODE, {NODE: broker.address})


async def test_retriable_codes_are_tried_again_and_stale_knowledge_is_dropped() -> None:
    errors = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]

    def find(request: Any, _: int) -> FindCoordinatorResponse:
        error = errors.pop(0) if errors else ErrorCode.NONE
        return FindCoordinatorResponse(coordinators=(Coordinator("g", NODE, "", 0, error),))

    async with StubBroker() as broker, client_of(broker) as client:
        broker.answers[ApiKey.FIND_COORDINATOR] = find
        assert await client.retry(lambda: client.coordinator(CoordinatorType.GROUP, "g")) == NODE
        assert len(broker.requests(ApiKey.FIND_COORDINATOR)) == 3


async def test_a_refusal_for_good_is_not_tried_again() -> None:
    attempts = 0

    async def attempt() -> None:
        nonlocal attempts
        attempts += 1
        raise BrokerError(ErrorCode.PRODUCER_FENCED, "trying")

    async with StubBroker() as broker, client_of(broker) as client:
        with pytest.raises(BrokerError, match="trying: PRODUCER_FENCED"):
            await client.retry(attempt)
    assert attempts == 1


async def test_trying_again_ends_with_the_last_error() -> None:
    async with StubBroker() as broker, client_of(broker, retry_timeout_ms=100) as client:
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await client.retry(lambda: client.leader(TopicPartition("never", 0)))
        assert len(broker.requests(ApiKey.METADATA)) >= 3


async def test_a_connection_that_was_lost_is_made_again() -> None:
    async with StubBroker() as broker, client_of(broker) as client:
        await client.metadata()
        connection = (await client.peer()).connection
        assert isinstance(connection, Connection)
        broker.drop_connections()
        await connection.wait_closed()
        assert (await client.retry(client.fetch_metadata)).controller_id == NODE
        assert broker.connections == 2


async def test_a_request_that_hangs_costs_the_connection() -> None:
    async with StubBroker() as broker, client_of(broker) as client:
        broker.answers[ApiKey.HEARTBEAT] = lambda *_: None
        with pytest.raises(RequestTimedOut):
            await client.request(ApiKey.HEARTBEAT, HeartbeatRequest(), timeout_ms=10)
        broker.answers[ApiKey.HEARTBEAT] = lambda *_: HeartbeatResponse()
        assert await client.request(ApiKey.HEARTBEAT, HeartbeatRequest()) == HeartbeatResponse()
        assert broker.connections == 2


async def test_any_bootstrap_address_will_do() -> None:
    async with StubBroker() as gone:
        dead = gone.address
    async with StubBroker() as broker:
        async with Client(f"{dead},{broker.address}") as client:
            assert (await client.metadata()).cluster_id == "stub"
        async with Client([dead, dead]) as client:
            with pytest.raises(
                ConnectionFailed,
                match=rf"cannot connect to {dead}: Connection refused \(nothing listens there\); cannot",
            ):
                await client.metadata()


async def test_a_broker_that_metadata_does_not_know_is_a_connection_failure() -> None:
    async with StubBroker() as broker, client_of(broker) as client:
        with pytest.raises(ConnectionFailed, match="broker 99 is not known"):
            await client.request(ApiKey.METADATA, MetadataRequest(), node=99)


async def test_a_closed_client_refuses_requests() -> None:
    async with StubBroker() as broker:
        client = client_of(broker)
        await client.metadata()
        await client.close()
        with pytest.raises(ClientError, match="the client is closed"):
            await client.request(ApiKey.METADATA, MetadataRequest())


async def test_an_error_code_newer_than_this_client_is_told_by_number() -> None:
    error = BrokerError(4711, "asking")
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert str(error) == "asking: error code 4711"
    assert str(BrokerError(3, "asking", "no such thing")) == "asking: UNKNOWN_TOPIC_OR_PARTITION (no such thing)"


async def test_the_metadata_of_a_refusing_broker_is_an_error() -> None:
    async with StubBroker() as broker, client_of(broker) as client:
        broker.answers[ApiKey.METADATA] = lambda *_: MetadataResponse(error_code=129)
        with pytest.raises(BrokerError, match="REBOOTSTRAP_REQUIRED"):
            await client.metadata()


def test_bootstrap_may_not_be_empty() -> None:
    with pytest.raises(ValueError, match="no bootstrap address"):
        Client(" , ")
    Client("a:1, b:2")
    Client([Address("a", 1)])
