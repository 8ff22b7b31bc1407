"""Produce and read_committed fetch throughput: ready-made batches over one connection, five in flight."""

import itertools
import tempfile
import time
from pathlib import Path

from broker_process import BrokerProcess

from bench.raw_connection import RawConnection, cpu_seconds, frame
from bench.report import Row
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.schemas.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.protocol.wire.codec import decode_response

GROUP = "Throughput (one connection)"
KIB, MIB = 1024, 1024 * 1024


def create_topic(wire: RawConnection, name: str, partitions: int = 1, replicas: int = 1) -> None:
    """A topic with room for batches of 1 MiB."""
    config = CreatableTopicConfig(name="max.message.bytes", value=str(2 * MIB))
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=(config,))
    answer = wire.call(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=(topic,), timeout_ms=10_000))
    assert answer.topics[0].error_code == ErrorCode.NONE, answer


def batch_of(record_bytes: int, batch_bytes: int) -> bytes:
    """A batch of about `batch_bytes`, of records with so many bytes of value."""
    # A record of n bytes of value costs about 8 bytes more, and a batch 61.
    count = max(1, (batch_bytes - 100) // (record_bytes + 8))
    records = [NewRecord(key=None, value=b"x" * record_bytes) for _ in range(count)]
    return bytes(build_batch(records, timestamp=int(time.time() * 1000)))


def produce(wire: RawConnection, topic: str, batch: bytes, count: int, *, partition: int = 0) -> float:
    """MB/s of `count` times the same batch, five unanswered."""
    data = PartitionProduceData(index=partition, records=batch)
    topics = (TopicProduceData(name=topic, partition_data=(data,)),)
    request = frame(ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics))

    def answered(answer: memoryview) -> None:
        code = decode_response(ApiKey.PRODUCE, 9, answer)[1].responses[0].partition_responses[0].error_code
        assert code == ErrorCode.NONE, ErrorCode(code)

    started = time.perf_counter()
    wire.pipeline(itertools.repeat(request, count), answered)
    return count * len(batch) / (time.perf_counter() - started) / 1e6


def records_in(batch: bytes) -> int:
    """Its count, from the header."""
    return int.from_bytes(batch[57:61], "big")


def fetch(wire: RawConnection, topic: str, batch: bytes, records: int, count: int, chunk: int) -> float:
    """MB/s. Offsets are known beforehand, so requests can be pipelined as a consumer with prefetch does."""
    per_chunk = max(1, chunk // len(batch))
    frames = []
    for first in range(0, count, per_chunk):
        partition = FetchPartition(
            partition=0, fetch_offset=first * records, partition_max_bytes=per_chunk * len(batch)
        )
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=64 * MIB,
            isolation_level=1,
            topics=(FetchTopic(topic=topic, partitions=(partition,)),),
        )
        frames.append(frame(ApiKey.FETCH, 11, request))
    received = 0

    def answered(answer: memoryview) -> None:
        nonlocal received
        received += len(answer)

    started = time.perf_counter()
    wire.pipeline(frames, answered, depth=2)
    taken = time.perf_counter() - started
    assert received >= count * len(batch), (received, count * len(batch))
    return count * len(batch) / taken / 1e6


def run(quick: bool = False) -> list[Row]:
    """Every combination of durability, record size and batch size."""
    rows = []
    volume = (8 if quick else 96) * MIB
    for durability in ("memory", "os", "fsync"):
        with (
            tempfile.TemporaryDirectory() as folder,
            BrokerProcess(Path(folder) / "data", durability=durability) as broker,
        ):
            wire = RawConnection(broker.port)
            for record_bytes, batch_bytes in itertools.product((100, KIB), (64 * KIB, MIB)):
                topic = f"t-{record_bytes}-{batch_bytes}"
                create_topic(wire, topic)
                batch = batch_of(record_bytes, batch_bytes)
                records = records_in(batch)
                count = volume // len(batch)
                produce(wire, topic, batch, 2)
                before = cpu_seconds(broker.pid)
                produced = produce(wire, topic, batch, count)
                cpu = (cpu_seconds(broker.pid) - before) / (count * records) * 1e6
                what = f"{record_bytes} B records, {batch_bytes // KIB} KiB batches, {durability}"
                rows.append(Row(GROUP, f"produce, {what}", produced, "MB/s"))
                rows.append(Row(GROUP, f"broker CPU per million records, {what}", cpu, "s"))
                fetched = fetch(wire, topic, batch, records, count, MIB)
                rows.append(Row(GROUP, f"fetch read_committed, {what}", fetched, "MB/s"))
            wire.close()
    return rows
