"""A channel to the active controller: it follows the controller, keeps the order and gives up in time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from stub_broker import StubBroker
from waiting import HANG_S, until

from eosin.client.errors import UnsupportedVersion
from eosin.cluster.membership.channel import (
    ControllerChannel,
    ControllerUnavailable,
    is_not_controller,
)
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from eosin.protocol.schemas.alter_partition import (
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from eosin.protocol.schemas.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from eosin.runtime.clock import SystemClock

KEY = ApiKey.ALLOCATE_PRODUCER_IDS
ASK = AllocateProducerIdsRequest(broker_id=1, broker_epoch=5)


class Leader(NamedTuple):
    node_id: int
    epoch: int
    host: str
    port: int


def leader(controller: StubBroker, node_id: int = 1000) -> Leader:
    return Leader(node_id, 1, *controller.address)


@asynccontextmanager
async def channel_to(find: Callable[[], Leader | None], **options: Any) -> AsyncIterator[ControllerChannel]:
    channel = ControllerChannel(find, clock=SystemClock(), client_id="broker-1", **options)
    try:
        yield channel
    finally:
        await channel.close()


def block(start: int) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=1000)


@pytest.mark.process
async def test_a_request_goes_to_the_active_controller_after_its_versions_were_asked() -> None:
    async with StubBroker() as controller, channel_to(lambda: leader(controller)) as channel:
        controller.answers[KEY] = lambda _, version: block(version)
        assert channel.served(KEY) is None
        assert (await channel.request(KEY, ASK)).producer_id_start == 0
        await channel.request(KEY, ASK)
        assert channel.served(KEY) == (0, 0)
        assert [each.key for each in controller.asked] == [ApiKey.API_VERSIONS, KEY, KEY]
        assert controller.connections == 1


@pytest.mark.process
async def test_the_highest_common_version_is_spoken_up_to_a_limit() -> None:
    async with StubBroker() as controller, channel_to(lambda: leader(controller)) as channel:
        controller.answers[ApiKey.BROKER_HEARTBEAT] = lambda _, version: BrokerHeartbeatResponse()
        await channel.request(ApiKey.BROKER_HEARTBEAT, BrokerHeartbeatRequest())
        await channel.request(ApiKey.BROKER_HEARTBEAT, BrokerHeartbeatRequest(), at_most=1)
        assert [each.version for each in controller.asked if each.key is ApiKey.BROKER_HEARTBEAT] == [2, 1]
        controller.versions[KEY] = (1, 1)
        await channel.close()
        with pytest.raises(UnsupportedVersion):
            await channel.request(KEY, ASK)


@pytest.mark.process
async def test_a_controller_that_is_not_active_any_more_loses_its_request_to_the_next() -> None:
    async with StubBroker() as old, StubBroker() as new:
        active = [leader(old, 1000)]

        def refuse(*_: object) -> AllocateProducerIdsResponse:
            active[0] = leader(new, 1001)
            return AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER)

        old.answers[KEY] = refuse
        new.answers[KEY] = lambda *_: block(7000)
        async with channel_to(lambda: active[0]) as channel:
            assert (await channel.request(KEY, ASK, timeout_ms=5000)).producer_id_start == 7000


@pytest.mark.process
async def test_a_request_whose_connection_is_lost_stays_first_in_the_queue() -> None:
    async with StubBroker() as controller, channel_to(lambda: leader(controller)) as channel:
        given = iter(range(1000, 10_000, 1000))
        lost: list[bool] = []

        def answer(request: AllocateProducerIdsRequest, _: int) -> AllocateProducerIdsResponse | None:
            if request.broker_epoch == 1 and not lost:
                lost.append(True)
                controller.drop_connections()
                return None
            return block(next(given))

        controller.answers[KEY] = answer
        asked = [channel.request(KEY, AllocateProducerIdsRequest(broker_epoch=epoch)) for epoch in (1, 2, 3)]
        answers = await asyncio.gather(*asked)
        assert [each.producer_id_start for each in answers] == [1000, 2000, 3000]
        assert [request.broker_epoch for request in controller.requests(KEY)] == [1, 1, 2, 3]


@pytest.mark.process
async def test_an_unknown_controller_is_waited_for() -> None:
    async with StubBroker() as controller:
        controller.answers[KEY] = lambda *_: block(0)
        active: list[Leader] = []
        looks = 0

        def leader_of_now() -> Leader | None:
            nonlocal looks
            looks += 1
            return active[0] if active else None

        async with channel_to(leader_of_now) as channel:
            asked = asyncio.ensure_future(channel.request(KEY, ASK, timeout_ms=HANG_S * 1000))
            await until(lambda: looks > 3)
            assert not asked.done()
            active.append(leader(controller))
            assert (await asked).producer_id_len == 1000


async def test_a_request_without_a_controller_ends_in_time_and_tells_why() -> None:
    async with channel_to(lambda: None) as channel:
        with pytest.raises(
            ControllerUnavailable, match=r"ALLOCATE_PRODUCER_IDS .* 50 ms: the active controller is unk"
        ):
            await channel.request(KEY, ASK, timeout_ms=50)


@pytest.mark.process
async def test_a_late_response_meets_no_other_request() -> None:
    async with StubBroker() as controller, channel_to(lambda: leader(controller)) as channel:
        controller.answers[KEY] = lambda *_: None
        with pytest.raises(ControllerUnavailable):
            await channel.request(KEY, ASK, timeout_ms=100)
        controller.answers[KEY] = lambda *_: block(3000)
        assert (await channel.request(KEY, ASK, timeout_ms=5000)).producer_id_start == 3000
        assert controller.connections == 2


@pytest.mark.process
async def test_a_silent_connection_is_given_up_for_another() -> None:
    async with StubBroker() as controller, channel_to(lambda: leader(controller), socket_timeout_ms=100) as channel:
        controller.answers[KEY] = lambda *_: block(0) if controller.connections > 1 else None
        await channel.request(KEY, ASK, timeout_ms=5000)
        assert controller.connections == 2


def test_not_controller_is_found_at_any_level() -> None:
    at_partition = ResponsePartitionData(error_code=ErrorCode.NOT_CONTROLLER)
    assert is_not_controller(AlterPartitionResponse(topics=(ResponseTopicData(partitions=(at_partition,)),)))
    assert is_not_controller(AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER))
    assert not is_not_controller(AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
