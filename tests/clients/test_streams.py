"""Kafka Streams with exactly_once_v2, whose transactions time out: in the middle of its records, and before its commit.

It heals by itself when it is told that it is fenced; the codes that make a plain producer go on would end it.
"""

from pathlib import Path

import pytest
from real_clients import confluent, streams
from real_clients.base import read_all
from scenario import Scenario
from toolchains import skipped_without

TIMEOUT_MS = 1500
RECORDS = [b"%d" % number for number in range(40)]


@pytest.mark.parametrize("release", [streams.NEWEST, streams.NEWEST_3])
def test_a_streams_application_survives_timed_out_transactions_and_copies_each_record_once(
    bootstrap: str, release: str, tmp_path: Path
) -> None:
    scenario = Scenario(confluent.CLIENT, bootstrap)
    source, target = scenario.topic(), scenario.topic()
    copied = [*RECORDS[:20], b"slow", *RECORDS[20:]]
    feed = scenario.producer()
    for value in (*copied, b"slow and dropped"):
        feed.send(source, value)
    feed.flush()
    with skipped_without():
        where = (f"copy-{source}", bootstrap, source, target)
        application = streams.Application(release, streams.SLOW_ONCE, where, TIMEOUT_MS, tmp_path)
    reader = scenario.reader(target)
    with application:
        read = read_all(reader, len(copied))
    assert [each.value for each in read] == copied, application.log
    assert application.states.count("REBALANCING") == 3, "it starts, and it loses its tasks twice"
    assert application.states[-1] == "RUNNING", application.log
    scenario.close()
