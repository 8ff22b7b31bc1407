"""Clients of old copy a partition exactly once: Java from before 2.4, back to the first release that had transactions,
and sarama 1.24, whose programs send the requests of a transaction themselves."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from real_clients import java
from real_clients.base import read_all
from scenario import Scenario
from toolchains import build, fetch, made, skipped_without, tool
from waiting import HANG_S

OLDEST = "0.11.0.3"
"""Also what the program is compiled against."""
JAVA_SOURCES = java.SOURCES.parent / "old-java"
GO_SOURCES = java.SOURCES.parent / "old-go"
SIZES = (10, 6)


@pytest.mark.parametrize(
    "release", [OLDEST, *(pytest.param(each, marks=pytest.mark.long) for each in ("1.1.1", "2.0.1"))]
)
def test_an_old_java_client_commits_each_record_once_though_it_aborts_each_transaction_before(
    release: str, bootstrap: str, scenario: Scenario
) -> None:
    with skipped_without():
        command = java.command(java.classes(JAVA_SOURCES, OLDEST), f"{java.jars(JAVA_SOURCES, release)}/*")
    copies_each_record_once([*command, "OldCopier"], bootstrap, scenario)


@pytest.mark.long
def test_an_old_sarama_commits_each_record_once_though_it_aborts_each_transaction_before(
    bootstrap: str, scenario: Scenario
) -> None:
    with skipped_without():
        copier = sarama_copier()
    copies_each_record_once([str(copier)], bootstrap, scenario)


def sarama_copier() -> Path:
    """The program, compiled. Raises NotHere."""
    go = tool("go", "sarama")
    sources = sorted(GO_SOURCES.iterdir())

    def compile_into(folder: Path) -> None:
        work = folder / "source"
        work.mkdir()
        for source in sources:
            shutil.copy(source, work)
        fetch([go, "mod", "download"], "sarama", cwd=work)
        build([go, "build", "-o", str(folder / "copier"), "."], "the copier with sarama", cwd=work)

    return made("old-sarama", sources, compile_into) / "copier"


def copies_each_record_once(command: Sequence[str], bootstrap: str, scenario: Scenario) -> None:
    """A program that copies in transactions of these sizes, each of which it aborts first."""
    source, target = scenario.topic(), scenario.topic()
    written = [b"%d" % number for number in range(sum(SIZES))]
    feed = scenario.producer()
    for value in written:
        feed.send(source, value)
    feed.flush()
    arguments = [bootstrap, source, target, scenario.name("group"), scenario.name("copier"), *map(str, SIZES)]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=HANG_S, check=False)
    assert (done.returncode, done.stdout.split("\n")[:-1]) == (0, ["committed 10", "committed 6"]), done.stderr
    feed.send(target, b"behind the copy")
    feed.flush()
    reader = scenario.reader(target)
    assert [each.value for each in read_all(reader, len(written) + 1)] == [*written, b"behind the copy"]
