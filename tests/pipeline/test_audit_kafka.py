"""The audit reads what Apache Kafka wrote as it reads Eosin's, under both transaction protocols; no Spark here."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from apache_kafka import ApacheKafka
from toolchains import skipped_without

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.producer import Producer
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord

pytest.importorskip("pyspark")

import numpy as np

from eosin.pipeline.audit.columns import concatenate, length
from eosin.pipeline.audit.coordinator_states import ONGOING, SegmentStateReplay
from eosin.pipeline.audit.joining import join
from eosin.pipeline.audit.merging import Merged, merge
from eosin.pipeline.audit.segment_facts import SegmentFacts
from eosin.pipeline.audit.segment_files import SegmentFile, find_segments, open_segment

pytestmark = [pytest.mark.process, pytest.mark.slow]


async def write(client: Client, name: str, partitions: list[int], end: str) -> None:
    producer = Producer(client, name, transaction_timeout_ms=600_000)
    await producer.init()
    producer.begin()
    for partition in partitions:
        records = [NewRecord(b"k", b"v" * 100) for _ in range(3)]
        now_ms = int(time.time() * 1000)
        await producer.send(TopicPartition("orders", partition), records, timestamp=now_ms)
    if end != "open":
        await (producer.commit() if end == "commit" else producer.abort())
        await producer.init()


async def fill(bootstrap: str) -> None:
    async with Client(bootstrap) as client:
        # Small segments, so that transactions of one producer lie in several.
        await Admin(client).create_topic("orders", 2, configs={"segment.bytes": str(1 << 20)})
        for _ in range(5):
            await write(client, "writer", [0, 1], "commit")
        await write(client, "writer", [0], "abort")
        await write(client, "stuck", [1], "open")


def facts_of(file: SegmentFile, replay: SegmentStateReplay | None = None) -> SegmentFacts:
    read, size = open_segment(file.path)
    watch = None if replay is None else replay.apply
    return SegmentFacts.of(read, size, base_offset=file.base_offset, is_last=file.is_last, watch=watch)


def merged(files: list[SegmentFile]) -> Merged:
    facts = [facts_of(each) for each in files]
    assert not [problem for each in facts for problem in each.problems if problem.is_error]
    assert not any(length(each.faults) for each in facts)
    names = ("first_offset", "next_offset", "holes")
    segments = {name: np.array([getattr(each.scan, name) for each in facts]) for name in names}
    bases = np.array([each.base_offset for each in files])
    return merge(concatenate([each.pieces for each in facts]), {"segment": bases, **segments})


def rows(topic: str, partition: int, found: Merged) -> list[dict[str, Any]]:
    columns = {name: column.tolist() for name, column in found.runs.items()}
    count = length(found.runs)
    return [
        {"topic": topic, "partition": partition, **{name: columns[name][index] for name in columns}}
        for index in range(count)
    ]


@pytest.mark.parametrize("transaction_version", [pytest.param(1, marks=pytest.mark.full), 2])
def test_transactions_of_apache_kafka_are_read_from_its_directory(tmp_path: Path, transaction_version: int) -> None:
    with skipped_without():
        broker = ApacheKafka(tmp_path / "kafka", transaction_version=transaction_version)
    with broker as kafka:
        asyncio.run(fill(kafka.address))
        kafka.kill()
    files = find_segments(str(tmp_path / "kafka" / "data"))
    runs = []
    for partition in (0, 1):
        found = merged([each for each in files if (each.topic, each.partition) == ("orders", partition)])
        assert length(found.faults) == 0
        runs += rows("orders", partition, found)
    made = [(each["outcome"], [place["partition"] for place in each["partitions"]]) for each in join(runs)]
    assert sorted(made) == [("aborted", [0]), *[("committed", [0, 1])] * 5, ("open", [1])]
    replay = SegmentStateReplay()
    for each in files:
        if each.topic == "__transaction_state":
            facts_of(each, replay)
    ongoing = {state.transactional_id: state.partitions for state in replay.states() if state.state in ONGOING}
    assert ongoing == {"stuck": ["orders-1"]}
    assert not replay.problems
