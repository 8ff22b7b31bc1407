"""Records that confirm an answer of Eosin's transaction coordinator, in a log that a broker of Apache Kafka takes over,
and compacts (cluster.md 6.5)."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest
from cluster_topics import ClusterTopics
from mixed_cluster import (
    EOSIN,
    KAFKA,
    Brokers,
    Cluster,
    Producer,
    answered,
    connected,
    leads,
    mixed_brokers,
    read_committed,
)
from wire import Wire, now_ms, unique
from wire_producer import RawProducer

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TRANSACTION_STATE_TOPIC, TopicPartition
from eosin.protocol.records.batch import iter_records
from eosin.protocol.records.header import batches

_KEY: Final = bytes(4)
"""Version 0 and the empty id."""
_QUICK_CLEANER: Final = {"log.cleaner.backoff.ms": "200"}
_SWEPT: Final = {"segment.ms": "200", "min.cleanable.dirty.ratio": "0.0"}
_COMPLAINT: Final = re.compile(
    r"^\d{4}-\S+ .*?(?: (?:ERROR|FATAL) | WARN .*(?:[Cc]leaner|Transaction State Manager)).*", re.MULTILINE
)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with mixed_brokers(tmp_path_factory.mktemp("confirmed"), _QUICK_CLEANER) as made:
        yield made


@pytest.fixture
async def cluster(brokers: Brokers) -> AsyncIterator[Cluster]:
    async with connected(brokers) as made:
        yield made


def confirmations(data_dir: Path) -> list[int]:
    """These records in a broker's copy of the log: of each the time from when on compaction may take it, in ms, or 0
    where none is set yet."""
    found: list[int] = []
    for path in sorted((data_dir / f"{TRANSACTION_STATE_TOPIC}-0").glob("*.log")):
        with contextlib.suppress(FileNotFoundError):  # compacted meanwhile
            data = path.read_bytes()
            for at, header in batches(data):
                horizon_ms = header.base_timestamp if header.has_delete_horizon else 0
                records = iter_records(data[at : at + header.size])
                found += [horizon_ms for record in records if record.key == _KEY and record.value is None]
    return found


async def confirmed(cluster: Cluster, homes: dict[TopicPartition, int]) -> Producer:
    """A producer that has committed a transaction, and said so again: Eosin has confirmed that."""
    producer = await Producer.made(cluster, EOSIN, homes, level=1)
    await producer.write(EOSIN, *homes)
    await producer.end(EOSIN, commit=True)
    await producer.at(EOSIN).completed()
    return producer


async def refused(cluster: Cluster, zombie: Producer) -> None:
    """Eosin has confirmed that a fenced producer is one, and that it does not know an id."""
    answer = await answered(lambda: zombie.at(EOSIN).end(commit=True), lambda answer: int(answer.error_code))
    assert answer.error_code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    stranger = RawProducer(cluster.wires[EOSIN], unique("nobody"), 7, 0)
    answer = await answered(lambda: stranger.end(commit=True), lambda answer: int(answer.error_code))
    assert answer.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def complaints(brokers: Brokers, since: int) -> list[str]:
    """What the broker of Apache Kafka has called an error, or said of such a log, behind `since` characters of its
    own. The controller complains of a setting of these tests: so it is seen that complaints are found."""
    assert _COMPLAINT.search(brokers.controller.log)
    return _COMPLAINT.findall(brokers.kafka.log[since:])


@pytest.mark.full
@pytest.mark.parametrize("handover", ["reassignment", "failover"])
async def test_apache_kafka_goes_on_from_a_log_with_confirmations_and_eosin_after_it(
    brokers: Brokers, cluster: Cluster, handover: str
) -> None:
    await cluster.move(EOSIN)
    said, before = len(brokers.kafka.log), len(confirmations(brokers.eosin.data_dir))
    homes = {await cluster.topic(KAFKA): KAFKA}
    settled = await confirmed(cluster, homes)
    zombie = await Producer.made(cluster, EOSIN, homes, level=2)
    heir = await Producer.made(cluster, EOSIN, homes, level=2, name=zombie.raw.transactional_id)
    await heir.write(EOSIN, *homes)  # open while the coordinator changes
    await refused(cluster, zombie)
    written = len(confirmations(brokers.eosin.data_dir))
    assert written >= before + 3
    if handover == "failover":
        await asyncio.to_thread(brokers.eosin.kill)
        await leads(cluster.wires[KAFKA], TRANSACTION_STATE_TOPIC, KAFKA)
    else:
        await cluster.move(KAFKA)
    assert len(confirmations(brokers.kafka.folder / "data")) == written
    for producer in (heir, settled, heir):
        if producer is settled:
            await producer.write(KAFKA, *homes)
        await producer.end(KAFKA, commit=True)
        await producer.write(KAFKA, *homes)
    assert complaints(brokers, said) == []
    if handover == "failover":
        await asyncio.to_thread(brokers.eosin.start)
        await cluster.wires[EOSIN].close()
        cluster.wires[EOSIN] = await Wire.open(brokers.address(EOSIN))
    await cluster.move(EOSIN)
    for producer in (settled, heir):
        await producer.end(EOSIN, commit=True)
    for partition in homes:
        assert await asyncio.to_thread(read_committed, brokers, partition, 6) == 6


@pytest.mark.full
async def test_both_load_and_compact_what_the_other_has_compacted(brokers: Brokers, cluster: Cluster) -> None:
    await cluster.move(EOSIN)
    said = len(brokers.kafka.log)
    homes = {await cluster.topic(node_id): node_id for node_id in (EOSIN, KAFKA)}
    settled = await confirmed(cluster, homes)
    opened = await Producer.made(cluster, EOSIN, homes, level=2)
    await opened.write(EOSIN, *homes)
    copies = brokers.eosin.data_dir, brokers.kafka.folder / "data"
    assert all(map(confirmations, copies))
    count = 1

    async def compacted(leader: int, delete_retention_ms: int, most: int) -> None:
        """Commit until neither copy has more confirmations than this."""
        nonlocal count
        await asyncio.to_thread(sweep, brokers, delete_retention_ms)
        deadline_ms = now_ms() + 120_000
        while max(map(len, left := [confirmations(each) for each in copies])) > most:
            told = f"of confirmations, each with its delete horizon, Eosin has {left[0]}, Apache Kafka {left[1]}"
            assert now_ms() < deadline_ms, told
            if not delete_retention_ms and max(map(max, filter(None, left))) > deadline_ms:
                # A copy was compacted before its broker knew of the change: Eosin's coordinator ends a transaction in
                # its log a while behind the answer, and so the segment of the confirmation. A horizon is never moved,
                # so that one goes when a later one has come.
                await confirmed(cluster, homes)
                count += 1
            await asyncio.sleep(0.25)  # a segment of its own for each
            await settled.write(leader, *homes)
            await settled.end(leader, commit=True)
            count += 1

    # The tombstone of many is left, with the time when it may go.
    for _ in range(3):
        await confirmed(cluster, homes)
    count += 3
    await compacted(EOSIN, 3_600_000, 1)
    assert [len(confirmations(each)) for each in copies] == [1, 1]
    await cluster.move(KAFKA)
    await opened.end(KAFKA, commit=True)
    await opened.write(KAFKA, *homes)
    count += 1
    # A later one has gone, too, and Eosin begins with a copy of what Apache Kafka has left.
    await cluster.move(EOSIN)
    await confirmed(cluster, homes)
    count += 1
    await compacted(EOSIN, 0, 0)
    await cluster.assign(KAFKA)
    await cluster.move(EOSIN)
    await opened.end(EOSIN, commit=True)
    await confirmed(cluster, homes)
    count += 2
    await cluster.move(KAFKA)
    await settled.write(KAFKA, *homes)
    await settled.end(KAFKA, commit=True)
    count += 1
    assert complaints(brokers, said) == []
    for partition in homes:
        assert await asyncio.to_thread(read_committed, brokers, partition, count) == count


def sweep(brokers: Brokers, delete_retention_ms: int) -> None:
    """Have the log of transactions compacted at once, and tombstones kept for so long."""
    changed = {**_SWEPT, "delete.retention.ms": str(delete_retention_ms)}
    ClusterTopics(brokers.kafka.address).alter(TRANSACTION_STATE_TOPIC, changed)
