"""A broker by hand: it registers with a real controller, lives when it is told to, and asks for topics."""

import os
from typing import Any, Final, Self

from eosin.client.addresses import Address
from eosin.client.peer import LinkDialer, Peer
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.broker_heartbeat import BrokerHeartbeatRequest
from eosin.protocol.schemas.broker_registration import BrokerRegistrationRequest, Feature, Listener
from eosin.protocol.schemas.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from eosin.protocol.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from eosin.protocol.types import Message

FEATURES: Final = {
    "metadata.version": (25, 33),
    "kraft.version": (0, 1),
    "transaction.version": (0, 2),
    "eligible.leader.replicas.version": (0, 1),
    "group.version": (0, 1),
    "share.version": (0, 2),
    "streams.version": (0, 1),
    "eosin.version": (0, 2),
}
"""The features that an Eosin broker registers (cluster.md 1.6)."""
_TIMEOUT_MS: Final = 10_000


class HandMadeBroker:
    """A broker that does only what a test tells it to. A context manager."""

    def __init__(self, address: str, cluster_id: str, node_id: int) -> None:
        self.node_id = node_id
        self.directory_id = os.urandom(16)
        self.incarnation_id = os.urandom(16)
        self.epoch = -1
        self._address = Address.parse(address)
        self._cluster_id = cluster_id
        self._connection: Peer | None = None

    async def __aenter__(self) -> Self:
        self._connection = await LinkDialer(f"broker-{self.node_id}")(self._address, timeout_ms=_TIMEOUT_MS)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._connection is not None
        await self._connection.close()

    async def ask(self, key: ApiKey, message: Message) -> Any:
        """Send one request to the controller, unwrapped."""
        assert self._connection is not None
        return await self._connection.request(key, message, timeout_ms=_TIMEOUT_MS)

    async def register(self) -> int:
        """Register; return the broker epoch."""
        response = await self.ask(ApiKey.BROKER_REGISTRATION, self.registration())
        assert response.error_code == ErrorCode.NONE, ErrorCode(response.error_code).name
        self.epoch = response.broker_epoch
        return self.epoch

    def registration(self) -> BrokerRegistrationRequest:
        """The request (cluster.md 2.3)."""
        return BrokerRegistrationRequest(
            broker_id=self.node_id,
            cluster_id=self._cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=(Listener("PLAINTEXT", "127.0.0.1", 19092, 0),),
            features=tuple(Feature(name, low, high) for name, (low, high) in FEATURES.items()),
            log_dirs=(self.directory_id,),
        )

    async def heartbeat(self, offset: int, *, want_fence: bool = False) -> Any:
        """Show life, with metadata up to `offset`."""
        return await self.ask(
            ApiKey.BROKER_HEARTBEAT,
            BrokerHeartbeatRequest(
                broker_id=self.node_id,
                broker_epoch=self.epoch,
                current_metadata_offset=offset,
                want_fence=want_fence,
                cordoned_log_dirs=(),
            ),
        )

    async def create_topic(self, name: str, partitions: int, **configs: str) -> bytes:
        """Create a topic on this broker alone; return its id."""
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=tuple(CreatableReplicaAssignment(number, (self.node_id,)) for number in range(partitions)),
            configs=tuple(CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()),
        )
        response = await self.ask(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=(topic,), timeout_ms=_TIMEOUT_MS))
        [created] = response.topics
        assert created.error_code == ErrorCode.NONE, created
        return bytes(created.topic_id)

    async def delete_topic(self, topic_id: bytes) -> None:
        """Delete a topic by its id."""
        response = await self.ask(
            ApiKey.DELETE_TOPICS,
            DeleteTopicsRequest(topics=(DeleteTopicState(name=None, topic_id=topic_id),), timeout_ms=_TIMEOUT_MS),
        )
        assert [each.error_code for each in response.responses] == [ErrorCode.NONE]
