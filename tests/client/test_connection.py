"""One connection: pipelining, order, time limits, and that every failure is a sentence."""

import asyncio
import socket
from typing import Any

import pytest
from stub_broker import StubBroker
from waiting import until

from eosin.client.addresses import Address
from eosin.client.connection import Connection
from eosin.client.errors import (
    ClientError,
    ConnectionFailed,
    ProtocolViolation,
    RequestTimedOut,
    UnsupportedVersion,
)
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.api_versions import ApiVersionsRequest
from eosin.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from eosin.protocol.schemas.metadata import MetadataRequest
from eosin.protocol.schemas.produce import ProduceRequest

pytestmark = pytest.mark.process


def unused_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


async def test_a_request_is_answered_at_exactly_the_version_asked_for() -> None:
    async with StubBroker() as broker, await Connection.open(broker.address) as connection:
        for version in (1, 9, 13):
            answer = await connection.request(ApiKey.METADATA, MetadataRequest(topics=None), version=version)
            assert [topic.name for topic in answer.topics] == ["topic"]
        assert [each.version for each in broker.asked] == [1, 9, 13]


async def test_a_refused_connection_is_one_sentence() -> None:
    address = Address("127.0.0.1", unused_port())
    with pytest.raises(ConnectionFailed) as caught:
        await Connection.open(address)
    assert caught.value.retriable
    assert str(caught.value) == f"cannot connect to {address}: Connection refused (nothing listens there)"


async def test_a_host_name_that_does_not_exist_is_one_sentence() -> None:
    with pytest.raises(ConnectionFailed, match=r"cannot connect to no-such-host\.invalid:9092: "):
        await Connection.open(Address("no-such-host.invalid", 9092))


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with StubBroker() as broker, await Connection.open(broker.address) as connection:
        broker.answers[ApiKey.HEARTBEAT] = lambda request, _: HeartbeatResponse(throttle_time_ms=request.generation_id)
        submitted = [
            connection.submit(ApiKey.HEARTBEAT, HeartbeatRequest(generation_id=index), version=4) for index in range(20)
        ]
        assert connection.in_flight == 20
        answers = await asyncio.gather(*submitted)
        assert [answer.throttle_time_ms for answer in answers] == list(range(20))
        assert connection.in_flight == 0


async def test_no_more_requests_are_on_their_way_than_allowed() -> None:
    gate = asyncio.Event()

    async def held(request: Any, _: int) -> HeartbeatResponse:
        await gate.wait()
        return HeartbeatResponse()

    async with StubBroker() as broker, await Connection.open(broker.address, max_in_flight=2) as connection:
        broker.answers[ApiKey.HEARTBEAT] = held
        tasks = [
            asyncio.create_task(connection.request(ApiKey.HEARTBEAT, HeartbeatRequest(), version=4)) for _ in range(5)
        ]
        await until(lambda: connection.in_flight == 2)
        with pytest.raises(ClientError, match="on their way already"):
            connection.submit(ApiKey.HEARTBEAT, HeartbeatRequest(), version=4)
        gate.set()
        assert await asyncio.gather(*tasks) == [HeartbeatResponse()] * 5


async def test_an_answer_that_does_not_come_is_a_timeout_and_may_still_come_later() -> None:
    gate = asyncio.Event()

    async def held(request: Any, _: int) -> HeartbeatResponse:
        await gate.wait()
        return HeartbeatResponse(error_code=request.generation_id)

    async with StubBroker() as broker, await Connection.open(broker.address) as connection:
        broker.answers[ApiKey.HEARTBEAT] = held
        with pytest.raises(RequestTimedOut, match="did not answer HEARTBEAT in 10 ms"):
            await connection.request(ApiKey.HEARTBEAT, HeartbeatRequest(generation_id=1), version=4, timeout_ms=10)
        gate.set()
        answer = await connection.request(ApiKey.HEARTBEAT, HeartbeatRequest(generation_id=2), version=4)
        assert answer.error_code == 2


