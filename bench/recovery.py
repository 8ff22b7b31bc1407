"""The time of a start after kill -9: with ever more log that was just written, and with a long life of transactions.

Budgets: with 1 GiB of log and a million transactions, requests are accepted after 2 s and everything is loaded
after 5. What the broker itself used of a processor is told beside: on a busy machine that is the figure to go by.
"""

import itertools
import re
import tempfile
import time
from pathlib import Path
from typing import Any

from broker_process import BrokerProcess
from filled_directory import filled_directory
from waiting import wait_until

from bench.raw_connection import RawConnection, cpu_seconds, frame
from bench.report import Row
from bench.throughput import create_topic
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.protocol.wire.codec import decode_response

GROUP = "Start after kill -9"
MIB = 1024 * 1024
_LOADED = re.compile(r"the coordinators are loaded.*took_ms=(\d+)")
_READY_S = 2.0
_LOADED_S = 5.0
_TOPIC = "bulk"
_RECORDS = 1000
_LATEST = -1


def run(quick: bool = False) -> list[Row]:
    """Ever more log, for both levels of durability that leave something behind; then ever more transactions."""
    rows: list[Row] = []
    for durability in ("os", "fsync"):
        first = 0.0
        for size in (10, 50) if quick else (10, 100, 1024):
            seconds, cpu = _after_writing(size * MIB, durability)
            what = f"{size:,} MiB just written, {durability}"
            rows.append(Row(GROUP, f"requests accepted, {what}", seconds, "s", budget=_READY_S))
            rows.append(Row(GROUP, f"its CPU, {what}", cpu, "s", first or None, "10 MiB" if first else ""))
            first = first or cpu
    for transactions in (10_000,) if quick else (10_000, 100_000, 1_000_000):
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder) / "data"
            filled_directory(directory, transactions=transactions, ids=10_000 if transactions > 100_000 else 1000)
            mebibytes = sum(path.stat().st_size for path in directory.rglob("*.log")) >> 20
            rows += _start(directory, f"{transactions:,} transactions, {mebibytes:,} MiB")
    return rows


# A life of transactions


def _start(directory: Path, name: str) -> list[Row]:
    process = BrokerProcess(directory)
    started = time.monotonic()
    process.start()
    ready, ready_cpu = time.monotonic() - started, cpu_seconds(process.pid)
    wait_until(lambda: _LOADED.search(process.log), every_s=0.05)
    loaded, loaded_cpu = time.monotonic() - started, cpu_seconds(process.pid)
    process.stop()
    return [
        Row(GROUP, f"requests accepted, {name}", ready, "s", budget=_READY_S),
        Row(GROUP, f"its CPU, {name}", ready_cpu, "s", budget=_READY_S),
        Row(GROUP, f"everything loaded, {name}", loaded, "s", budget=_LOADED_S),
        Row(GROUP, f"its CPU, everything loaded, {name}", loaded_cpu, "s", budget=_LOADED_S),
    ]


# A log that was being written until the end


def _after_writing(size: int, durability: str) -> tuple[float, float]:
    """Seconds from the start of the process to its ready line, on a log that was written until the kill, and those in
    which it used a processor."""
    with (
        tempfile.TemporaryDirectory() as folder,
        BrokerProcess(Path(folder) / "data", durability=durability) as broker,
    ):
        wire = RawConnection(broker.port)
        create_topic(wire, _TOPIC)
        end = _fill(wire, size)
        broker.kill()
        wire.close()
        started = time.monotonic()
        broker.start()
        seconds, cpu = time.monotonic() - started, cpu_seconds(broker.pid)
        wire = RawConnection(broker.port)
        assert _end_offset(wire) == end, "acknowledged records are missing"
        wire.close()
        return seconds, cpu


def _fill(wire: RawConnection, size: int) -> int:
    """Batches of 1 MiB, `size` bytes in all; the offset where the log then ends."""
    batch = bytes(build_batch([NewRecord(None, b"x" * 1040)] * _RECORDS, timestamp=int(time.time() * 1000)))
    topics = (TopicProduceData(name=_TOPIC, partition_data=(PartitionProduceData(index=0, records=batch),)),)
    request = frame(ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=topics))

    def answered(answer: memoryview) -> None:
        code = decode_response(ApiKey.PRODUCE, 9, answer)[1].responses[0].partition_responses[0].error_code
        assert code == ErrorCode.NONE, ErrorCode(code)

    count = size // len(batch)
    wire.pipeline(itertools.repeat(request, count), answered)
    return count * _RECORDS


def _end_offset(wire: RawConnection) -> int:
    partition = ListOffsetsPartition(partition_index=0, timestamp=_LATEST)
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=_TOPIC, partitions=(partition,)),))
    answer: Any = wire.call(ApiKey.LIST_OFFSETS, 5, request).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
    return int(answer.offset)
