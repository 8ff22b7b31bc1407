"""Large answers: whole and in order however slowly the client reads, and what a slow client holds meanwhile."""

import asyncio
import logging
import os
import random
import select
import socket
from pathlib import Path
from typing import Any

import pytest
from fake_peer import FakePeer, host_of, turns
from waiting import until

from eosin.broker.services import Services
from eosin.lab.disk.lying_disk import Fault, LyingDisk
from eosin.network.api import Api, RequestContext
from eosin.network.connection import ServerConnection
from eosin.network.host import ConnectionHost
from eosin.network.response_memory import LEAST_PIECE_BYTES, PIECE_BYTES, RESPONSE_BYTES, ResponseMemory
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from eosin.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from eosin.protocol.wire.codec import decode_response, encode_request
from eosin.storage.disk.interfaces import Disk, File
from eosin.storage.disk.system import SystemDisk
from eosin.storage.results.file_range import FileRange

MIB = 1 << 20
CONTENT = random.Random(12).randbytes(3 * MIB)


class Shelf:
    """A Fetch handler whose answers lie in one file. `max_wait_ms` numbers the request, `max_bytes` is the size."""

    def __init__(self, disk: Disk, folder: str = "data", *, split: int = 1, in_memory: bool = False) -> None:
        self.disk = disk
        disk.make_directory(folder)
        self.file: File = disk.open(f"{folder}/records", create=True)
        self.file.append([CONTENT])
        self.split = split
        self.in_memory = in_memory
        self.begun: list[int] = []
        self.api = Api(key=ApiKey.FETCH, versions=range(4, 19), handle=self.fetch, refuse=lambda *_: FetchResponse())

    async def fetch(self, request: FetchRequest, context: RequestContext, services: Services) -> FetchResponse:
        self.begun.append(request.max_wait_ms)
        size = request.max_bytes // self.split
        found = [FileRange(self.disk, self.file, position=at * size, size=size) for at in range(self.split)]
        partitions = tuple(
            PartitionData(at, records=CONTENT[at * size : (at + 1) * size] if self.in_memory else each)  # type: ignore[arg-type]
            for at, each in enumerate(found)
        )
        return FetchResponse(request.max_wait_ms, responses=(FetchableTopicResponse("t", partitions=partitions),))


def records_of(answer: FetchResponse) -> bytes:
    return b"".join(bytes(each.records or b"") for each in answer.responses[0].partitions)


def fetches(*sizes: int) -> list[FetchRequest]:
    return [FetchRequest(max_wait_ms=number, max_bytes=size) for number, size in enumerate(sizes)]


@pytest.mark.parametrize("split", [1, 3])
@pytest.mark.parametrize("in_memory", [True, False])
async def test_a_slow_client_gets_all_answers_whole_and_in_order(split: int, in_memory: bool) -> None:
    shelf = Shelf(LyingDisk(), split=split, in_memory=in_memory)
    peer = FakePeer(host_of(shelf.api))
    peer.transport.read_slowly()
    peer.send(ApiKey.FETCH, 12, *fetches(2 * MIB, 15_000, MIB))
    await turns()
    assert peer.answers() == []
    for _ in range(100):
        peer.transport.read_all()
        peer.transport.read_slowly()
        await turns()
    answers = peer.answers()
    assert [answer.throttle_time_ms for answer in answers] == [0, 1, 2]
    sizes = [size - size % split for size in (2 * MIB, 15_000, MIB)]
    assert [records_of(answer) == CONTENT[:size] for answer, size in zip(answers, sizes, strict=True)] == [True] * 3


async def test_a_client_that_reads_nothing_holds_one_piece_and_frees_it_when_it_goes() -> None:
    shelf = Shelf(LyingDisk())
    host = host_of(shelf.api)
    peer = FakePeer(host)
    peer.transport.read_slowly()
    peer.send(ApiKey.FETCH, 12, *fetches(3 * MIB, 3 * MIB))
    await turns()
    assert shelf.begun == [0], "the next one waits until this one is taken"
    assert len(peer.transport.unsent) <= PIECE_BYTES + 200
    assert len(peer.transport.unsent) <= host.response_memory.held_bytes <= PIECE_BYTES + 200
    assert shelf.file.pins == 1  # type: ignore[attr-defined]
    peer.transport.lose()
    await turns()
    assert host.response_memory.held_bytes == 0
    assert shelf.file.pins == 0  # type: ignore[attr-defined]


