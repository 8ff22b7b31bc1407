"""A cluster of several machines without any: the controller's records come from the test, and so do its responses."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from eosin.cluster.membership.channel import ControllerUnavailable
from eosin.cluster.membership.envelopes import ForwardedResponse
from eosin.cluster.metadata.joined_cluster import JoinedCluster
from eosin.cluster.quorum.leader import ActiveController
from eosin.cluster.quorum.rules.image import ImageDelta
from eosin.cluster.quorum.rules.replay import Replay
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import Uuid
from eosin.protocol.schemas.records import metadata as records
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import decode_request, decode_request_header, encode_response
from eosin.protocol.wire.headers import SIZE_BYTES
from eosin.settings.broker import BrokerConfig

HERE = 1
"""The node id of the broker under test."""
RAFT_EPOCH = 3


class ScriptedController:
    """A channel to a controller (`ControllerChannel`, `Envelopes`) whose responses a test prepares, in order."""

    def __init__(self) -> None:
        self.responses: deque[Message | ErrorCode | Callable[[Any], Message]] = deque()
        """The next responses, or what makes them of the request; an error code is an Envelope's, or no answer."""
        self.requests: list[Message] = []
        self.envelopes: list[tuple[bytes, bytes]] = []
        """Requests that were passed on as they came, and the addresses of their clients."""
        self.principals: list[bytes] = []
        """The principals that asked for them."""
        self.versions: dict[int, tuple[int, int] | None] = {}
        """The versions that it serves, for APIs that a test has set."""
        self.features: dict[str, int] = {}
        """The finalized features that it told."""

    def served(self, key: ApiKey) -> tuple[int, int] | None:
        return self.versions.get(key, (0, 100))

    async def request(self, key: ApiKey, message: Message, **_: Any) -> Any:
        self.requests.append(message)
        async with asyncio.timeout(None):  # as the real one: it works in tasks only
            await asyncio.sleep(0)
        response = self._response(message)
        if isinstance(response, ErrorCode):
            raise ControllerUnavailable(f"{key.name} had no answer")
        return response

    async def forward(self, request: bytes, *, principal: bytes, client_host: bytes, **_: Any) -> ForwardedResponse:
        async with asyncio.timeout(None):
            await asyncio.sleep(0)
        header = decode_request_header(request)
        self.envelopes.append((request, client_host))
        self.principals.append(principal)
        message = decode_request(header.api_key, header.api_version, request, header.body_offset)
        response = self._response(message)
        if isinstance(response, ErrorCode):
            return ForwardedResponse(response, b"")
        frame = encode_response(header.api_key, header.api_version, header.correlation_id, response)
        return ForwardedResponse(ErrorCode.NONE, b"".join(frame)[SIZE_BYTES:])

    def _response(self, message: Message) -> Message | ErrorCode:
        response = self.responses.popleft()
        return response if isinstance(response, Message | ErrorCode) else response(message)


class ScriptedCluster:
    """A `JoinedCluster` that follows the records of a test."""

    def __init__(self, **settings: Any) -> None:
        self.config = BrokerConfig(node_id=HERE, **settings)
        self.controller = ScriptedController()
        self.leader: ActiveController | None = ActiveController(1000, RAFT_EPOCH, "controller", 9093)
        channel: Any = self.controller
        self.cluster = JoinedCluster(
            config=self.config,
            cluster_id="A" * 22,
            channel=channel,
            envelopes=channel,
            find_leader=lambda: self.leader,
            own_epoch=lambda: 77,
            controller_levels=lambda: self.controller.features,
        )
        self._replay = Replay()

    def publish(self, *batch: Message) -> None:
        """The controllers have committed these records."""
        self.cluster.publish(self.delta(*batch))

    def delta(self, *batch: Message) -> ImageDelta:
        """Apply these records, and return the changes of the controllers."""
        first = self._replay.offset + 1
        for offset, record in enumerate(batch, first):
            self._replay.apply(offset, record)
        self._replay.advance(first + len(batch) - 1, RAFT_EPOCH)
        return self._replay.publish()


def directory(node_id: int) -> Uuid:
    """The id of a broker's data directory."""
    return bytes((node_id,)) * 16


def topic_id(name: str) -> Uuid:
    """The id of a topic in tests."""
    return name.encode().ljust(16, b".")


def broker(
    node_id: int, *, epoch: int = 5, fenced: bool = False, listeners: tuple[str, ...] = ("PLAINTEXT",)
) -> Message:
    """A broker registers."""
    return records.RegisterBrokerRecord(
        broker_id=node_id,
        incarnation_id=directory(node_id),
        broker_epoch=epoch,
        end_points=tuple(records.BrokerEndpoint(name, f"host-{node_id}", 9092, 0) for name in listeners),
        fenced=fenced,
        log_dirs=(directory(node_id),),
    )


def topic(name: str, *partitions: Message) -> tuple[Message, ...]:
    """A topic is created."""
    return (records.TopicRecord(name, topic_id(name)), *partitions)


def partition(
    name: str, index: int = 0, *, leader: int = HERE, epoch: int = 0, replicas: tuple[int, ...] = (HERE,)
) -> Message:
    """A partition of a new topic, or one more."""
    return records.PartitionRecord(
        partition_id=index,
        topic_id=topic_id(name),
        replicas=replicas,
        isr=replicas,
        leader=leader,
        leader_epoch=epoch,
        partition_epoch=epoch,
        directories=tuple(map(directory, replicas)),
    )
