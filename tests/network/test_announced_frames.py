"""Clients that announce large requests and send little of them keep nobody waiting (security.md 6.2)."""

import asyncio
import struct
from typing import Any

import pytest
from batches import data
from fake_peer import FakePeer, host_of, turns
from guarded_broker import ADMIN, GuardedBroker, guarded_broker
from virtual_broker import VirtualBroker
from virtual_time import now_ms
from wire import Wire

from eosin.model.close_connection import CloseConnection
from eosin.model.resources import Operation
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.protocol.wire.frame_memory import FrameMemory
from eosin.protocol.wire.frames import SMALL_PRODUCE_BYTES, SpareBuffers

MIB = 1 << 20
SMALL_CONTAINER = {"queued.max.request.bytes": str(128 * MIB)}
"""What a broker in a container of 512 MiB takes by itself."""
PATIENCE_MS = 1000


async def trickle(address: str, first: bytes) -> None:
    """Send `first`, then 54 bytes a second; and again when closed."""
    host, _, port = address.rpartition(":")
    while True:
        _, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(first)
            while not writer.is_closing():
                await asyncio.sleep(1)
                writer.write(bytes(54))
        finally:
            writer.close()


@pytest.mark.virtual
@pytest.mark.parametrize("sent", [6, 200_000, MIB])
async def test_a_producer_waits_less_than_a_second_beside_sixty_one_announced_frames(sent: int) -> None:
    """They come from the producer's own address, so they and the producer share what an owner may hold."""
    broker = VirtualBroker(SMALL_CONTAINER)
    await broker.start()
    wire = await Wire.open(broker.address)
    partition = await wire.partition()
    first = struct.pack(">ih", 100 * MIB, ApiKey.PRODUCE).ljust(sent, b"\0")
    hostile = [asyncio.ensure_future(trickle(broker.address, first)) for _ in range(61)]
    await asyncio.sleep(5)
    for _ in range(20):
        begun_ms = now_ms()
        await wire.append(partition, 1000, size=1000)
        assert now_ms() - begun_ms < PATIENCE_MS
        await asyncio.sleep(0.1)
    for each in hostile:
        each.cancel()
    await asyncio.sleep(1)


def produce(broker: GuardedBroker, peer: FakePeer) -> None:
    """Send a batch of 1 MB to the topic `t`."""
    records = data(size=1000 * 1000, at=broker.server.clock.now_ms())
    one = PartitionProduceData(index=0, records=records)
    request = ProduceRequest(acks=1, timeout_ms=5000, topic_data=(TopicProduceData("t", partition_data=(one,)),))
    peer.send(ApiKey.PRODUCE, 9, request)


def stranger(broker: GuardedBroker, begun: bytes) -> FakePeer:
    """One more connection of a user without any right, who begins a request."""
    peer = FakePeer(broker.server.host)
    peer.connection.adopt(broker.peer("User:mallory").connection.session)
    peer.transport.feed(begun)
    return peer


@pytest.mark.virtual
@pytest.mark.parametrize("sent", [6, 200_000, MIB])
async def test_a_user_without_rights_keeps_no_producer_waiting(sent: int) -> None:
    async with guarded_broker(queued_max_request_bytes=128 * MIB) as broker:
        await broker.create_topics("t")
        await broker.grant("User:bob", Operation.WRITE, "t")
        begun = struct.pack(">ih", 16 * MIB, ApiKey.METADATA).ljust(sent, b"\0")
        hostile = [stranger(broker, begun) for _ in range(200)]
        bob = broker.peer("User:bob")
        for _ in range(10):
            produce(broker, bob)
            answers: list[Any] = []
            asked_ms = now_ms()
            while not answers:
                await asyncio.sleep(0.05)
                answers = bob.answers()
            assert answers[0].responses[0].partition_responses[0].error_code == ErrorCode.NONE
            assert now_ms() - asked_ms < PATIENCE_MS
            for peer in hostile:
                if not peer.transport.is_closing():
                    peer.transport.feed(bytes(54))


class Stubborn:
    """A user who sends 2 MiB of a request and a trickle of the rest, and begins anew as often as he is closed."""

    def __init__(self, broker: GuardedBroker, name: str) -> None:
        self._broker = broker
        self._name = name
        self._peer = self._new()

    def _new(self) -> FakePeer:
        peer = FakePeer(self._broker.server.host)
        peer.connection.adopt(self._broker.peer(self._name).connection.session)
        peer.transport.feed(struct.pack(">ih", 16 * MIB, ApiKey.METADATA) + bytes(2 * MIB))
        return peer

    def go_on(self) -> None:
        if self._peer.transport.is_closing():
            self._peer = self._new()
        elif self._peer.transport.reading:
            self._peer.transport.feed(bytes(54))

    def leave(self) -> None:
        self._peer.transport.lose()


