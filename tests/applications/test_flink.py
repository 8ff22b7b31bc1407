"""Flink copies a topic exactly once though it is killed, whichever way its sink names its transactions."""

import subprocess
import time
from pathlib import Path

import pytest
from real_clients import flink
from scenario import Scenario
from toolchains import skipped_without
from waiting import HANG_S, wait_until

RECORDS = 200
COPIED_BY_THEN = 20
PAUSE_MS = 15


@pytest.mark.parametrize("naming", [pytest.param(flink.INCREMENTING, marks=pytest.mark.long), flink.POOLING])
def test_records_are_copied_once_though_the_job_is_killed(
    bootstrap: str, scenario: Scenario, tmp_path: Path, naming: str
) -> None:
    source, target = scenario.topic(), scenario.topic()
    feed = scenario.transactional()
    for first in range(0, RECORDS, 50):
        for commit in (False, True):
            feed.begin()
            for number in range(first, first + 50):
                feed.send(source, str(number if commit else -1).encode())
            feed.commit() if commit else feed.abort()
    with skipped_without():
        job = flink.Copier(tmp_path / "job", bootstrap, source, target, naming=naming, pause_ms=PAUSE_MS)
    reader, copied = scenario.reader(target), []

    def read() -> int:
        copied.extend(int(each.value or b"") for each in reader.read(50, timeout_s=0.2))
        assert job.is_running, job.log
        return len(copied)

    with job:
        wait_until(lambda: read() >= COPIED_BY_THEN)
    assert len(copied) < RECORDS, "it had nothing left to do"
    with job:
        wait_until(lambda: read() >= RECORDS)
        read()
    assert sorted(copied) == list(range(RECORDS)), job.log


def test_jobs_that_read_up_to_an_end_come_to_it(bootstrap: str, scenario: Scenario, tmp_path: Path) -> None:
    """Whatever the end is: no job waits for a record where there is a marker."""
    feed = scenario.transactional()

    def filled(*transactions: bool) -> str:
        """A topic with a transaction of two records for each, committed or not."""
        topic = scenario.topic()
        for number, commit in enumerate(transactions):
            feed.begin()
            for each in (1, 2):
                feed.send(topic, f"{number}.{each}".encode())
            feed.commit() if commit else feed.abort()
        return topic

    in_an_hour = str(round(time.time() * 1000) + 3_600_000)
    of_two, ends_aborted, aborted, empty = filled(True, True), filled(True, False), filled(False), filled()
    jobs = [
        (of_two, "latest", ["0.1", "0.2", "1.1", "1.2"]),
        (ends_aborted, "latest", ["0.1", "0.2"]),
        (aborted, "latest", []),
        (empty, "latest", []),
        (of_two, in_an_hour, ["0.1", "0.2", "1.1", "1.2"]),
        (aborted, in_an_hour, []),
        (of_two, "1", []),
    ]
    with skipped_without():
        command = [*flink.command(tmp_path), "Bounded", bootstrap]
    for topic, end, _ in jobs:
        command += [topic, end]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [f"{topic} {each}" for topic, _, values in jobs for each in (*values, "ended")]
