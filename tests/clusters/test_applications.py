"""Kafka Streams over three brokers, one of which is killed: each count is said once and in order."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_clients import confluent, streams
from scenario import Scenario
from three_brokers import ThreeBrokers
from toolchains import skipped_without
from waiting import wait_until

from eosin.client.client import CoordinatorType

pytestmark = [pytest.mark.full, pytest.mark.long, pytest.mark.timeout(600)]

PAUSE_MS = 20
LINES = [f"{'ab'[number % 2]} word {number % 7}" for number in range(1200)]
WORDS = Counter(word for line in LINES for word in line.split())
KILLS = 2
"""The leader of the target, and then the coordinator of the application's group."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ThreeBrokers]:
    with skipped_without():
        made = ThreeBrokers(tmp_path, durability="fsync")
    with made:
        yield made


def test_each_count_is_said_once_and_in_order_though_brokers_are_killed(cluster: ThreeBrokers, tmp_path: Path) -> None:
    scenario = Scenario(confluent.CLIENT, cluster.address)
    source, target = scenario.topic(2), scenario.topic()
    feed = scenario.producer()
    for number, line in enumerate(LINES):
        feed.send(source, line.encode(), partition=number % 2)
    feed.flush()
    name = f"count-{source}"
    with skipped_without():
        where = (name, cluster.address, source, target)
        application = streams.Application(streams.NEWEST, streams.WORD_COUNT, where, PAUSE_MS, tmp_path / "count")
    reader = scenario.reader(target)
    counts: defaultdict[str, list[int]] = defaultdict(list)

    def read() -> int:
        for each in reader.read(50, timeout_s=0.3):
            counts[(each.key or b"").decode()].append(int(each.value or b""))
        return sum(map(len, counts.values()))

    total = sum(WORDS.values())
    with application:
        for kill in range(KILLS):
            wait_until(lambda kill=kill: read() > total * kill // (KILLS + 1))
            lost = cluster.leader(target, 0) if kill == 0 else cluster.coordinator(name, CoordinatorType.GROUP)
            cluster.nodes[lost].kill()
            seen = read()
            assert seen < total, "it had nothing left to do"
            wait_until(lambda seen=seen: read() > seen)
            cluster.restart(lost)
        wait_until(lambda: read() >= total)
        assert read() == total
    assert {word: list(range(1, count + 1)) for word, count in WORDS.items()} == counts, application.log
    assert "ERROR" not in application.states, application.log
    scenario.close()
