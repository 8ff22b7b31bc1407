"""Members of a consumer group (KIP-848), of Java's client and of librdkafka, copy a topic in transactions while brokers
of either kind are killed in turn: the copy has each record once (cluster.md 6.9, consumer-groups.md 14)."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Final

import confluent_kafka as ck
import consumer_copier
import pytest
from crashed_cluster import CrashedCluster
from joined_broker import JoinedBroker
from real_clients import confluent, java
from toolchains import skipped_without
from waiting import HANG_S, wait_until
from wire import unique

PARTITIONS: Final = 6
CLIENTS: Final = (confluent.CLIENT.name, java.CLIENT.name)
QUICK: Final = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
}
"""A member that begins anew has its partitions a heartbeat of the others later, and one that could not leave, since its
coordinator was killed, keeps them for a while only."""
ENVIRONMENT: Final = {"EOSIN_COPIER_STUCK_AFTER_S": "20"}
"""librdkafka may wait without end to add offsets when a coordinator is killed (docs/clients/python.md)."""


@contextmanager
def copying(bootstrap: str, source: str, target: str, log: Path, *, members: int) -> Iterator[None]:
    """So many members of one group copy meanwhile, each of another client than the one before."""
    group = unique("copiers")
    with log.open("ab") as said:
        running = [
            subprocess.Popen(
                [sys.executable, consumer_copier.__file__, client, bootstrap, source, target, group, f"{number}", "7"],
                stderr=said,
                env={**os.environ, **ENVIRONMENT},
            )
            for number, client in enumerate(islice(cycle(CLIENTS), members))
        ]
        try:
            yield
            assert [each.poll() for each in running] == [None] * len(running), log.read_text()[-3000:]
        finally:
            for each in running:
                each.terminate()
            for each in running:
                each.wait(HANG_S)


class Copy:
    """What a reader finds in the target."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        config = {"bootstrap.servers": bootstrap, "group.id": unique("reader"), "isolation.level": "read_committed"}
        self._consumer = ck.Consumer({**confluent.KEEP_BROKERS, **config, "log_level": 0})
        self._consumer.assign([ck.TopicPartition(topic, each, 0) for each in range(PARTITIONS)])
        self.values: Counter[bytes] = Counter()

    def has(self, count: int) -> bool:
        """True when there are so many records."""
        for message in self._consumer.consume(10_000, timeout=0.5):
            if message.error() is None:
                self.values[message.value() or b""] += 1
        return self.values.total() >= count

    def close(self) -> None:
        self._consumer.close()


def fill(bootstrap: str, topic: str, first: int, count: int) -> None:
    producer = confluent.CLIENT.producer(bootstrap)
    for number in range(first, first + count):
        producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
    producer.flush()


def kills(folder: Path, *, members: int, rounds: int, records: int) -> None:
    """In each round a broker is killed under members that copy, of one kind and then of the other."""
    with CrashedCluster(folder, form="mixed", durability="fsync", settings=QUICK) as cluster:
        bootstrap = cluster.bootstrap
        source, target = unique("source"), unique("target")
        admin = confluent.CLIENT.admin(bootstrap)
        for topic in (source, target):
            admin.create_topic(topic, PARTITIONS)
        copy = Copy(bootstrap, target)
        ours = [each for each in cluster.brokers.values() if isinstance(each, JoinedBroker)]
        theirs = [each for each in cluster.brokers.values() if not isinstance(each, JoinedBroker)]
        victims = chain.from_iterable(zip(cycle(ours), cycle(theirs), strict=False))
        log = folder / "copiers.log"
        with copying(bootstrap, source, target, log, members=members):
            for number, victim in enumerate(islice(victims, rounds)):
                fill(bootstrap, source, number * records, records)
                wait_until(lambda n=number: copy.has(n * records + records // 3), lambda: log.read_text()[-3000:])
                victim.kill()
                wait_until(lambda n=number: copy.has((n + 1) * records), lambda: log.read_text()[-3000:])
                if number < rounds - 1:
                    victim.start()
                    cluster.wait_in_sync(source, target, "__consumer_offsets", "__transaction_state")
        assert not copy.has(rounds * records + 1)
        copy.close()
        assert copy.values == Counter(b"%d" % number for number in range(rounds * records))


@pytest.mark.process
def test_each_record_is_copied_once_while_a_broker_of_each_kind_is_killed(tmp_path: Path) -> None:
    with skipped_without():
        java.CLIENT.start()
        kills(tmp_path, members=2, rounds=2, records=90)


@pytest.mark.full
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_each_record_is_copied_once_through_a_campaign_of_kills_of_alternating_kinds(tmp_path: Path) -> None:
    with skipped_without():
        java.CLIENT.start()
        kills(tmp_path, members=4, rounds=12, records=1500)
