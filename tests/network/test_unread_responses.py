"""Clients that take nothing of their responses (security.md 6.2; case 57 of security.md 9.3)."""

import socket
import struct
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from batches import data
from broker_process import BrokerProcess
from fake_peer import FakePeer, host_of
from waiting import HANG_S, wait_until

from eosin.network.refusal_log import RefusalLog
from eosin.network.watch import UnreadResponses
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import encode_request


class Client:
    """A connection that has so much unread at each look."""

    listener = "PLAINTEXT"
    peer = "10.0.0.5:50000"

    def __init__(self, unread: Iterable[int | None]) -> None:
        self.left = list(unread)
        self.aborted = False

    def unread(self) -> int | None:
        return self.left.pop(0)

    def abort(self) -> None:
        self.aborted = True


def looked(*unread: int | None, looks: int = 3) -> bool:
    client, watch = Client(unread), UnreadResponses(looks=looks, refusals=RefusalLog())
    for _ in unread:
        watch.check([] if client.aborted else [client])
    return client.aborted


def test_a_client_that_takes_nothing_for_so_many_looks_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    assert not looked(50, 50, 50)
    assert looked(50, 50, 50, 50)
    assert "the client does not read its responses" in caplog.text


def test_a_client_that_takes_a_byte_now_and_then_stays() -> None:
    assert not looked(50, 50, 50, 49, 49, 49, 48, 48)
    assert not looked(50, 50, 50, None, 50, 50, 50)


class Waiting:
    """A transport with so much in its buffer."""

    def __init__(self) -> None:
        self.bytes = 0

    def get_write_buffer_size(self) -> int:
        return self.bytes

    def get_extra_info(self, name: str) -> None:
        return None


async def test_a_connection_tells_whether_its_client_takes_anything() -> None:
    connection, transport = FakePeer(host_of()).connection, Waiting()
    connection._transport = transport  # type: ignore[assignment]
    assert connection.unread() is None
    transport.bytes = 10
    first = connection.unread()
    assert first is not None
    assert connection.unread() == first
    transport.bytes = 9
    assert connection.unread() != first


MIB = 1 << 20


@pytest.mark.process
@pytest.mark.slow
def test_a_reader_that_never_reads_is_aborted_and_a_slow_one_is_not(tmp_path: Path) -> None:
    def send(opened: socket.socket, key: ApiKey, version: int, message: Message) -> None:
        opened.sendall(b"".join(encode_request(key, version, 1, "test", message)))

    def answer(opened: socket.socket) -> bytes:
        (size,) = struct.unpack(">i", opened.recv(4, socket.MSG_WAITALL))
        return opened.recv(size, socket.MSG_WAITALL)

    settings = {"eosin.connection.unread.timeout.ms": "2000"}
    with BrokerProcess(tmp_path / "data", durability="os", settings=settings) as broker:
        clients = [socket.create_connection(("127.0.0.1", broker.port), timeout=HANG_S) for _ in range(3)]
        writer, deaf, slow = clients
        topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
        send(writer, ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=(topic,), timeout_ms=10_000))
        answer(writer)
        one = PartitionProduceData(index=0, records=data(size=MIB - 1000))
        produce = ProduceRequest(acks=1, topic_data=(TopicProduceData("orders", partition_data=(one,)),))
        for _ in range(20):
            send(writer, ApiKey.PRODUCE, 9, produce)
            answer(writer)
        wanted = FetchPartition(0, partition_max_bytes=50 * MIB)
        fetch = FetchRequest(min_bytes=1, max_bytes=50 * MIB, topics=(FetchTopic("orders", partitions=(wanted,)),))
        for client in (deaf, slow):
            send(client, ApiKey.FETCH, 11, fetch)
        read, until = 0, time.monotonic() + 6  # three times the limit
        while time.monotonic() < until:
            read += len(slow.recv(100_000))
            time.sleep(0.1)
        wait_until(lambda: "the client does not read its responses" in broker.log)
        while read < 20 * (MIB - 1000):
            got = len(slow.recv(MIB))
            assert got, "the slow reader was closed"
            read += got
        assert broker.log.count("the client does not read its responses") == 1
        for client in clients:
            client.close()
