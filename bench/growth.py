"""The growth of a transaction's cost with the number of transactional ids (budget: flat within 20 %)."""

import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from broker_process import BrokerProcess

from bench.raw_connection import RawConnection, cpu_seconds, frame
from bench.report import Row
from bench.throughput import create_topic
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.schemas.end_txn import EndTxnRequest
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.protocol.wire.codec import decode_response

GROUP = "Growth"


class _Id:
    """One transactional id's current pair, by the TV2 protocol (KIP-890): each commit returns the next."""

    __slots__ = ("epoch", "name", "producer_id")

    def __init__(self, name: str) -> None:
        self.name = name
        self.producer_id = self.epoch = -1

    def introduction(self) -> bytes:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000)
        return frame(ApiKey.INIT_PRODUCER_ID, 4, request)

    def transact(self, wire: RawConnection) -> None:
        """Produce one record and commit."""
        batch = build_batch(
            [NewRecord(key=None, value=b"x" * 100)],
            timestamp=int(time.time() * 1000),
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=0,
            transactional=True,
        )
        topics = (TopicProduceData(name="growth", partition_data=(PartitionProduceData(index=0, records=batch),)),)
        produce = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=30_000, topic_data=topics)
        answer = wire.call(ApiKey.PRODUCE, 12, produce)
        code = answer.responses[0].partition_responses[0].error_code
        assert code == ErrorCode.NONE, ErrorCode(code)
        end = EndTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, committed=True
        )
        answer = wire.call(ApiKey.END_TXN, 5, end)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch


def _introduce(wire: RawConnection, ids: list[_Id]) -> None:
    """Get each its pair. Between two blocks of producer ids some are told to come back, as clients do."""
    while ids:
        order = iter(ids)
        again: list[_Id] = []

        def answered(answer: memoryview, order: Iterator[_Id] = order, again: list[_Id] = again) -> None:
            found = decode_response(ApiKey.INIT_PRODUCER_ID, 4, answer)[1]
            each = next(order)
            if found.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                again.append(each)
                return
            assert found.error_code == ErrorCode.NONE, ErrorCode(found.error_code)
            each.producer_id, each.epoch = found.producer_id, found.producer_epoch

        wire.pipeline((each.introduction() for each in ids), answered, depth=32)
        ids = again


def run(quick: bool = False) -> list[Row]:
    """The same number of transactions over ever more ids, on one broker."""
    chance = random.Random(1)
    transactions = 300 if quick else 4000
    steps = (10, 1000) if quick else (10, 1000, 10_000, 100_000)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder) / "data", durability="os") as broker:
        wire = RawConnection(broker.port)
        create_topic(wire, "growth")
        ids: list[_Id] = []
        resident = first = 0.0
        for count in steps:
            made = [_Id(f"id-{index}") for index in range(len(ids), count)]
            _introduce(wire, made)
            ids += made
            for each in chance.choices(ids, k=100):
                each.transact(wire)
            before = cpu_seconds(broker.pid)
            for each in chance.choices(ids, k=transactions):
                each.transact(wire)
            cost = (cpu_seconds(broker.pid) - before) / transactions * 1e6
            first = first or cost
            name = f"broker CPU per transaction, {count:,} transactional ids"
            rows.append(Row(GROUP, name, cost, "us", first, "10 ids", None if cost is first else 1.2))
            if count == steps[0]:
                resident = broker.resident_bytes()
        per_id = (broker.resident_bytes() - resident) / (steps[-1] - steps[0])
        rows.append(Row(GROUP, "resident memory per transactional id", per_id, "bytes", budget=1024))
        wire.close()
    return rows
