"""Links between nodes: what was given up never arrives later, however the connection ends (cluster.md 6.11)."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from waiting import HANG_S, until

from eosin.client.addresses import Address
from eosin.client.connection import Connection
from eosin.client.errors import ConnectionFailed
from eosin.client.peer import LinkDialer
from eosin.cluster.membership.channel import ControllerChannel, ControllerUnavailable
from eosin.cluster.peers.connections import OtherBroker, PeerUnreachable
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.api_versions import ApiVersion, ApiVersionsResponse
from eosin.protocol.schemas.envelope import EnvelopeRequest
from eosin.protocol.schemas.heartbeat import HeartbeatRequest
from eosin.protocol.schemas.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from eosin.protocol.wire.codec import decode_request_header, encode_response
from eosin.runtime.clock import SystemClock

pytestmark = pytest.mark.process

MORE_THAN_ARRIVES = 60_000
"""Bytes of a request of which the system of a peer that does not read takes only the first few thousand."""
SERVED = ApiVersionsResponse(api_keys=(ApiVersion(ApiKey.WRITE_TXN_MARKERS, 1, 2), ApiVersion(ApiKey.ENVELOPE, 0, 0)))


class StalledPeer:
    """A node that answers ApiVersions on each connection and then reads nothing, until it is told to."""

    def __init__(self) -> None:
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self._listener.setblocking(False)
        self.node_id, self.epoch = 1, 1
        self.host, self.port = self._listener.getsockname()
        self._accepted: list[socket.socket] = []

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)

    async def accept(self, *, answers: bool) -> None:
        loop = asyncio.get_running_loop()
        connection, _ = await loop.sock_accept(self._listener)
        connection.setblocking(False)
        self._accepted.append(connection)
        if answers:
            size = int.from_bytes(await loop.sock_recv(connection, 4), "big")
            header = decode_request_header(memoryview(await loop.sock_recv(connection, size)))
            response = encode_response(ApiKey.API_VERSIONS, header.api_version, header.correlation_id, SERVED)
            await loop.sock_sendall(connection, b"".join(response))

    async def rest(self) -> bytes:
        """Everything that comes on the first connection, to its end."""
        found = bytearray()
        async with asyncio.timeout(HANG_S):
            try:
                while data := await asyncio.get_running_loop().sock_recv(self._accepted[0], 65_536):
                    found += data
            except ConnectionResetError:
                pass
        return bytes(found)

    def close(self) -> None:
        for each in (self._listener, *self._accepted):
            each.close()


@asynccontextmanager
async def stalled_peer(*, answers: bool = True) -> AsyncIterator[StalledPeer]:
    peer = StalledPeer()
    accepting = asyncio.create_task(accept_all(peer, answers=answers))
    try:
        yield peer
    finally:
        accepting.cancel()
        await asyncio.gather(accepting, return_exceptions=True)
        peer.close()


async def accept_all(peer: StalledPeer, *, answers: bool) -> None:
    while True:
        await peer.accept(answers=answers)


def is_whole(data: bytes) -> bool:
    """Whether a whole frame begins the bytes."""
    return len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "big")


def long_markers() -> WriteTxnMarkersRequest:
    topics = (WritableTxnMarkerTopic("t", tuple(range(MORE_THAN_ARRIVES // 4))),)
    return WriteTxnMarkersRequest((WritableTxnMarker(1, 0, True, topics, 0, 1),))


async def test_a_marker_request_that_a_coordinator_gives_up_does_not_arrive_when_the_leader_reads_again() -> None:
    async with stalled_peer() as leader:
        peer = OtherBroker(2, address=lambda _: leader.address, dial=LinkDialer("broker-1"), request_timeout_ms=300)
        with pytest.raises(PeerUnreachable):
            await peer.request(ApiKey.WRITE_TXN_MARKERS, long_markers())
        assert not is_whole(await leader.rest())
        await peer.close()


async def test_a_request_to_a_controller_that_is_given_up_does_not_arrive_when_that_reads_again() -> None:
    async with stalled_peer() as controller:
        channel = ControllerChannel(lambda: controller, clock=SystemClock(), client_id="broker-1-forwarding")
        envelope = EnvelopeRequest(
            request_data=bytes(MORE_THAN_ARRIVES), request_principal=b"", client_host_address=b"\x7f\0\0\1"
        )
        with pytest.raises(ControllerUnavailable):
            await channel.request(ApiKey.ENVELOPE, envelope, timeout_ms=300)
        assert not is_whole(await controller.rest())
        await channel.close()


async def linked(peer: StalledPeer) -> Connection:
    return await Connection.open(peer.address, link_timeout_ms=30_000)


async def test_closing_a_link_takes_back_what_is_on_its_way() -> None:
    async with stalled_peer(answers=False) as peer:
        connection = await linked(peer)
        connection.send_bytes(MORE_THAN_ARRIVES.to_bytes(4, "big") + bytes(MORE_THAN_ARRIVES))
        await connection.close()
        assert not is_whole(await peer.rest())


async def test_a_request_that_is_cancelled_ends_its_link_and_what_else_is_on_its_way() -> None:
    async with stalled_peer(answers=False) as peer:
        connection = await linked(peer)
        other = connection.submit(ApiKey.HEARTBEAT, HeartbeatRequest("g", 1, "m"), version=4)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await connection.request(ApiKey.HEARTBEAT, HeartbeatRequest("g", 1, "m"), version=4)
        with pytest.raises(ConnectionFailed, match="given up"):
            await other
        assert not connection.is_open


async def test_the_system_gives_up_a_link_on_which_nothing_is_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stalled_peer(answers=False) as peer:
        connection = await linked(peer)
        transport: Any = connection._stream._transport
        options = transport.get_extra_info("socket")
        assert options.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
        await connection.close()


async def test_an_ordinary_connection_sends_to_the_end_what_it_was_given() -> None:
    """Produce with acks 0, and whatever a program sends before it closes."""
    async with stalled_peer(answers=False) as peer:
        connection = await Connection.open(peer.address)
        connection.send_bytes(MORE_THAN_ARRIVES.to_bytes(4, "big") + bytes(MORE_THAN_ARRIVES))
        reading = asyncio.create_task(rest_of(peer))
        await connection.close()
        assert is_whole(await reading)


async def rest_of(peer: StalledPeer) -> bytes:
    await until(lambda: peer._accepted)
    return await peer.rest()
