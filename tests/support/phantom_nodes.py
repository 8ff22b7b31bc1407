"""A broker of the lab with several nodes, without sockets: a test sends one request at a time to the node it names."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from manual_clock import ManualClock

from eosin.lab.network.lab_network import LabNetwork
from eosin.lab.nodes.lab_nodes import LabNodes
from eosin.lab.nodes.table import NodeState
from eosin.lab.options import options_of
from eosin.network.api import RequestContext
from eosin.node.node import Node
from eosin.node.running import RunningNode
from eosin.node.sockets import BoundListener
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataResponsePartition
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from eosin.protocol.types import Message
from eosin.settings.listeners import Listener

FIRST_PORT: Final = 9091
_VERSIONS: Final = {ApiKey.PRODUCE: 12, ApiKey.FETCH: 12, ApiKey.METADATA: 12}


class _NoSockets:
    """`Endpoints` of nodes that the test calls by itself."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = listeners
        self.closed: list[str] = []

    async def bind(self) -> Sequence[BoundListener]:
        return [
            BoundListener(Listener(each.name, "localhost", FIRST_PORT + number), "127.0.0.1")
            for number, each in enumerate(self._listeners)
        ]

    def listen(self, broker: RunningNode) -> None:
        """Nobody comes."""

    def release(self, name: str) -> None:
        """Nobody is held."""

    async def close(self) -> None:
        """Nobody listens."""

    async def end_listening(self, name: str) -> None:
        self.closed.append(name)

    def listen_again(self, name: str, broker: RunningNode) -> None:
        self.closed.remove(name)


class PhantomNodes:
    """The nodes, and the broker behind them."""

    def __init__(self, node: RunningNode, nodes: LabNodes, endpoints: _NoSockets, clock: ManualClock) -> None:
        self.broker = node
        self.clock = clock
        """Requests and loads wait on it."""
        self.nodes = nodes
        self.endpoints = endpoints

    async def ask(self, node: int, key: ApiKey, request: Message, version: int | None = None) -> Any:
        """The response of a node to a request."""
        api = self.broker.host.apis[key]
        chosen = _VERSIONS.get(key, api.versions[-1]) if version is None else version
        context = RequestContext(chosen, "c", "/127.0.0.1", self.nodes.table.listener(node), api_key=key)
        return await api.response(request, context, self.broker.services)

    async def produce(self, node: int, partition: TopicPartition, value: bytes = b"a") -> ProduceResponse:
        """Write one record there."""
        batch = build_batch([NewRecord(None, value)], timestamp=1)
        data = (PartitionProduceData(partition.partition, batch),)
        request = ProduceRequest(
            acks=-1, timeout_ms=1000, topic_data=(TopicProduceData(partition.topic, partition_data=data),)
        )
        response: ProduceResponse = await self.ask(node, ApiKey.PRODUCE, request)
        return response

    async def fetch(
        self, node: int, partition: TopicPartition, *, leader_epoch: int = -1, offset: int = 0, wait_ms: int = 0
    ) -> PartitionData:
        """Read there, from an offset on."""
        wanted = FetchPartition(partition.partition, leader_epoch, offset, partition_max_bytes=1000)
        request = FetchRequest(
            max_wait_ms=wait_ms, min_bytes=1, topics=(FetchTopic(partition.topic, partitions=(wanted,)),)
        )
        response = await self.ask(node, ApiKey.FETCH, request)
        data: PartitionData = response.responses[0].partitions[0]
        return data

    async def metadata(self, node: int, partition: TopicPartition) -> MetadataResponsePartition:
        """The partition as the metadata of a node have it."""
        response = await self.ask(node, ApiKey.METADATA, MetadataRequest(topics=None))
        (topic,) = (each for each in response.topics if each.name == partition.topic)
        found: MetadataResponsePartition = topic.partitions[partition.partition]
        return found


def code(response: Any) -> ErrorCode:
    """The error code of a response, or of a part of it."""
    return ErrorCode(response.error_code)


@asynccontextmanager
async def phantom_nodes(
    count: int = 3, *, topics: dict[str, int] | None = None, state: NodeState | None = None, **settings: str
) -> AsyncIterator[PhantomNodes]:
    """A broker in memory behind so many nodes."""
    options = options_of(nodes=count, topics=topics or {"orders": 3}, disk="memory", settings=settings)
    nodes = LabNodes(count, LabNetwork(lambda: 0.0))
    if state is not None:
        nodes.adopt(state)
    config = options.config()
    endpoints = _NoSockets(config.bound_listeners)
    clock = ManualClock()
    node = await Node(
        config, nodes.part_at, endpoints=endpoints, first_topics=options.first_topics, wire_clock=clock
    ).start()
    nodes.begin_life(node, endpoints)
    try:
        yield PhantomNodes(node, nodes, endpoints, clock)
    finally:
        nodes.end_life()
        await node.shutdown()
