"""Java's share consumers read transactions from three brokers, of both kinds, that are killed in turn: each record of a
committed transaction comes at least once, none of an aborted one, and none again whose acknowledgement was answered
(share-state.md, share-partitions.md 3, 4)."""

from collections.abc import Callable, Iterator
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaException, Producer
from crashed_cluster import CrashedCluster
from joined_broker import JoinedBroker
from kraft_node import KafkaBroker
from real_clients import confluent, share
from real_clients.share import ShareMember
from toolchains import skipped_without
from waiting import HANG_S, wait_until
from wire import unique

from eosin.cli.__main__ import main

pytestmark = [pytest.mark.full, pytest.mark.long, pytest.mark.timeout(1800)]

PARTITIONS: Final = 3
MEMBERS: Final = 2
RECORDS: Final = 300
"""Of each round; each third is of a transaction that is aborted."""
QUIET_POLLS: Final = 10
SETTINGS: Final = {
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.session.timeout.ms": "6000",
    "group.share.min.session.timeout.ms": "6000",
    "group.share.record.lock.duration.ms": "15000",
    "transaction.max.timeout.ms": "60000",
}


class Readers:
    """The members of one group, and what each record has gone through."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        launched = share.LAUNCHED.get()
        explicit = {"share_acknowledgement_mode": "explicit"}
        self.members = [ShareMember.opened(launched, bootstrap, group, [topic], **explicit) for _ in range(MEMBERS)]
        self.delivered: set[str] = set()
        self.done: set[str] = set()
        """Acknowledged, and told so."""

    def poll(self) -> int:
        """Everybody polls once, and accepts what it was given. Returns the number of records."""
        count = 0
        for member in self.members:
            found = member.poll()
            again = {each.value for each in found} & self.done
            assert not again, f"acknowledged, and delivered again: {sorted(again)[:5]} of {len(again)}"
            self.delivered.update(each.value for each in found)
            count += len(found)
            for each in found:
                member.acknowledge(each, "ACCEPT")
            errors = member.commit() if found else {}
            self.done.update(each.value for each in found if errors.get(f"{each.topic}-{each.partition}", "?") is None)
        return count

    def poll_until(self, true: Callable[[], bool]) -> None:
        """Poll until this is so."""
        wait_until(lambda: self.poll() >= 0 and true(), lambda: (len(self.delivered), len(self.done)))

    def close(self) -> None:
        for member in self.members:
            member.close()


class Writer:
    """Writes transactions, one after the other, each third of which it aborts."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        config = {"bootstrap.servers": bootstrap, "transactional.id": unique("tx"), "transaction.timeout.ms": 60_000}
        self._producer = Producer({**confluent.KEEP_BROKERS, **config})
        self._producer.init_transactions(HANG_S)
        self._topic = topic
        self._number = 0
        self.committed: set[str] = set()

    def write(self, count: int) -> None:
        for turn in range(3):
            kind = "aborted" if turn == 1 else "committed"
            self._producer.begin_transaction()
            values = [f"{kind}-{self._number + each}" for each in range(count // 3)]
            for each in values:
                self._producer.produce(self._topic, each, partition=self._number % PARTITIONS)
                self._number += 1
            self._end(commit=turn != 1)
            if turn != 1:
                self.committed.update(values)

    def _end(self, *, commit: bool) -> None:
        while True:
            try:
                if commit:
                    self._producer.commit_transaction(HANG_S)
                else:
                    self._producer.abort_transaction(HANG_S)
            except KafkaException as refused:
                if not refused.args[0].retriable():
                    raise
            else:
                return


def victims(cluster: CrashedCluster) -> Iterator[JoinedBroker | KafkaBroker]:
    """Brokers of one kind and of the other in turn."""
    ours = [each for each in cluster.brokers.values() if isinstance(each, JoinedBroker)]
    theirs = [each for each in cluster.brokers.values() if not isinstance(each, JoinedBroker)]
    return chain.from_iterable(zip(cycle(ours), cycle(theirs), strict=False))


@pytest.mark.parametrize("rounds", [6])
def test_committed_records_come_and_acknowledged_ones_do_not_come_again(tmp_path: Path, rounds: int) -> None:
    with skipped_without():
        share.LAUNCHED.get()
        cluster = CrashedCluster(tmp_path, form="mixed", durability="fsync", settings=SETTINGS)
    with cluster:
        topic, group = unique("jobs"), unique("workers")
        confluent.CLIENT.admin(cluster.bootstrap).create_topic(topic, PARTITIONS)
        settings = ("--set", "share.auto.offset.reset=earliest", "--set", "share.isolation.level=read_committed")
        where = ("--bootstrap-server", cluster.bootstrap)
        assert main(["configs", "alter", "--group", group, *settings, *where]) == 0
        readers, writer = Readers(cluster.bootstrap, topic, group), Writer(cluster.bootstrap, topic)
        for victim in islice(victims(cluster), rounds):
            writer.write(RECORDS)
            readers.poll_until(lambda: len(readers.delivered) > len(writer.committed) - RECORDS // 2)
            victim.kill()
            readers.poll_until(lambda: readers.delivered >= writer.committed)
            victim.start()
            cluster.wait_in_sync(topic, "__consumer_offsets", "__share_group_state", "__transaction_state")
        quiet = 0
        while quiet < QUIET_POLLS:
            quiet = 0 if readers.poll() else quiet + 1
        assert readers.delivered == writer.committed
        readers.close()
