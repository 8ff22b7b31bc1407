"""A broker's membership while controllers and other brokers come and go: all of it on simulated time, with the model of
the controllers (cluster.md 2). What a real controller answers is in `tests/clusters/test_membership.py`."""

import asyncio

import pytest
from member import SESSION_TIMEOUT_MS, member
from virtual_controllers import VirtualControllers

from eosin.cluster.membership.rules.ports import BrokerState, MembershipLost

pytestmark = pytest.mark.virtual


@pytest.fixture
async def controllers() -> VirtualControllers:
    return VirtualControllers(session_timeout_ms=SESSION_TIMEOUT_MS)


async def sessions_pass(count: float) -> None:
    """Wait so long that so many of them end, one after the other."""
    await asyncio.sleep(count * SESSION_TIMEOUT_MS / 1000)


async def test_heartbeats_keep_a_broker_unfenced(controllers: VirtualControllers) -> None:
    async with member(controllers, 1) as broker:
        await broker.run()
        await sessions_pass(2.5)
        assert not broker.membership.is_fenced
        assert not controllers.quorum.model.image.brokers[1].fenced


async def test_a_broker_can_ask_to_be_fenced_and_comes_back(controllers: VirtualControllers) -> None:
    async with member(controllers, 1) as broker:
        await broker.run()
        broker.membership.want_fence(True)
        await broker.membership.fenced()
        broker.membership.want_fence(False)
        await broker.membership.unfenced()


async def test_a_killed_broker_comes_back_when_its_old_session_is_over(controllers: VirtualControllers) -> None:
    async with member(controllers, 1) as killed:
        await killed.run()
        first, since_ms = killed.membership.broker_epoch, killed.clock.elapsed_ms()
    async with member(controllers, 1) as broker:
        await broker.run()
        assert broker.membership.broker_epoch > first
        assert broker.clock.elapsed_ms() - since_ms >= SESSION_TIMEOUT_MS


async def test_a_second_broker_with_the_same_id_gives_up(controllers: VirtualControllers) -> None:
    async with member(controllers, 1) as first:
        await first.run()
        async with member(controllers, 1) as second:
            with pytest.raises(MembershipLost) as lost:
                await second.membership.start()
            assert second.clock.elapsed_ms() > SESSION_TIMEOUT_MS, "the first might have been one that was killed"
        assert str(lost.value) == (
            "another broker runs with node.id 1: stop that one, or give this one an id of its own"
        )
        assert not first.membership.is_fenced
        assert first.membership.state is BrokerState.RUNNING


async def test_the_id_of_another_cluster_is_one_sentence(controllers: VirtualControllers) -> None:
    async with member(controllers, 1, cluster_id="ABCDEFGHIJKLMNOPQRSTUw") as broker:
        with pytest.raises(MembershipLost, match=r"^the controllers are not those of cluster "):
            await broker.membership.start()


async def test_the_next_active_controller_keeps_the_broker(controllers: VirtualControllers) -> None:
    async with member(controllers, 1) as broker:
        await broker.run()
        epoch, offset = broker.membership.broker_epoch, broker.follower.published_offset
        controllers.stop()
        await sessions_pass(2)
        assert broker.membership.state is BrokerState.RUNNING
        controllers.succeed()
        await broker.follower.reached(offset + 1)
        await sessions_pass(2)
        assert broker.membership.state is BrokerState.RUNNING
        assert broker.membership.broker_epoch == epoch, "it is still registered"
        assert not broker.follower.image.brokers[1].fenced