async def test_memory_is_counted_until_a_slow_client_has_taken_it() -> None:
    shelf = Shelf(LyingDisk(), in_memory=True)
    host = host_of(shelf.api)
    peer = FakePeer(host)
    peer.transport.read_slowly()
    peer.send(ApiKey.FETCH, 12, *fetches(MIB))
    assert MIB <= host.response_memory.held_bytes <= MIB + 200
    peer.transport.read_all()
    await turns()
    assert records_of(peer.answers()[0]) == CONTENT[:MIB]
    assert host.response_memory.held_bytes == 0


async def test_a_response_that_waits_for_an_earlier_one_is_counted_too() -> None:
    shelf = Shelf(LyingDisk(), in_memory=True)
    first: list[asyncio.Future[FetchResponse]] = []

    async def beat(request: Any, context: RequestContext, services: Services) -> Any:
        first.append(asyncio.get_running_loop().create_future())
        return await first[-1]

    api = Api(key=ApiKey.HEARTBEAT, versions=range(0, 5), handle=beat, refuse=lambda *_: None)
    for ends_well in (True, False):
        host = host_of(shelf.api, api)
        peer = FakePeer(host)
        peer.send(ApiKey.HEARTBEAT, 4, HeartbeatRequest())
        peer.send(ApiKey.FETCH, 12, *fetches(MIB))
        await turns()
        assert MIB <= host.response_memory.held_bytes <= MIB + 200
        if ends_well:
            first[-1].set_result(HeartbeatResponse())  # type: ignore[arg-type]
        else:
            peer.transport.lose()
        await turns()
        assert host.response_memory.held_bytes == 0


async def test_a_file_that_cannot_be_read_in_the_middle_of_an_answer_closes_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = LyingDisk()
    shelf = Shelf(disk)
    host = host_of(shelf.api)
    for cold in (False, True):
        peer = FakePeer(host)
        peer.transport.read_slowly()
        disk.cold = False
        peer.send(ApiKey.FETCH, 12, *fetches(3 * MIB))
        disk.cold = cold
        disk.faults.append(Fault("read", 5))
        with caplog.at_level(logging.ERROR):
            peer.transport.read_all()
            await turns()
        assert peer.transport.aborted
        assert "in the middle of an answer" in caplog.text
        caplog.clear()
    assert host.response_memory.held_bytes == 0


async def test_records_outside_the_cache_are_read_in_a_thread_while_the_client_may_leave() -> None:
    disk = LyingDisk()
    shelf = Shelf(disk)
    disk.cold = True
    peer = FakePeer(host_of(shelf.api))
    peer.send(ApiKey.FETCH, 12, *fetches(MIB))
    await turns()
    assert records_of(peer.answers()[0]) == CONTENT[:MIB]
    peer.send(ApiKey.FETCH, 12, *fetches(MIB))
    peer.transport.lose()
    await turns()
    assert shelf.file.pins == 0  # type: ignore[attr-defined]


async def test_a_connection_that_closes_sends_what_is_answered_first() -> None:
    shelf = Shelf(LyingDisk())
    peer = FakePeer(host_of(shelf.api))
    peer.transport.read_slowly()
    peer.send(ApiKey.FETCH, 12, *fetches(MIB))
    peer.connection.close()
    for _ in range(30):
        peer.transport.read_all()
        peer.transport.read_slowly()
        await turns()
    assert records_of(peer.answers()[0]) == CONTENT[:MIB]
    assert peer.transport.is_closing()


