"""Requests of very many elements, which a thread decodes: in their place, refused like others, and given up."""

import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from data_broker import batch
from fake_peer import FakePeer
from local_broker import local_broker
from waiting import HANG_S, settled, until

from eosin.node.running import RunningNode
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from eosin.protocol.schemas.describe_groups import DescribeGroupsRequest
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.protocol.wire.codec import decode_request

LARGE = FindCoordinatorRequest(key_type=0, coordinator_keys=tuple(f"the name of group {i:08}" for i in range(4000)))
SMALL = DescribeGroupsRequest(groups=("g",))


class HeldThread:
    """Decodes when the test says so."""

    def __init__(self, server: RunningNode) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()
        server.host.decode_request = self._decode

    def _decode(self, *frame: Any) -> Any:
        if len(frame) > 4:  # with what a thread calls to rest
            self.begun.set()
            assert self.go_on.wait(HANG_S)
        return decode_request(*frame)


@pytest.fixture
async def server() -> AsyncIterator[RunningNode]:
    async with local_broker() as running:
        yield running


async def answers(peer: FakePeer, count: int) -> list[Any]:
    found: list[Any] = []
    await until(lambda: found.extend(peer.answers()) or len(found) >= count)  # type: ignore[func-returns-value]
    return found


async def test_what_comes_behind_a_large_request_begins_after_it(server: RunningNode) -> None:
    held = HeldThread(server)
    peer, other = FakePeer(server.host), FakePeer(server.host)
    peer.send(ApiKey.DESCRIBE_GROUPS, 6, SMALL)
    peer.send(ApiKey.FIND_COORDINATOR, 6, LARGE)
    peer.send(ApiKey.DESCRIBE_GROUPS, 6, SMALL)
    await until(held.begun.is_set)
    await settled()
    assert [len(each.groups) for each in peer.answers()] == [1]
    other.send(ApiKey.DESCRIBE_GROUPS, 6, SMALL)
    assert len(await answers(other, 1)) == 1  # nobody else waits
    assert peer.answers() == []
    held.go_on.set()
    large, small = await answers(peer, 2)
    assert [each.key for each in large.coordinators] == list(LARGE.coordinator_keys)
    assert [each.group_id for each in small.groups] == ["g"]


async def test_two_large_requests_of_a_connection_are_answered_in_their_order(server: RunningNode) -> None:
    peer = FakePeer(server.host)
    peer.send(
        ApiKey.FIND_COORDINATOR, 6, LARGE, FindCoordinatorRequest(0, coordinator_keys=LARGE.coordinator_keys[::-1])
    )
    first, second = await answers(peer, 2)
    assert [each.key for each in first.coordinators] == list(LARGE.coordinator_keys)
    assert [each.key for each in second.coordinators] == list(LARGE.coordinator_keys[::-1])


async def test_a_large_request_that_is_cut_short_closes_its_connection(server: RunningNode) -> None:
    peer = FakePeer(server.host)
    frame = peer.frame(ApiKey.FIND_COORDINATOR, 6, LARGE)[4:-100]
    peer.transport.feed(len(frame).to_bytes(4, "big") + frame)
    await until(peer.transport.is_closing)
    assert peer.transport.sent == b""
    await until(lambda: not server.host.running)


async def test_a_large_request_of_a_client_that_is_gone_is_not_executed(server: RunningNode) -> None:
    admin, peer = FakePeer(server.host), FakePeer(server.host)
    admin.send(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=(CreatableTopic("t", 1, 1),), timeout_ms=1000))
    assert [each.error_code for each in (await answers(admin, 1))[0].topics] == [ErrorCode.NONE]
    held = HeldThread(server)
    data = (PartitionProduceData(0, batch("v")),) * 2000
    peer.send(ApiKey.PRODUCE, 9, ProduceRequest(None, 1, 1000, (TopicProduceData("t", partition_data=data),)))
    await until(held.begun.is_set)
    peer.transport.lose()
    held.go_on.set()
    await until(lambda: not server.host.running)
    await settled()
    log = server.services.partitions.get(TopicPartition("t", 0))
    assert not isinstance(log, ErrorCode)
    assert log.log_end_offset == 0


async def test_a_produce_of_very_many_partitions_and_what_follows_are_appended_in_their_order(
    server: RunningNode,
) -> None:
    peer = FakePeer(server.host)
    peer.send(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=(CreatableTopic("t", 1, 1),), timeout_ms=1000))
    await answers(peer, 1)
    one = PartitionProduceData(0, batch("v"))
    many = ProduceRequest(None, 1, 1000, (TopicProduceData("t", partition_data=(one,) * 2000),))
    last = ProduceRequest(None, 1, 1000, (TopicProduceData("t", partition_data=(one,)),))
    peer.send(ApiKey.PRODUCE, 9, many, last)
    first, second = await answers(peer, 2)
    assert [each.base_offset for each in first.responses[0].partition_responses] == list(range(2000))
    assert [each.base_offset for each in second.responses[0].partition_responses] == [2000]
