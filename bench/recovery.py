"""Recovery: from the start of the process after kill -9 to being ready, and to having everything loaded again.

The budgets are for 1 GiB of log and a million transactions; `EOSIN_BENCH_TRANSACTIONS=1000000` writes that many (for
some minutes), otherwise there are a hundred thousand.
"""

import itertools
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from broker_process import BrokerProcess

from bench.report import Row
from bench.throughput import create_topic
from bench.wire import Wire, frame
from eosin.protocol.codec import decode_response
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.records import NewRecord, build_batch
from eosin.protocol.schemas.end_txn import EndTxnRequest
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from eosin.protocol.schemas.list_transactions import ListTransactionsRequest
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

GROUP = "Recovery after kill -9"
MIB = 1024 * 1024
READY_S = 2.0
LOADED_S = 5.0
_LATEST = -1
_IDS = 256
_RECORDS = 1000


class _Id:
    """One transactional id; each commit returns the next epoch (KIP-890)."""

    __slots__ = ("epoch", "name", "producer_id")

    def __init__(self, name: str) -> None:
        self.name = name
        self.producer_id = self.epoch = -1

    def produce(self) -> bytes:
        """One record as the first of a transaction."""
        batch = build_batch(
            [NewRecord(key=None, value=b"x" * 100)],
            timestamp=int(time.time() * 1000),
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=0,
            transactional=True,
        )
        topics = (TopicProduceData(name="ledger", partition_data=(PartitionProduceData(index=0, records=batch),)),)
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=30_000, topic_data=topics)
        return frame(ApiKey.PRODUCE, 12, request)

    def commit(self) -> bytes:
        """The end of it."""
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, committed=True
        )
        return frame(ApiKey.END_TXN, 5, request)


def _introduce(wire: Wire, ids: list[_Id]) -> None:
    for each in ids:
        request = InitProducerIdRequest(transactional_id=each.name, transaction_timeout_ms=600_000)
        answer = wire.call(ApiKey.INIT_PRODUCER_ID, 4, request)
        while answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            answer = wire.call(ApiKey.INIT_PRODUCER_ID, 4, request)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        each.producer_id, each.epoch = answer.producer_id, answer.producer_epoch


def _transact(wire: Wire, ids: list[_Id], count: int) -> int:
    """About `count` committed transactions, one after another for each id; how many it were. One more of each id is
    left open."""
    done = 0
    while done < count:
        _produce_all(wire, ids)
        _commit_all(wire, ids)
        done += len(ids)
    _produce_all(wire, ids)
    return done


def _produce_all(wire: Wire, ids: list[_Id]) -> None:
    while ids:
        order, again = iter(ids), []

        def answered(answer: memoryview, order: Iterator[_Id] = order, again: list[_Id] = again) -> None:
            code = decode_response(ApiKey.PRODUCE, 12, answer)[1].responses[0].partition_responses[0].error_code
            each = next(order)
            if code == ErrorCode.CONCURRENT_TRANSACTIONS:  # the last commit's markers are on their way
                again.append(each)
                return
            assert code == ErrorCode.NONE, ErrorCode(code)

        wire.pipeline((each.produce() for each in ids), answered, depth=32)
        ids = again


def _commit_all(wire: Wire, ids: list[_Id]) -> None:
    order = iter(ids)

    def answered(answer: memoryview) -> None:
        found = decode_response(ApiKey.END_TXN, 5, answer)[1]
        assert found.error_code == ErrorCode.NONE, ErrorCode(found.error_code)
        each = next(order)
        each.producer_id, each.epoch = found.producer_id, found.producer_epoch

    wire.pipeline((each.commit() for each in ids), answered, depth=32)


def _fill(wire: Wire, size: int) -> int:
    """Batches of 1 MiB, `size` bytes in all; the offset where the log then ends."""
    batch = bytes(build_batch([NewRecord(None, b"x" * 1040)] * _RECORDS, timestamp=int(time.time() * 1000)))
    topics = (TopicProduceData(name="bulk", partition_data=(PartitionProduceData(index=0, records=batch),)),)
    request = frame(ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=topics))

    def answered(answer: memoryview) -> None:
        code = decode_response(ApiKey.PRODUCE, 9, answer)[1].responses[0].partition_responses[0].error_code
        assert code == ErrorCode.NONE, ErrorCode(code)

    count = size // len(batch)
    wire.pipeline(itertools.repeat(request, count), answered)
    return count * _RECORDS


def _end_offset(wire: Wire, topic: str) -> int:
    partition = ListOffsetsPartition(partition_index=0, timestamp=_LATEST)
    request = ListOffsetsRequest(topics=(ListOffsetsTopic(name=topic, partitions=(partition,)),))
    answer: Any = wire.call(ApiKey.LIST_OFFSETS, 5, request).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
    return int(answer.offset)


class _Measured(NamedTuple):
    ready_s: float
    loaded_s: float


def _recover(durability: str, size: int, transactions: int) -> _Measured:
    """Write that much, kill the broker, and time its next start."""
    with (
        tempfile.TemporaryDirectory() as folder,
        BrokerProcess(Path(folder) / "data", durability=durability) as broker,
    ):
        wire = Wire(broker.port)
        create_topic(wire, "bulk")
        create_topic(wire, "ledger")
        ids = [_Id(f"id-{index}") for index in range(_IDS)]
        _introduce(wire, ids)
        _transact(wire, ids, transactions)
        end = _fill(wire, size)
        broker.kill()
        wire.close()
        started = time.perf_counter()
        broker.start(timeout_s=120)
        ready = time.perf_counter()
        wire = Wire(broker.port)
        states: Any = wire.call(ApiKey.LIST_TRANSACTIONS, 0, ListTransactionsRequest())
        while states.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            states = wire.call(ApiKey.LIST_TRANSACTIONS, 0, ListTransactionsRequest())
        loaded = time.perf_counter()
        assert len(states.transaction_states) == _IDS
        assert _end_offset(wire, "bulk") == end, "acknowledged records are missing"
        wire.close()
        return _Measured(ready - started, loaded - started)


def run(quick: bool = False) -> list[Row]:
    """Ever more log and transactions, for the two levels of durability that leave something behind."""
    most = int(os.environ.get("EOSIN_BENCH_TRANSACTIONS", 100_000))
    steps = ((10, 500), (50, 2000)) if quick else ((10, most // 100), (100, most // 10), (1024, most))
    rows = []
    for durability in ("os", "fsync"):
        first: _Measured | None = None
        for size, transactions in steps:
            measured = _recover(durability, size * MIB, transactions)
            what = f"{size} MiB, {transactions:,} transactions, {durability}"
            rows.append(Row(GROUP, f"start to ready, {what}", measured.ready_s, "s", budget=READY_S))
            rows.append(Row(GROUP, f"start to loaded, {what}", measured.loaded_s, "s", budget=LOADED_S))
            if first is not None:
                growth = f"growth of start to loaded, {what}"
                rows.append(Row(GROUP, growth, measured.loaded_s, "s", first.loaded_s, f"{steps[0][0]} MiB"))
            first = first or measured
    return rows
