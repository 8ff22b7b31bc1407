"""Kafka Connect writes lines of a file, and MirrorMaker 2 copies a topic, exactly once though the worker is killed."""

from collections.abc import Iterable
from pathlib import Path

from real_clients import connect
from real_clients.base import Consumer, Producer
from scenario import Scenario
from toolchains import skipped_without
from waiting import wait_until

NUMBERS = range(150)
STARTS, KILLED, LEFT = NUMBERS[:50], NUMBERS[50:100], NUMBERS[100:]
"""What is there when the worker starts, what comes until it is killed, what comes afterwards."""


class Feed:
    """The same numbers into a file and, with as many that are aborted, into a topic."""

    def __init__(self, lines: Path, producer: Producer, topic: str) -> None:
        self._lines, self._producer, self._topic = lines, producer, topic
        lines.touch()

    def write(self, numbers: Iterable[int]) -> None:
        with self._lines.open("a") as lines:
            lines.writelines(f"{number}\n" for number in numbers)
        for commit in (False, True):
            self._producer.begin()
            for number in numbers:
                self._producer.send(self._topic, str(number if commit else -1).encode())
            self._producer.commit() if commit else self._producer.abort()


class Copied:
    """What is committed in a topic."""

    def __init__(self, reader: Consumer) -> None:
        self._reader = reader
        self.numbers: list[int] = []

    def read(self) -> int:
        """How many there were up to now, or soon."""
        self.numbers += [int(each.value or b"") for each in self._reader.read(50, timeout_s=0.2)]
        return len(self.numbers)


def test_lines_and_records_arrive_once_though_the_worker_is_killed(
    bootstrap: str, scenario: Scenario, tmp_path: Path
) -> None:
    source, target = scenario.topic(), scenario.topic()
    mirrored = f"here.{source}"
    scenario.admin.create_topic(mirrored, 1, {})
    feed = Feed(tmp_path / "lines", scenario.transactional(), source)
    # A transaction is written until its interval is over: one is open when the worker is killed.
    interval = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "400"}
    clusters = {
        "source.cluster.alias": "here",
        "target.cluster.alias": "there",
        "source.cluster.bootstrap.servers": bootstrap,
        "target.cluster.bootstrap.servers": bootstrap,
    }
    with skipped_without():
        worker = connect.Worker(bootstrap, f"connect-{source}", {}, tmp_path / "worker")
    copied = [Copied(scenario.reader(topic)) for topic in (target, mirrored)]

    def least() -> int:
        return min(each.read() for each in copied)

    feed.write(STARTS)
    with worker:
        file = {**connect.FILE, **interval, "file": str(tmp_path / "lines"), "topic": target}
        wait_until(lambda: worker.put("file", file), every_s=0.3)
        wait_until(lambda: worker.put("mirror", {**connect.MIRROR, **interval, **clusters, "topics": source}))
        wait_until(lambda: least() >= len(STARTS))
        for number in KILLED:
            feed.write([number])
        worker.kill()
        assert least() < len(STARTS) + len(KILLED), "it had nothing left to do"
        feed.write(LEFT)
        worker.start()
        wait_until(lambda: least() >= len(NUMBERS))
        least()
    for each in copied:
        assert sorted(each.numbers) == list(NUMBERS), worker.log
