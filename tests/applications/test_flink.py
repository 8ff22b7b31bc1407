"""Flink copies a topic exactly once though it is killed, whichever way its sink names its transactions."""

from pathlib import Path

import pytest
from real_clients import flink
from scenario import Scenario
from toolchains import skipped_without
from waiting import wait_until

RECORDS = 200
COPIED_BY_THEN = 20
PAUSE_MS = 15


@pytest.mark.parametrize("naming", [pytest.param(flink.INCREMENTING, marks=pytest.mark.full), flink.POOLING])
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