async def test_an_idle_connection_whose_client_reads_nothing_is_cut_off() -> None:
    shelf = Shelf(LyingDisk())
    peer = FakePeer(host_of(shelf.api))
    peer.transport.read_slowly()
    peer.send(ApiKey.FETCH, 12, *fetches(MIB))
    assert not peer.connection.is_idle()
    assert peer.connection.is_idle()
    peer.transport.read_all()
    peer.transport.read_slowly()
    assert not peer.connection.is_idle(), "a client that reads slowly is not idle"
    peer.connection.close_idle()
    assert peer.transport.aborted


def test_readers_share_what_is_free_and_each_gets_something() -> None:
    memory = ResponseMemory(16 * MIB)
    assert memory.response_bytes() == RESPONSE_BYTES
    shares = []
    for _ in range(200):
        shares.append(memory.response_bytes())
        memory.held_bytes += shares[-1]
    assert shares == sorted(shares, reverse=True)
    assert memory.held_bytes <= 16 * MIB
    assert shares[50] > 1000, "those who hold most do not hold all"
    memory.held_bytes = 99 * MIB
    assert (memory.response_bytes(), memory.piece_bytes()) == (0, LEAST_PIECE_BYTES)


class Client:
    """A blocking socket, read beside the loop when the test says so."""

    def __init__(self, host: ConnectionHost) -> None:
        self._host = host

    async def __aenter__(self) -> "Client":
        loop = asyncio.get_running_loop()
        factory = lambda: ServerConnection(self._host, "PLAINTEXT", loop)  # noqa: E731
        self._server = await loop.create_server(factory, "127.0.0.1", 0)
        self.socket = socket.socket()
        self.socket.setblocking(False)
        await loop.sock_connect(self.socket, self._server.sockets[0].getsockname())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.socket.close()
        self._server.close()
        await until(lambda: not self._host.connections)

    async def ask(self, *requests: FetchRequest) -> None:
        frames = [b"".join(encode_request(ApiKey.FETCH, 12, 1, "test", each)) for each in requests]
        await asyncio.get_running_loop().sock_sendall(self.socket, b"".join(frames))

    def is_answered(self) -> bool:
        """Whether there is something to read."""
        return bool(select.select([self.socket], [], [], 0)[0])

    async def answer(self) -> FetchResponse:
        size = int.from_bytes(await self._exactly(4), "big")
        return decode_response(ApiKey.FETCH, 12, await self._exactly(size))[1]

    async def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            more = await asyncio.get_running_loop().sock_recv(self.socket, count - len(data))
            assert more
            data += more
        return bytes(data)


@pytest.mark.process
@pytest.mark.parametrize("loop_kind", ["asyncio", "uvloop"])
@pytest.mark.parametrize("in_memory", [True, False])
def test_real_sockets_take_large_answers(
    tmp_path: Path, loop_kind: str, in_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    factory = asyncio.new_event_loop if loop_kind == "asyncio" else pytest.importorskip("uvloop").new_event_loop
    sizes = (3 * MIB, 10_000, 3 * MIB, 2 * MIB)
    sent_from_files = 0
    sendfile = getattr(os, "sendfile", None)

    def counted(out: int, file: int, offset: int, count: int) -> int:
        nonlocal sent_from_files
        assert sendfile is not None
        sent: int = sendfile(out, file, offset, count)
        sent_from_files += sent
        return sent

    async def work() -> None:
        shelf = Shelf(SystemDisk(), str(tmp_path), split=2, in_memory=in_memory)
        host = host_of(shelf.api)
        async with Client(host) as client:
            await client.ask(*fetches(*sizes))
            await until(client.is_answered)
            for number, size in enumerate(sizes):
                answer = await client.answer()
                assert answer.throttle_time_ms == number
                assert records_of(answer) == CONTENT[:size]
            assert host.response_memory.held_bytes == 0
            await client.ask(*fetches(*sizes))
            await until(client.is_answered)  # and it goes in the middle of that
        assert host.response_memory.held_bytes == 0
        shelf.file.close()

    if sendfile is not None:
        monkeypatch.setattr(os, "sendfile", counted)
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work())
    assert (sent_from_files > sum(sizes) // 2) is (sendfile is not None and not in_memory)
