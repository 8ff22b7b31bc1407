"""The membership of one broker, without a broker: it registers with controllers, is unfenced, follows the metadata.

    async with member(controllers, 1) as broker:
        await broker.run()  # up to RUNNING

The controllers are a real one of Apache Kafka (`kraft_node.py`), or those of a virtual test (`virtual_controllers.py`).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol

from virtual_time import VirtualLoop
from waiting import HANG_S, until

from eosin.client.addresses import parse_bootstrap
from eosin.client.peer import LinkDialer
from eosin.cluster.membership.channel import ControllerChannel
from eosin.cluster.membership.lifecycle import Membership
from eosin.cluster.membership.rules.registration import AdvertisedListener, BrokerIdentity
from eosin.cluster.membership.rules.states import MembershipSettings
from eosin.cluster.quorum.follower import MetadataFollower, ObserverConfig
from eosin.cluster.quorum.rules.image import PartitionRegistration
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from eosin.runtime.chance import SystemChance
from eosin.runtime.clock import Clock, SystemClock

SESSION_TIMEOUT_MS: Final = 3000
"""The session timeout of the controllers that it joins."""
_INTERVAL_MS: Final = 500


class Controllers(Protocol):
    """The owners of a cluster: real ones or those of a virtual test."""

    cluster_id: str

    @property
    def address(self) -> str:
        """host:port of one or several."""


class Member:
    """One broker without anything to serve: it follows the metadata, and is a member."""

    def __init__(self, controller: Controllers, node_id: int, **identity: Any) -> None:
        loop = asyncio.get_running_loop()
        self.clock: Clock = loop.clock if isinstance(loop, VirtualLoop) else SystemClock()
        self.node_id = node_id
        self.saved: list[int] = []
        given = {
            "node_id": node_id,
            "cluster_id": controller.cluster_id,
            "incarnation_id": SystemChance().uuid(),
            "directory_id": SystemChance().uuid(),
            "listeners": (AdvertisedListener("PLAINTEXT", "127.0.0.1", 19092),),
            "rack": "r1",
        }
        self.identity = BrokerIdentity(**{**given, **identity})
        self.follower = MetadataFollower(
            ObserverConfig(
                cluster_id=controller.cluster_id,
                node_id=node_id,
                directory_id=self.identity.directory_id,
                listener="CONTROLLER",
                bootstrap=parse_bootstrap(controller.address),
            ),
            clock=self.clock,
            dial=LinkDialer(f"broker-{node_id}-metadata"),
        )
        self._following = asyncio.ensure_future(self.follower.run())
        self.membership = Membership(
            self.identity,
            MembershipSettings(
                node_id=node_id,
                cluster_id=controller.cluster_id,
                heartbeat_interval_ms=_INTERVAL_MS,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                registration_timeout_ms=20_000,
                shutdown_timeout_ms=10_000,
            ),
            channel=self.channel(socket_timeout_ms=_INTERVAL_MS),
            metadata=self.follower,
            save_epoch=self._save,
            clock=self.clock,
        )

    def channel(self, **options: Any) -> ControllerChannel:
        return ControllerChannel(
            lambda: self.follower.leader, clock=self.clock, client_id=f"broker-{self.node_id}", **options
        )

    async def _save(self, epoch: int) -> None:
        self.saved.append(epoch)

    async def run(self) -> None:
        """Come up to RUNNING."""
        async with asyncio.timeout(HANG_S):
            await self.membership.start()
            await self.membership.caught_up()
            self.membership.want_fence(False)
            await self.membership.unfenced()

    async def create(self, topic: str, *assignments: tuple[int, ...]) -> bytes:
        """Create a topic with these replicas of each partition, and wait until the image has it; its id."""
        request = CreateTopicsRequest(
            topics=(
                CreatableTopic(
                    name=topic,
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=tuple(CreatableReplicaAssignment(*each) for each in enumerate(assignments)),
                ),
            ),
            timeout_ms=10_000,
        )
        channel = self.channel()
        response: CreateTopicsResponse = await channel.request(ApiKey.CREATE_TOPICS, request, timeout_ms=10_000)
        await channel.close()
        assert response.topics[0].error_code == ErrorCode.NONE, response
        await self.until(lambda: topic in self.follower.image.topics)
        return response.topics[0].topic_id

    def partition(self, topic: str, partition: int) -> PartitionRegistration:
        return self.follower.image.topics[topic].partitions[partition]

    async def until(self, true: Callable[[], object]) -> None:
        """Wait until the image shows something."""
        await until(true)

    async def end(self) -> None:
        """Go away without a word."""
        await self.membership.close()
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)


@contextlib.asynccontextmanager
async def member(controller: Controllers, node_id: int, **identity: Any) -> AsyncIterator[Member]:
    """A broker that goes away at the end without a word."""
    made = Member(controller, node_id, **identity)
    try:
        yield made
    finally:
        await made.end()
