"""The controllers of a simulated cluster: one model (`fake_controller.py`) behind the addresses of three, on a machine
of their own. One of them is active; the others say so, and know who is."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self, cast

from image_records import image_records
from quorum_log import HOST, QuorumLog
from reassigning_controller import ReassigningController

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas import schema_of
from eosin.protocol.schemas.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from eosin.protocol.schemas.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from eosin.protocol.schemas.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey
from eosin.protocol.schemas.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from eosin.protocol.schemas.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from eosin.protocol.schemas.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from eosin.protocol.schemas.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from eosin.protocol.schemas.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from eosin.protocol.schemas.envelope import EnvelopeRequest, EnvelopeResponse
from eosin.protocol.schemas.fetch import FetchRequest
from eosin.protocol.schemas.fetch_snapshot import FetchSnapshotRequest
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import Buffer, decode_request, decode_request_header, encode_response
from eosin.protocol.wire.frames import FrameDecoder
from simulation.clock import EPOCH_MS
from simulation.cluster.fabric import Fabric, HostProcess, Listening
from simulation.loop import Process, Scheduler

CONTROLLERS: Final = (1000, 1001, 1002)
"""Their ids, and their ports."""
SERVED: Final = {
    ApiKey.FETCH: (4, 18),
    ApiKey.FETCH_SNAPSHOT: (0, 1),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.ELECT_LEADERS: (0, 2),
    ApiKey.ALTER_PARTITION: (2, 3),
    ApiKey.ENVELOPE: (0, 0),
    ApiKey.BROKER_REGISTRATION: (0, 4),
    ApiKey.BROKER_HEARTBEAT: (0, 2),
    ApiKey.ALLOCATE_PRODUCER_IDS: (0, 0),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: (0, 0),
}
"""The versions of what brokers ask for, as a controller of 4.3.1 has them."""
NOT_HERE: Final[dict[type[Message], Message]] = {
    BrokerRegistrationRequest: BrokerRegistrationResponse(error_code=ErrorCode.NOT_CONTROLLER),
    BrokerHeartbeatRequest: BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER),
    AlterPartitionRequest: AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER),
    AllocateProducerIdsRequest: AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER),
    AssignReplicasToDirsRequest: AssignReplicasToDirsResponse(error_code=ErrorCode.NOT_CONTROLLER),
    ElectLeadersRequest: ElectLeadersResponse(error_code=ErrorCode.NOT_CONTROLLER),
    EnvelopeRequest: EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER),
    CreateTopicsRequest: CreateTopicsResponse(topics=(CreatableTopicResult(error_code=ErrorCode.NOT_CONTROLLER),)),
}
"""What a controller that is not active answers."""
CLUSTER_ID: Final = "c2ltdWxhdGVkLWNsdXN0ZQ"
TICK_S: Final = 0.02
LONGEST_WAIT_MS: Final = 100
"""A fetch of metadata that finds nothing new is answered after this."""


class Controllers:
    """All of them, in one process."""

    def __init__(self, process: Process, seed: str, *, features: dict[str, int], session_timeout_ms: int) -> None:
        chance = random.Random(f"{seed}/controllers")
        self.log = QuorumLog(cluster_id=CLUSTER_ID, leader=CONTROLLERS[0])
        self.model = ReassigningController(
            self.log,
            features,
            new_id=lambda: chance.randbytes(16),
            session_timeout_ms=session_timeout_ms,
        )
        self.process = process
        self.is_out = False
        """Whether there is no active controller: nobody decides anything, and nothing is committed."""
        self.starved: set[int] = set()
        """Brokers that get no metadata for the time being; all else is answered."""
        self._changed = asyncio.Event()
        self.process.call_soon(self._tick)

    @classmethod
    def on(cls, fabric: Fabric, scheduler: Scheduler, seed: str, **how: Any) -> Self:
        """Make them on a machine of the network between simulated ones."""
        process = HostProcess(scheduler, "controllers", host=HOST, fabric=fabric)  # type: ignore[abstract]
        made = cls(process, seed, **how)
        for node_id in CONTROLLERS:
            fabric.accepts[HOST, node_id] = lambda node_id=node_id: Listening(  # type: ignore[misc]
                process, lambda: ControllerConnection(made, node_id)
            )
        return made

    @property
    def now_ms(self) -> int:
        """By the controllers' clock."""
        return EPOCH_MS + int(self.process.time() * 1000)

    def _tick(self) -> None:
        if not self.is_out:
            self.model.tick(self.now_ms)
            self._told()
        self.process.call_later(TICK_S, self._tick)

    def fail_over(self) -> None:
        """Another controller becomes active."""
        self.is_out = False
        at = CONTROLLERS.index(self.log.leader)
        self.model.become_active(CONTROLLERS[(at + 1) % len(CONTROLLERS)], self.now_ms)
        self._told()

    def compact(self) -> None:
        """A snapshot takes the place of the log."""
        self.log.compact(*image_records(self.model.image))
        self._told()

    def feed(self, node_id: int) -> None:
        """A broker gets metadata again."""
        self.starved.discard(node_id)
        self._told()

    def move_leaders(
        self, choose: Callable[[list[int]], int], *, topics: Callable[[str], bool] = lambda _: True
    ) -> None:
        """Elections that nobody needs: leaderships of `topics` go to those of the ISR that `choose` picks."""
        self.model.move_leaders(choose, topics=topics)
        self._told()

    def write(self, batch: Sequence[Message]) -> None:
        """Decide what somebody else has asked of the controllers."""
        self.model.write(batch)
        self._told()

    def reassign(self, wanted: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Replicas are to be elsewhere; None: as they were before."""
        self.model.reassign(wanted)
        self._told()

    def _told(self) -> None:
        """Whoever waits for news of the log looks again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def answer(self, controller: int, request: Message) -> Message | None:
        """What one of them answers; None for silence."""
        if self.is_out:
            return None
        if isinstance(request, FetchRequest):
            return await self._fetched(controller, request)
        if isinstance(request, FetchSnapshotRequest):
            return self.log.answer(controller, request)
        if isinstance(request, ApiVersionsRequest):
            return self._versions()
        if controller != self.log.leader:
            return NOT_HERE.get(type(request), EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER))
        response = self.model.answer(request, self.now_ms)
        self._told()
        return response

    async def _fetched(self, controller: int, request: FetchRequest) -> Message | None:
        while request.replica_state.replica_id in self.starved:
            await self._changed.wait()
        offset = request.topics[0].partitions[0].fetch_offset
        if controller == self.log.leader and offset >= self.log.end_offset and request.max_wait_ms > 0:
            try:
                async with asyncio.timeout(min(request.max_wait_ms, LONGEST_WAIT_MS) / 1000):
                    while not self.is_out and offset >= self.log.end_offset:
                        await self._changed.wait()
            except TimeoutError:
                pass
        self.log.requests.clear()
        return None if self.is_out else self.log.answer(controller, request)

    def _versions(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=tuple(ApiVersion(key, *versions) for key, versions in SERVED.items()),
            finalized_features_epoch=self.model.image.offset,
            finalized_features=tuple(
                FinalizedFeatureKey(name, level, level) for name, level in self.model.image.features.items()
            ),
        )


