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
from eosin.network.api import Api
from eosin.node.running import RunningNode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.add_offsets_to_txn import AddOffsetsToTxnRequest
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from eosin.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from eosin.protocol.schemas.end_txn import EndTxnRequest
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from eosin.protocol.schemas.heartbeat import HeartbeatRequest
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.protocol.schemas.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from eosin.protocol.types import Message

ID: Final = "inv-1"
GROUP: Final = "billing"
PARTITIONS: Final = 3


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


_REQUESTS: Final[dict[ApiKey, Callable[[FaultyBroker], tuple[int, Message]]]] = {
    ApiKey.PRODUCE: lambda broker: (9, broker.produce(0, 1)),
    ApiKey.END_TXN: _end_txn,
    ApiKey.TXN_OFFSET_COMMIT: _offsets,
    ApiKey.INIT_PRODUCER_ID: lambda broker: (4, InitProducerIdRequest(ID, 60_000)),
    ApiKey.FETCH: _fetch,
    ApiKey.JOIN_GROUP: _join,
}
APIS: Final = tuple(_REQUESTS)


@asynccontextmanager
async def faulty_broker(*, seed: int = 1) -> AsyncIterator[FaultyBroker]:
    """A broker with an open transaction and the topic orders."""
    clock = ManualClock()
    rules = ArmedRules(seed=seed, wire=clock)
    async with local_broker(clock=clock, hooks=FaultHooks(rules), group_initial_rebalance_delay_ms=0) as node:
        broker = FaultyBroker(node, rules, clock)
        topic = CreatableTopic("orders", PARTITIONS, 1)
        await broker.ask(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest((topic,), 1000))
        await broker.open_transaction()
        yield broker
        rules.end()
