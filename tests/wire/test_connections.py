"""Promises of a connection, for any request: order, many requests in flight, and no harm to other connections."""

import asyncio

import pytest
from waiting import HANG_S, settled, until
from wire import Connect, Wire, better_than_kafka, exchange, now_ms, produced, records, request_header

from eosin.client.addresses import Address
from eosin.client.connection import Connection
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.records.batch import build_batch
from eosin.protocol.schemas.api_versions import ApiVersionsRequest
from eosin.protocol.schemas.metadata import MetadataRequest

pytestmark = pytest.mark.smoke

VERSIONS = ApiVersionsRequest(client_software_name="wire", client_software_version="1.0")


async def test_pipelined_requests_are_answered_in_order(wire: Wire) -> None:
    # The client closes the connection when an answer comes out of turn.
    partition = await wire.partition()
    answers = []
    for number in range(20):
        answers.append(wire.send(wire.produce_request(partition, build_batch(records(1), timestamp=now_ms())), 11))
        answers.append(wire.send(VERSIONS if number % 2 else MetadataRequest(topics=()), 3 if number % 2 else 12))
    done = await asyncio.gather(*answers)
    assert [produced(answer).base_offset for answer in done[::2]] == list(range(20))


async def test_more_requests_than_are_worked_on_at_once_are_all_answered(bootstrap: str) -> None:
    connection = await Connection.open(Address.parse(bootstrap), max_in_flight=300)
    wire = Wire(connection)
    partition = await wire.partition()
    batch = build_batch(records(1), timestamp=now_ms())
    answers = [wire.send(wire.produce_request(partition, batch), 11) for _ in range(300)]
    assert [produced(answer).base_offset for answer in await asyncio.gather(*answers)] == list(range(300))
    await connection.close()


@better_than_kafka("a fetch of Apache Kafka holds back the requests behind it as long as it waits")
async def test_a_waiting_fetch_ends_when_a_request_is_behind_it(wire: Wire) -> None:
    partition = await wire.partition()
    waiting = wire.send(wire.fetch_request({partition: 0}, wait_ms=2**31 - 1), 12)
    behind = wire.send(VERSIONS, 3)
    async with asyncio.timeout(HANG_S):
        answer, versions = await asyncio.gather(waiting, behind)
    assert answer.responses[0].partitions[0].high_watermark == 0
    assert versions.error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0",
        bytes(4),
        request_header(ApiKey.METADATA, 0),
        request_header(ApiKey.METADATA, 0) + b"\x7f\xff\xff\xff",
        request_header(ApiKey.PRODUCE, 9) + b"\xff" * 40,
        request_header(ApiKey.END_TXN, 0) + b"\0\x10short",
        request_header(ApiKey.METADATA, 0)[:-3],
    ],
    ids=[
        "empty",
        "one byte",
        "half a header",
        "no body",
        "huge array",
        "overlong varint",
        "short string",
        "short name",
    ],
)
async def test_a_malformed_frame_closes_its_own_connection_only(bootstrap: str, wire: Wire, frame: bytes) -> None:
    assert await exchange(bootstrap, frame) == []
    assert (await wire.ask(VERSIONS, 3)).error_code == ErrorCode.NONE


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1])
async def test_an_impossible_frame_size_closes_its_own_connection_only(wire: Wire, other: Wire, size: int) -> None:
    other.connection.send_bytes(size.to_bytes(4, "big", signed=True) + b"x" * 100)
    async with asyncio.timeout(HANG_S):
        await other.connection.wait_closed()
    assert (await wire.ask(VERSIONS, 3)).error_code == ErrorCode.NONE


async def test_a_frame_may_come_in_any_pieces(wire: Wire) -> None:
    answers = [wire.send(VERSIONS, 3)]
    frame = request_header(ApiKey.API_VERSIONS, 0, correlation_id=2)
    whole = len(frame).to_bytes(4, "big") + frame
    assert (await answers[0]).error_code == ErrorCode.NONE
    reader, writer = await asyncio.open_connection(*wire.connection.address)
    for byte in whole:
        writer.write(bytes((byte,)))
        await writer.drain()
        await asyncio.sleep(0)
    async with asyncio.timeout(HANG_S):
        size = int.from_bytes(await reader.readexactly(4), "big")
        assert (await reader.readexactly(size))[:4] == (2).to_bytes(4, "big")
    writer.close()
    await writer.wait_closed()


async def test_a_client_that_disconnects_does_not_undo_its_request(wire: Wire, other: Wire) -> None:
    partition = await wire.partition()
    gone = other.send(other.produce_request(partition, build_batch(records(1), timestamp=now_ms())), 11)
    await settled()  # it is sent
    await other.close()
    await asyncio.gather(gone, return_exceptions=True)

    async def is_written() -> bool:
        return await wire.end_offset(partition) == 1

    await until(is_written)


async def test_a_client_id_may_be_missing(connect: Connect) -> None:
    for client_id in (None, ""):
        wire = await connect(client_id=client_id)
        partition = await wire.partition()
        assert await wire.append(partition) == 0