class ControllerConnection(asyncio.BufferedProtocol):
    """A connection to one controller: requests are answered in their order."""

    def __init__(self, controllers: Controllers, controller: int) -> None:
        self._controllers = controllers
        self._controller = controller
        self._decoder = FrameDecoder(1 << 20)
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._task = asyncio.get_running_loop().create_task(self._serve())

    def connection_lost(self, exc: Exception | None) -> None:
        assert self._task is not None
        self._task.cancel()
        while not self._queue.empty():
            frame = self._queue.get_nowait()
            if decode_request_header(frame).api_key == ApiKey.ENVELOPE:  # a real one carries out what it has read
                self._last_words = asyncio.get_running_loop().create_task(self._answer(frame))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._decoder.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        for frame in self._decoder.received(nbytes):
            self._queue.put_nowait(bytes(frame))

    async def _serve(self) -> None:
        while True:
            answer = await self._answer(await self._queue.get())
            if answer is not None:
                self._transport.writelines(answer)

    async def _answer(self, frame: bytes) -> list[Buffer] | None:
        header = decode_request_header(frame)
        key, version = header.api_key, header.api_version
        assert schema_of(key) is not None, key
        request = decode_request(key, version, frame, header.body_offset)
        response = await self._controllers.answer(self._controller, request)
        return None if response is None else encode_response(key, version, header.correlation_id, response)
