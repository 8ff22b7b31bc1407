"""Clients that ask a broker for much and do not read it: a process with sockets, measured from outside."""

import socket
import struct
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from batches import data
from broker_process import BrokerProcess
from waiting import HANG_S

from eosin.protocol.keys import ApiKey
from eosin.protocol.records.batch import batches
from eosin.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import decode_response, encode_request

pytestmark = [pytest.mark.process, pytest.mark.slow]

MIB = 1 << 20
READERS = 40
BATCHES = 50


def send(opened: socket.socket, key: ApiKey, version: int, message: Message) -> None:
    opened.sendall(b"".join(encode_request(key, version, 1, "test", message)))


def receive(opened: socket.socket, key: ApiKey, version: int) -> Any:
    size = struct.unpack(">i", exactly(opened, 4))[0]
    return decode_response(key, version, exactly(opened, size))[1]


def exactly(opened: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        more = opened.recv(count - len(data))
        assert more, "the broker closed the connection"
        data += more
    return bytes(data)


def fetch(partitions: int, max_bytes: int) -> FetchRequest:
    wanted = tuple(FetchPartition(each, partition_max_bytes=max_bytes) for each in range(partitions))
    return FetchRequest(min_bytes=1, max_bytes=50 * MIB, topics=(FetchTopic("orders", partitions=wanted),))


@pytest.mark.parametrize("partitions", [1, 200], ids=["one large partition", "many small ones"])
def test_readers_that_do_not_read_take_neither_memory_nor_others_turns(tmp_path: Path, partitions: int) -> None:
    batch = data(size=MIB - 1000) if partitions == 1 else data(size=100_000)
    settings = {"eosin.fetch.response.memory.bytes": str(16 * MIB)}
    with BrokerProcess(tmp_path / "data", durability="os", settings=settings) as broker, ExitStack() as stack:

        def connected() -> socket.socket:
            return stack.enter_context(socket.create_connection(("127.0.0.1", broker.port), timeout=HANG_S))

        client = connected()
        topic = CreatableTopic(name="orders", num_partitions=partitions, replication_factor=1)
        send(client, ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=(topic,), timeout_ms=10_000))
        assert receive(client, ApiKey.CREATE_TOPICS, 5).topics[0].error_code == 0
        for number in range(max(BATCHES, partitions)):
            one = PartitionProduceData(index=number % partitions, records=batch)
            send(
                client,
                ApiKey.PRODUCE,
                9,
                ProduceRequest(acks=1, topic_data=(TopicProduceData("orders", partition_data=(one,)),)),
            )
            assert receive(client, ApiKey.PRODUCE, 9).responses[0].partition_responses[0].error_code == 0
        before = broker.resident_bytes()
        sleepers = [connected() for _ in range(READERS)]
        for sleeper in sleepers:
            send(sleeper, ApiKey.FETCH, 11, fetch(partitions, 50 * MIB))
        for _ in range(5):
            send(client, ApiKey.FETCH, 11, fetch(partitions, 50 * MIB))
            answer = receive(client, ApiKey.FETCH, 11)
            read = [list(batches(each.records)) for each in answer.responses[0].partitions if each.records]
            assert read, "every answer has a batch at least"
        grown = broker.resident_bytes() - before
        assert grown < 40 * MIB, (
            f"{grown / MIB:.0f} MiB for {READERS} answers of {len(batch) * BATCHES / MIB:.0f} MiB or less"
        )
        # One that wakes up still gets everything that it was promised.
        answer = receive(sleepers[0], ApiKey.FETCH, 11)
        found = [bytes(each.records or b"") for each in answer.responses[0].partitions]
        assert sum(len(list(batches(each))) for each in found) > 0
        if partitions == 1:
            assert len(found[0]) == BATCHES * len(batch)
