"""How often a small transaction waits for the disk, at durability fsync: docs/adr/0016."""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest
from batches import data
from fake_peer import FakePeer
from simulation.machine import Pace, SimulatedFlusher
from virtual_time import VirtualLoop
from waiting import until

from eosin.lab.disk.lying_disk import LyingDisk
from eosin.node.node import Node
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from eosin.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from eosin.protocol.schemas.end_txn import EndTxnRequest
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.protocol.types import Message
from eosin.settings.broker import BrokerConfig
from eosin.storage.disk.flusher import UNHURRIED_S
from eosin.storage.journal.journal import FILE_PREFIX

pytestmark = pytest.mark.virtual

TRANSACTIONS = 10


class _Producer:
    """A transactional producer of either protocol version, one request at a time."""

    def __init__(self, peer: FakePeer, *, transaction_version: int) -> None:
        self.peer = peer
        self.implicit = transaction_version == 2
        self.producer_id = self.producer_epoch = -1
        self.sequence = 0

    async def ask(self, key: ApiKey, version: int, message: Message) -> Any:
        self.peer.send(key, version, message)
        answers: list[Any] = []

        def is_answered() -> bool:
            answers.extend(self.peer.answers())
            return bool(answers)

        await until(is_answered, f"no answer to {message}", every_s=0.001)
        return answers[0]

    async def init(self) -> None:
        topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
        await self.ask(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=(topic,), timeout_ms=1000))
        request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
        answer = await self.ask(ApiKey.INIT_PRODUCER_ID, 4, request)
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch

    async def transact(self) -> None:
        codes = []
        if not self.implicit:
            answer = await self.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 0, self._addition())
            codes.append(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
        answer = await self.ask(ApiKey.PRODUCE, 12 if self.implicit else 10, self._record())
        codes.append(answer.responses[0].partition_responses[0].error_code)
        end = EndTxnRequest("tx", self.producer_id, self.producer_epoch, True)
        answer = await self.ask(ApiKey.END_TXN, 5 if self.implicit else 1, end)
        codes.append(answer.error_code)
        assert not any(codes), codes
        if self.implicit:
            self.producer_id, self.producer_epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0

    def _addition(self) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic("orders", (0,)),),
        )

    def _record(self) -> ProduceRequest:
        batch = data(pid=self.producer_id, epoch=self.producer_epoch, seq=self.sequence, txn=True)
        self.sequence += 1
        topic = TopicProduceData("orders", partition_data=(PartitionProduceData(0, batch),))
        return ProduceRequest("tx", acks=-1, timeout_ms=1000, topic_data=(topic,))


async def syncs_of_transactions(transaction_version: int, *, journal_bytes: int) -> Counter[str]:
    """How often what was synced while some transactions were committed one after another, by the name of a log or of a
    file at the top."""
    disk = LyingDisk()
    few = {"transaction_state_log_num_partitions": 1, "offsets_topic_num_partitions": 1}
    # However slow the disk is, answers wait for markers: the next transaction would share its syncs with them.
    config = BrokerConfig(
        listeners=(), eosin_end_txn_marker_wait_ms=1000, eosin_journal_size_bytes=journal_bytes, **few
    )
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    server = await Node.alone(
        config, clock=loop.clock, disk=disk, flusher=SimulatedFlusher(loop, random.Random(1), Pace(sync_ms=2))
    ).start()
    server.cluster.advertise("PLAINTEXT", "localhost", 9092)
    producer = _Producer(FakePeer(server.host), transaction_version=transaction_version)
    await producer.init()
    await producer.transact()
    await asyncio.sleep(2 * UNHURRIED_S)
    disk.calls.clear()
    for _ in range(TRANSACTIONS):
        await producer.transact()
    synced = [path.split("/") for call, path in disk.calls if call in ("sync", "sync_fixed")]
    syncs = Counter(names[-2] if names[-1].endswith(".log") else names[-1] for names in synced)
    await server.shutdown()
    return syncs


@pytest.mark.parametrize("transaction_version", [1, 2])
async def test_without_a_journal_a_commit_takes_two_syncs_of_the_coordinators_log_and_two_of_the_partition(
    transaction_version: int,
) -> None:
    syncs = await syncs_of_transactions(transaction_version, journal_bytes=0)
    assert syncs["orders-0"] == 2 * TRANSACTIONS, "the data, the marker"
    assert syncs["__transaction_state-0"] == 2 * TRANSACTIONS, "Ongoing and Prepare; Complete shares the next one"


@pytest.mark.parametrize("transaction_version", [1, 2])
async def test_with_a_journal_a_commit_takes_four_syncs_of_it_and_none_of_a_log(transaction_version: int) -> None:
    syncs = await syncs_of_transactions(transaction_version, journal_bytes=64 << 20)
    logs = {name: count for name, count in syncs.items() if not name.startswith(FILE_PREFIX)}
    assert not logs
    assert syncs.total() == 4 * TRANSACTIONS, "the data, Ongoing, Prepare, the marker; Complete shares the next one"