@pytest.mark.virtual
@pytest.mark.parametrize("users", [2, 50])
async def test_many_users_who_fill_all_memory_cost_another_less_than_a_second(users: int) -> None:
    async with guarded_broker(queued_max_request_bytes=128 * MIB) as broker:
        await broker.create_topics("t")
        await broker.grant("User:bob", Operation.WRITE, "t")
        hostile = [Stubborn(broker, f"User:mallory-{number % users}") for number in range(150)]
        bob = broker.peer("User:bob")
        for _ in range(8):
            produce(broker, bob)
            asked_ms = now_ms()
            while not bob.answers():
                await asyncio.sleep(0.05)
                for each in hostile:
                    each.go_on()
            assert now_ms() - asked_ms < PATIENCE_MS
        memory = broker.server.host.spare_buffers.memory
        assert memory.held_bytes <= memory.common_bytes + 16 * MIB
        for each in hostile:
            each.leave()


async def test_a_large_batch_of_a_user_who_may_write_nowhere_is_not_received(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with guarded_broker() as broker:
        await broker.create_topics("t")
        large = struct.pack(">ih", SMALL_PRODUCE_BYTES + 1, ApiKey.PRODUCE)
        assert stranger(broker, large).transport.is_closing()
        assert "at most 1048576 of a user who may write to no topic" in caplog.text
        small = stranger(broker, struct.pack(">ih", SMALL_PRODUCE_BYTES, ApiKey.PRODUCE))
        assert not small.transport.is_closing(), "its response says why"
        await broker.grant("User:mallory", Operation.WRITE, "t")
        allowed = stranger(broker, large)
        assert not allowed.transport.is_closing()
        await broker.revoke("User:mallory")
        again = stranger(broker, large)
        assert not again.transport.reading, "asked anew for each"
        admin = FakePeer(broker.server.host)
        admin.connection.adopt(broker.peer(ADMIN).connection.session)
        admin.transport.feed(large)
        for peer in (small, allowed, again, admin):
            peer.transport.lose()


async def test_a_check_of_rights_that_fails_ends_the_connection_of_a_large_batch() -> None:
    class Broken:
        def may_any(self, *asked: Any, quiet: bool) -> bool:
            raise CloseConnection

    peer = FakePeer(host_of(authorizer=Broken(), max_frame_bytes=100 * MIB))
    peer.transport.feed(struct.pack(">ih", SMALL_PRODUCE_BYTES + 1, ApiKey.PRODUCE))
    assert peer.transport.is_closing()


@pytest.mark.virtual
async def test_a_slow_producer_stays_while_nobody_is_short_of_memory() -> None:
    broker = VirtualBroker(SMALL_CONTAINER)
    await broker.start()
    wire = await Wire.open(broker.address)
    partition = await wire.partition()
    host, _, port = broker.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    size = 10 * MIB
    writer.write(struct.pack(">ih", size, ApiKey.PRODUCE))
    for _ in range(size // 50_000):
        writer.write(bytes(50_000))
        await asyncio.sleep(1)
        assert not reader.at_eof()
    await wire.append(partition, 1000, size=1000)
    writer.close()


async def test_frames_before_and_after_a_login_are_on_different_accounts() -> None:
    memory = FrameMemory(limit_bytes=8 * MIB)
    host = host_of(spare_buffers=SpareBuffers(memory=memory), max_frame_bytes=100 * MIB)
    peers = [FakePeer(host, address=address) for address in ("2001:db8::1", "2001:db8::2", "2001:db8:1::1")]
    owners = [peer.connection.frame_owner for peer in peers]
    assert owners == ["2001:db8::/64", "2001:db8::/64", "2001:db8:1::/64"]
    begun = struct.pack(">ih", MIB, ApiKey.PRODUCE) + bytes(100_000)
    for peer in peers:
        peer.transport.feed(begun)
    assert [account.held_bytes for account in memory._accounts.values()] == [2 * MIB, MIB]
    for peer in peers:
        peer.transport.lose()
    await turns()
    assert memory.held_bytes == 0
    assert not memory._accounts, "nothing is kept of those who are gone"
