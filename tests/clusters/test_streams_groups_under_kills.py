"""Kafka Streams with group.protocol=streams (KIP-1071) counts words, exactly once, over three brokers of both kinds,
while the coordinator of its group is killed again and again: each count is said once and in order (cluster.md 6.9)."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

import pytest
from crashed_cluster import Copied, CrashedCluster, program_of
from real_clients import confluent, streams
from scenario import Scenario
from toolchains import skipped_without
from waiting import wait_until

pytestmark = [pytest.mark.full, pytest.mark.long, pytest.mark.timeout(1800)]

PAUSE_MS: Final = 20
LINES: Final = [f"{'ab'[number % 2]} word {number % 7}" for number in range(1800)]
WORDS: Final = Counter(word for line in LINES for word in line.split())
KILLS: Final = 4
THEIRS: Final = 3
SETTINGS: Final = {
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.initial.rebalance.delay.ms": "500",
}
# A member of a streams group leaves its session to the broker.
BY_STREAMS_GROUP: Final = ("group.protocol=streams", "session.timeout.ms=", "processing.guarantee=exactly_once_v2")


def test_each_count_is_said_once_and_in_order_though_the_coordinator_is_killed(tmp_path: Path) -> None:
    with skipped_without():
        cluster = CrashedCluster(tmp_path / "cluster", form="mixed", durability="fsync", settings=SETTINGS)
    with cluster:
        scenario = Scenario(confluent.CLIENT, cluster.bootstrap)
        source, target = scenario.topic(2), scenario.topic()
        feed = scenario.producer()
        for number, line in enumerate(LINES):
            feed.send(source, line.encode(), partition=number % 2)
        feed.flush()
        name = f"count-{source}"
        where = (name, cluster.bootstrap, source, target)
        with skipped_without():
            application = streams.Application(
                streams.WITH_STREAMS_GROUPS, streams.WORD_COUNT, where, PAUSE_MS, tmp_path / "count", BY_STREAMS_GROUP
            )
        reader = scenario.reader(target)
        counts: defaultdict[str, list[int]] = defaultdict(list)

        def read() -> int:
            for each in reader.read(50, timeout_s=0.3):
                counts[(each.key or b"").decode()].append(int(each.value or b""))
            return sum(map(len, counts.values()))

        total = sum(WORDS.values())
        killed: list[str] = []
        with application:
            for kill in range(KILLS):
                wait_until(lambda kill=kill: read() > total * kill // (KILLS + 1), lambda: application.log[-3000:])
                # Apache Kafka's, whatever it leads, and then the coordinator; that one is of Eosin, if not both times.
                victim = cluster.brokers[THEIRS if kill % 2 == 0 else _coordinator(cluster, name)]
                killed.append(program_of(victim))
                victim.kill()
                seen = read()
                assert seen < total, "it had nothing left to do"
                wait_until(lambda seen=seen: read() > seen, lambda: application.log[-3000:])
                victim.start()
                cluster.wait_in_sync(source, target, "__consumer_offsets", "__transaction_state")
            wait_until(lambda: read() >= total, lambda: application.log[-3000:])
            assert read() == total
        assert {word: list(range(1, count + 1)) for word, count in WORDS.items()} == counts, application.log
        assert "ERROR" not in application.states, application.log
        assert len(set(killed)) == 2
        scenario.close()


def _coordinator(cluster: CrashedCluster, group: str) -> int:
    """The broker that coordinates the group."""
    found: list[int] = []

    def is_told() -> bool:
        holder = cluster.holder("group coordinator", Copied("", 0, group))
        found.extend([] if holder is None else [holder])
        return bool(found)

    wait_until(is_told)
    return found[0]
