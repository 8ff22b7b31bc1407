"""A whole broker in memory with rules of faults, its clock by hand, and one request of each API that faults are for."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from batches import data
from fake_peer import FakePeer, turns
from local_broker import local_broker
from manual_clock import ManualClock

from eosin.lab.faults.armed_rules import ArmedRules, FaultHooks
from eosin.model.features import SHARE_VERSION, STREAMS_VERSION
from eosin.network.api import Api
from eosin.node.running import RunningNode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.add_offsets_to_txn import AddOffsetsToTxnRequest
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from eosin.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from eosin.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from eosin.protocol.schemas.end_txn import EndTxnRequest
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from eosin.protocol.schemas.heartbeat import HeartbeatRequest
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.protocol.schemas.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from eosin.protocol.schemas.share_fetch import FetchPartition as ShareFetchPartition
from eosin.protocol.schemas.share_fetch import FetchTopic as ShareFetchTopic
from eosin.protocol.schemas.share_fetch import ShareFetchRequest
from eosin.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest
from eosin.protocol.schemas.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from eosin.protocol.schemas.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from eosin.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from eosin.protocol.types import Message

ID: Final = "inv-1"
GROUP: Final = "billing"
PARTITIONS: Final = 3
MEMBER: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
"""Of a group that is not a classic one: clients make such ids."""
SHARERS: Final = "sharers"


class FaultyBroker:
    """One broker. `peer` is the client that faults are about, `other` one that they are not."""

    def __init__(self, node: RunningNode, rules: ArmedRules, clock: ManualClock) -> None:
        self.rules = rules
        self.clock = clock
        self.executed: list[ApiKey] = []
        """The APIs of requests that were executed, in order."""
        node.host.apis = {key: self._counted(api) for key, api in node.host.apis.items()}
        self.peer = FakePeer(node.host)
        self.other = FakePeer(node.host, address="127.0.0.2")
        self.producer = (-1, -1)
        self.node = node

    def _counted(self, api: Api) -> Api:
        async def handle(request: Any, context: Any, services: Any) -> Any:
            self.executed.append(api.key)
            return await api.response(request, context, services)

        return replace(api, handle=handle, respond=None)

    async def ask(self, key: ApiKey, version: int, message: Message) -> Any:
        """The answer to a request of the other client."""
        self.other.send(key, version, message)
        await turns()
        (answer,) = self.other.answers()
        return answer

    async def open_transaction(self) -> None:
        """Begin a transaction with offsets and with a record in orders-0."""
        answer = await self.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(ID, 60_000))
        self.producer = answer.producer_id, answer.producer_epoch
        topic = AddPartitionsToTxnTopic("orders", (0,))
        await self.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, AddPartitionsToTxnRequest((), ID, *self.producer, (topic,)))
        await self.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, AddOffsetsToTxnRequest(ID, *self.producer, GROUP))
        self.executed.clear()

    async def serve_new_groups(self) -> None:
        """Have share groups and groups of Kafka Streams, and a share session."""
        updates = tuple(FeatureUpdateKey(each, 1, upgrade_type=1) for each in (SHARE_VERSION, STREAMS_VERSION))
        await self.ask(ApiKey.UPDATE_FEATURES, 1, UpdateFeaturesRequest(feature_updates=updates))
        self.other.send(ApiKey.SHARE_GROUP_HEARTBEAT, *_share_heartbeat(self))
        await self.clock.run(1000)  # it waits for the states of its partitions
        await turns()
        self.other.answers()
        await self.ask(ApiKey.SHARE_FETCH, *_share_fetch(self))
        self.executed.clear()

    @property
    def topic_id(self) -> bytes:
        """Of orders."""
        return self.node.services.cluster.topics["orders"].topic_id

    def produce(self, *partitions: int, acks: int = -1) -> ProduceRequest:
        """A record for each of these partitions of orders."""
        chosen = tuple(PartitionProduceData(each, data(1)) for each in partitions)
        return ProduceRequest(
            acks=acks, timeout_ms=1000, topic_data=(TopicProduceData("orders", partition_data=chosen),)
        )

    def heartbeat(self) -> HeartbeatRequest:
        """A request that any other may wait for."""
        return HeartbeatRequest(group_id="other")

    def request(self, key: ApiKey) -> tuple[int, Message]:
        """A version, and a request that succeeds at it, of the APIs in `APIS`."""
        return _REQUESTS[key](self)

    def send(self, key: ApiKey) -> None:
        """Have the client send it."""
        version, message = self.request(key)
        self.peer.send(key, version, message)


def _end_txn(broker: FaultyBroker) -> tuple[int, Message]:
    return 3, EndTxnRequest(ID, *broker.producer, committed=True)


def _offsets(broker: FaultyBroker) -> tuple[int, Message]:
    partitions = tuple(TxnOffsetCommitRequestPartition(index, 5) for index in range(2))
    topic = TxnOffsetCommitRequestTopic("orders", partitions=partitions)
    return 3, TxnOffsetCommitRequest(ID, GROUP, *broker.producer, topics=(topic,))


def _fetch(broker: FaultyBroker) -> tuple[int, Message]:
    partitions = tuple(FetchPartition(index, fetch_offset=0, partition_max_bytes=1000) for index in range(2))
    return 12, FetchRequest(max_wait_ms=0, min_bytes=0, topics=(FetchTopic("orders", partitions=partitions),))


def _join(broker: FaultyBroker) -> tuple[int, Message]:
    protocols = (JoinGroupRequestProtocol("range", b""),)
    return 3, JoinGroupRequest("shipping", 10_000, 10_000, "", None, "consumer", protocols)


def _consumer_heartbeat(_: FaultyBroker) -> tuple[int, Message]:
    request = ConsumerGroupHeartbeatRequest(
        "shipping", MEMBER, rebalance_timeout_ms=60_000, subscribed_topic_names=("orders",), topic_partitions=()
    )
    return 1, request


def _share_heartbeat(_: FaultyBroker) -> tuple[int, Message]:
    return 1, ShareGroupHeartbeatRequest(SHARERS, MEMBER, 0, None, ("orders",))


def _share_fetch(broker: FaultyBroker) -> tuple[int, Message]:
    topic = ShareFetchTopic(broker.topic_id, (ShareFetchPartition(0),))
    return 1, ShareFetchRequest(SHARERS, MEMBER, 0, 0, 1, 1000, 10, 10, topics=(topic,))


def _share_acknowledge(broker: FaultyBroker) -> tuple[int, Message]:
    topic = AcknowledgeTopic(broker.topic_id, (AcknowledgePartition(0),))
    return 1, ShareAcknowledgeRequest(SHARERS, MEMBER, 1, topics=(topic,))


def _streams_heartbeat(_: FaultyBroker) -> tuple[int, Message]:
    request = StreamsGroupHeartbeatRequest(
        "counters",
        MEMBER,
        rebalance_timeout_ms=60_000,
        topology=Topology(0, (Subtopology("0", source_topics=("orders",)),)),
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
        process_id="p",
    )
    return 0, request


_REQUESTS: Final[dict[ApiKey, Callable[[FaultyBroker], tuple[int, Message]]]] = {
    ApiKey.PRODUCE: lambda broker: (9, broker.produce(0, 1)),
    ApiKey.END_TXN: _end_txn,
    ApiKey.TXN_OFFSET_COMMIT: _offsets,
    ApiKey.INIT_PRODUCER_ID: lambda broker: (4, InitProducerIdRequest(ID, 60_000)),
    ApiKey.FETCH: _fetch,
    ApiKey.JOIN_GROUP: _join,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _consumer_heartbeat,
    ApiKey.SHARE_GROUP_HEARTBEAT: _share_heartbeat,
    ApiKey.SHARE_FETCH: _share_fetch,
    ApiKey.SHARE_ACKNOWLEDGE: _share_acknowledge,
    ApiKey.STREAMS_GROUP_HEARTBEAT: _streams_heartbeat,
}
APIS: Final = tuple(_REQUESTS)
NEW_GROUPS: Final = APIS[APIS.index(ApiKey.CONSUMER_GROUP_HEARTBEAT) :]
"""Those of groups by the newer protocols (KIP-848, KIP-932, KIP-1071)."""


@asynccontextmanager
async def faulty_broker(about: ApiKey = ApiKey.PRODUCE, *, seed: int = 1) -> AsyncIterator[FaultyBroker]:
    """A broker with an open transaction and the topic orders, and with what requests of the API `about` need."""
    clock = ManualClock()
    rules = ArmedRules(seed=seed, wire=clock)
    async with local_broker(clock=clock, hooks=FaultHooks(rules), group_initial_rebalance_delay_ms=0) as node:
        broker = FaultyBroker(node, rules, clock)
        topic = CreatableTopic("orders", PARTITIONS, 1)
        await broker.ask(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest((topic,), 1000))
        await broker.open_transaction()
        if about in NEW_GROUPS:
            await broker.serve_new_groups()
        yield broker
        rules.end()
