"""Large requests wait while there is no memory for them (`queued.max.request.bytes`, security.md 6.2)."""

import asyncio
import struct
from pathlib import Path
from typing import Any

import pytest
from batches import data
from fake_peer import FakePeer, host_of, turns
from guarded_broker import ADMIN, guarded_broker
from manual_clock import ManualClock
from waiting import until

from eosin.node.memory_limit import SHARE, frame_memory_of, memory_bytes
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.protocol.wire.frame_memory import FrameMemory
from eosin.protocol.wire.frames import SpareBuffers
from eosin.settings.broker import BrokerConfig

KIB = 1024
BEGUN = 20_000
"""So much of a request takes memory for all of it, or for a MiB of it."""


def begin(peer: FakePeer, size: int) -> None:
    peer.transport.feed(struct.pack(">ih", size, ApiKey.PRODUCE) + bytes(min(size, BEGUN) - 2))


async def test_a_connection_is_not_read_until_there_is_memory_for_its_request() -> None:
    host = host_of(spare_buffers=SpareBuffers(memory=FrameMemory(limit_bytes=500 * KIB)))
    first, front, last, announced = peers = [FakePeer(host) for _ in range(4)]
    for peer in (first, front, last):
        begin(peer, 400 * KIB)
    announced.transport.feed(struct.pack(">ih", 400 * KIB, ApiKey.PRODUCE))
    assert [peer.transport.reading for peer in peers] == [True, True, False, True]
    assert last.connection.unfinished() is None, "its time does not run"
    first.transport.lose()
    assert last.transport.reading
    last.transport.lose()
    front.transport.lose()
    assert host.spare_buffers.memory.held_bytes == 0


async def test_a_client_that_is_too_slow_for_those_who_wait_is_closed_with_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    looks: list[Any] = []
    host = host_of(spare_buffers=SpareBuffers(memory=FrameMemory(limit_bytes=1, later=looks.append)))
    slow, waiting = FakePeer(host, address="10.0.0.5"), FakePeer(host)
    for peer in (slow, waiting):
        begin(peer, 400 * KIB)
    for _ in range(2):
        looks.pop()()
    assert slow.transport.aborted
    assert "others wait for the memory of a request that the client does not end" in caplog.text
    await turns()
    assert waiting.transport.reading
    waiting.transport.lose()


async def test_a_request_that_its_client_does_not_let_begin_is_as_slow_as_one_that_does_not_come() -> None:
    looks: list[Any] = []
    host = host_of(spare_buffers=SpareBuffers(memory=FrameMemory(limit_bytes=1, later=looks.append)))
    hostile, waiting = FakePeer(host, address="10.0.0.5"), FakePeer(host)
    begin(hostile, 100 * KIB)
    hostile.connection._write_blocked = True  # its answers to earlier requests have filled all buffers just now
    hostile.transport.feed(bytes(100 * KIB - BEGUN))
    begin(waiting, 100 * KIB)
    assert (hostile.connection.requests, waiting.transport.reading) == (1, False)
    for _ in range(2):
        looks.pop()()
    await turns()
    assert hostile.transport.aborted
    assert waiting.transport.reading
    waiting.transport.lose()


async def test_a_client_that_leaves_while_waiting_holds_up_nobody() -> None:
    host = host_of(spare_buffers=SpareBuffers(memory=FrameMemory(limit_bytes=500 * KIB)))
    peers = [FakePeer(host) for _ in range(4)]
    for peer in peers:
        begin(peer, 400 * KIB)
    peers[2].transport.lose()
    peers[0].transport.lose()
    assert peers[3].transport.reading
    await turns()


@pytest.mark.parametrize("durability", ["memory", "os"])
async def test_memory_comes_back_with_each_response(tmp_path: Path, durability: str) -> None:
    settings: dict[str, Any] = {"queued_max_request_bytes": 1, "eosin_durability": durability}
    async with guarded_broker(**settings, log_dirs=(str(tmp_path),)) as broker:
        await broker.create_topics("t")
        memory = broker.server.host.spare_buffers.memory
        records = data(size=300 * KIB, at=broker.server.clock.now_ms())
        one = PartitionProduceData(index=0, records=records)
        request = ProduceRequest(acks=1, timeout_ms=5000, topic_data=(TopicProduceData("t", partition_data=(one,)),))
        peers = [FakePeer(broker.server.host) for _ in range(3)]
        for peer in peers:
            peer.connection.adopt(broker.peer(ADMIN).connection.session)
            peer.send(ApiKey.PRODUCE, 9, request, request)
        answers: list[Any] = []

        def are_answered() -> bool:
            answers.extend(each for peer in peers for each in peer.answers())
            return len(answers) == 6

        await until(are_answered, lambda: answers)
        codes = [each.responses[0].partition_responses[0].error_code for each in answers]
        assert codes == [ErrorCode.NONE] * 6
        await turns()
        assert memory.held_bytes == 0
        assert memory.waiting == 0


def test_a_quarter_of_what_the_process_may_use_is_the_default(tmp_path: Path) -> None:
    meminfo, limit = tmp_path / "meminfo", tmp_path / "memory.max"
    meminfo.write_text("MemTotal:        8000 kB\nMemFree:        5 kB\n")
    files = {"meminfo": str(meminfo), "cgroup_files": (str(limit), str(tmp_path / "missing"))}
    assert memory_bytes(**files) == 8000 * 1024  # type: ignore[arg-type]
    limit.write_text("max\n")
    assert memory_bytes(**files) == 8000 * 1024  # type: ignore[arg-type]
    limit.write_text("4096000\n")
    assert memory_bytes(**files) == 4_096_000  # type: ignore[arg-type]
    assert memory_bytes(meminfo=str(tmp_path / "none"), cgroup_files=()) is None


async def test_the_setting_says_how_much_it_is() -> None:
    loop, clock = asyncio.get_running_loop(), ManualClock()
    assert frame_memory_of(BrokerConfig(queued_max_request_bytes=5), loop, clock).limit_bytes == 5
    memory = memory_bytes()
    if memory is not None:
        found = frame_memory_of(BrokerConfig(), loop, clock)
        assert found.limit_bytes == memory // SHARE
        assert found.common_bytes >= found.limit_bytes // 2, "and room for one request of any size"
