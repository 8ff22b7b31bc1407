"""Kafka Streams counts words with exactly_once_v2, and kill -9 of the application changes no count."""

from collections import Counter, defaultdict
from pathlib import Path

import pytest
from real_clients import streams
from real_clients.base import Consumer
from scenario import Scenario
from toolchains import skipped_without
from waiting import wait_until

pytestmark = pytest.mark.timeout(400)

PAUSE_MS = 40
LINES = [f"{'ab'[number % 2]} word {number % 7}" for number in range(240)]
WORDS = Counter(word for line in LINES for word in line.split())
KILLED_AFTER = 90
"""Words whose counts were committed by then, of three for each line."""


class Counts:
    """What the target has said of each word, in order."""

    def __init__(self, reader: Consumer) -> None:
        self._reader = reader
        self.of: defaultdict[str, list[int]] = defaultdict(list)

    def read(self) -> int:
        """How many counts there were up to now, or soon."""
        for each in self._reader.read(20, timeout_s=0.3):
            assert each.key is not None
            assert each.value is not None
            self.of[each.key.decode()].append(int(each.value))
        return sum(map(len, self.of.values()))


def test_each_count_is_said_once_and_in_order_though_the_application_is_killed(
    bootstrap: str, scenario: Scenario, tmp_path: Path
) -> None:
    source, target = scenario.topic(2), scenario.topic()
    feed = scenario.producer()
    for number, line in enumerate(LINES):
        feed.send(source, line.encode(), partition=number % 2)
    feed.flush()
    where = (f"count-{source}", bootstrap, source, target)
    with skipped_without():
        first, second = (
            streams.Application(streams.NEWEST, streams.WORD_COUNT, where, PAUSE_MS, tmp_path / name)
            for name in ("first", "second")
        )
    counts = Counts(scenario.reader(target))
    with first:
        wait_until(lambda: counts.read() > KILLED_AFTER)
        first.kill()
    killed_at = counts.read()
    assert killed_at < sum(WORDS.values()), "it had nothing left to do"
    with second:
        wait_until(lambda: counts.read() >= sum(WORDS.values()))
        assert counts.read() == sum(WORDS.values())
    assert {word: list(range(1, count + 1)) for word, count in WORDS.items()} == counts.of, second.log