async def test_a_broker_that_goes_away_fails_what_is_on_its_way_and_what_comes_after() -> None:
    async with StubBroker() as broker, await Connection.open(broker.address) as connection:
        broker.answers[ApiKey.HEARTBEAT] = lambda *_: None
        waiting = connection.submit(ApiKey.HEARTBEAT, HeartbeatRequest(), version=4)
        await until(lambda: broker.requests(ApiKey.HEARTBEAT))
        broker.drop_connections()
        with pytest.raises(ConnectionFailed, match="closed the connection"):
            await waiting
        assert not connection.is_open
        with pytest.raises(ConnectionFailed, match="closed the connection"):
            await connection.request(ApiKey.HEARTBEAT, HeartbeatRequest(), version=4)
        assert isinstance(await connection.wait_closed(), ConnectionFailed)


async def test_closing_fails_what_is_on_its_way_and_can_be_repeated() -> None:
    async with StubBroker() as broker:
        broker.answers[ApiKey.HEARTBEAT] = lambda *_: None
        connection = await Connection.open(broker.address)
        waiting = connection.submit(ApiKey.HEARTBEAT, HeartbeatRequest(), version=4)
        await connection.close()
        await connection.close()
        with pytest.raises(ConnectionFailed, match="closed by this client"):
            await waiting


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks HTTP"),
        (b"\x00\x00\x00\x08\x00\x00\x00\x63\x00\x00\x00\x00", "request 99 came, 1 was next"),
        (b"\x00\x00\x00\x05\x00\x00\x00\x01\x00", "does not speak"),
        (b"\x00\x00\x00\x02\x00\x00", "does not speak"),
    ],
)
async def test_bytes_that_are_not_an_answer_close_the_connection(answer: bytes, fault: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(answer)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        connection = await Connection.open(Address("127.0.0.1", server.sockets[0].getsockname()[1]))
        with pytest.raises(ProtocolViolation, match=fault):
            await connection.request(ApiKey.HEARTBEAT, HeartbeatRequest(), version=4)
        assert isinstance(await connection.wait_closed(), ProtocolViolation)


async def test_a_version_that_cannot_be_encoded_is_refused_here() -> None:
    async with StubBroker() as broker, await Connection.open(broker.address) as connection:
        with pytest.raises(UnsupportedVersion, match="METADATA version 99"):
            await connection.request(ApiKey.METADATA, MetadataRequest(), version=99)
        with pytest.raises(ClientError, match="METADATA version 0 cannot say this"):
            await connection.request(ApiKey.METADATA, MetadataRequest(topics=None), version=0)
        assert connection.is_open


async def test_a_refusal_of_an_api_versions_version_is_read_in_version_0() -> None:
    async with StubBroker() as broker, await Connection.open(broker.address) as connection:
        broker.versions[ApiKey.API_VERSIONS] = (0, 2)
        answer = await connection.request(ApiKey.API_VERSIONS, ApiVersionsRequest(), version=4)
        assert answer.error_code == 35


async def test_an_unanswered_request_leaves_the_order_of_answers_alone() -> None:
    async with StubBroker() as broker, await Connection.open(broker.address) as connection:
        broker.answers[ApiKey.PRODUCE] = lambda *_: None
        connection.send_without_response(ApiKey.PRODUCE, ProduceRequest(acks=0), version=9)
        answer = await connection.request(ApiKey.METADATA, MetadataRequest(topics=None), version=9)
        assert len(answer.topics) == 1
        assert broker.requests(ApiKey.PRODUCE) == [ProduceRequest(acks=0)]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("broker:9093", Address("broker", 9093)),
        ("broker", Address("broker", 9092)),
        ("[::1]:9094", Address("::1", 9094)),
        ("::1", Address("::1", 9092)),
        (" 10.0.0.1:1 ", Address("10.0.0.1", 1)),
    ],
)
def test_addresses_are_read_as_bootstrap_servers_spells_them(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize("text", ["", ":9092", "host:", "host:0", "host:65536", "host:http", "[::1]9092", "[]:1"])
def test_a_text_that_is_no_address_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        Address.parse(text)
