"""A peer: asked for its versions once, at them afterwards, and hung up on when it does not tell them."""

import asyncio

import pytest
from stub_broker import StubBroker
from waiting import until

from eosin.client.errors import BrokerError, ConnectionFailed, UnsupportedVersion
from eosin.client.peer import LinkDialer
from eosin.client.versions import negotiate
from eosin.cluster.replication.fetcher_task import dial_leader
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.api_versions import ApiVersionsResponse
from eosin.protocol.schemas.metadata import MetadataRequest

pytestmark = pytest.mark.process
TIMEOUT_MS = 30_000


async def test_a_node_tells_its_versions_once_on_a_connection_and_is_asked_at_the_highest_in_the_range() -> None:
    async with StubBroker() as broker:
        broker.versions[ApiKey.METADATA] = (4, 7)
        async with await LinkDialer("broker-1")(broker.address, timeout_ms=TIMEOUT_MS) as peer:
            await peer.request(ApiKey.METADATA, MetadataRequest())
            await peer.request(ApiKey.METADATA, MetadataRequest(), at_most=5)
            await peer.request(ApiKey.METADATA, MetadataRequest(), version=4)
            with pytest.raises(UnsupportedVersion, match="versions 4 to 7, this client needs at most 3"):
                await peer.request(ApiKey.METADATA, MetadataRequest(), at_most=3)
        assert not peer.is_open
        assert [(each.key, each.version) for each in broker.asked] == [
            (ApiKey.API_VERSIONS, 5),
            (ApiKey.METADATA, 7),
            (ApiKey.METADATA, 5),
            (ApiKey.METADATA, 4),
        ]


async def test_versions_that_were_told_on_a_connection_are_not_asked_for_again() -> None:
    async with StubBroker() as broker:
        connection = await LinkDialer().connect(broker.address, timeout_ms=TIMEOUT_MS)
        for _ in range(3):
            assert (await negotiate(connection)).served(ApiKey.METADATA) == broker.versions[ApiKey.METADATA]
        await connection.close()
        assert len(broker.asked) == 1


async def test_a_node_that_does_not_tell_its_versions_is_hung_up_on() -> None:
    async with StubBroker() as broker:
        broker.answers[ApiKey.API_VERSIONS] = lambda *_: ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        with pytest.raises(BrokerError, match="for its versions"):
            await LinkDialer()(broker.address, timeout_ms=TIMEOUT_MS)
        [writer] = broker._writers
        await until(writer.is_closing)


async def test_a_dial_that_is_given_up_leaves_no_connection() -> None:
    async with StubBroker() as broker:
        broker.answers[ApiKey.API_VERSIONS] = lambda *_: None
        dialling = asyncio.create_task(LinkDialer()(broker.address, timeout_ms=TIMEOUT_MS))
        await until(lambda: broker.asked)
        dialling.cancel()
        await asyncio.gather(dialling, return_exceptions=True)
        [writer] = broker._writers
        await until(writer.is_closing)


async def test_a_request_that_is_given_up_ends_the_link_and_all_that_is_on_its_way() -> None:
    async with StubBroker() as broker, await LinkDialer()(broker.address, timeout_ms=TIMEOUT_MS) as peer:
        broker.answers[ApiKey.METADATA] = lambda *_: None
        waiting = [asyncio.create_task(peer.request(ApiKey.METADATA, MetadataRequest())) for _ in range(2)]
        await until(lambda: len(broker.requests(ApiKey.METADATA)) == 2)
        waiting[0].cancel()
        with pytest.raises(ConnectionFailed, match="given up"):
            await waiting[1]
        assert not peer.is_open


async def test_a_leader_is_not_asked_for_versions_that_the_cluster_has_agreed_on() -> None:
    async with StubBroker() as broker, await dial_leader(broker.address, client_id="broker-1-fetcher-0") as peer:
        await peer.request(ApiKey.METADATA, MetadataRequest(), version=12)
        assert [each.key for each in broker.asked] == [ApiKey.METADATA]
