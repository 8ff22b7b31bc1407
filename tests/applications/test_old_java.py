"""Java clients from before 2.4, back to the first one that had transactions, copy a partition exactly once."""

import subprocess

import pytest
from real_clients import java
from real_clients.base import read_all
from scenario import Scenario
from toolchains import skipped_without
from waiting import HANG_S

OLDEST = "0.11.0.3"
"""Also what the program is compiled against."""
SOURCES = java.SOURCES.parent / "old-java"
SIZES = (10, 6)


@pytest.mark.parametrize("release", [OLDEST, "1.1.1", "2.0.1"])
def test_an_old_java_client_commits_each_record_once_though_it_aborts_each_transaction_before(
    release: str, bootstrap: str, scenario: Scenario
) -> None:
    source, target = scenario.topic(), scenario.topic()
    written = [b"%d" % number for number in range(sum(SIZES))]
    feed = scenario.producer()
    for value in written:
        feed.send(source, value)
    feed.flush()
    with skipped_without():
        command = java.command(java.classes(SOURCES, OLDEST), f"{java.jars(SOURCES, release)}/*")
    group = scenario.name("group")
    arguments = [bootstrap, source, target, group, scenario.name("copier"), *map(str, SIZES)]
    done = subprocess.run(
        [*command, "OldCopier", *arguments], capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert (done.returncode, done.stdout.split("\n")[:-1]) == (0, ["committed 10", "committed 6"]), done.stderr
    feed.send(target, b"behind the copy")
    feed.flush()
    reader = scenario.reader(target)
    assert [each.value for each in read_all(reader, len(written) + 1)] == [*written, b"behind the copy"]
