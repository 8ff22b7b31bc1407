"""The examples of the pages about clients run as they stand but for the address, and print what they promise."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from real_clients import confluent, franz_go, java, kafkajs, streams, tools
from refused import page
from scenario import Scenario
from toolchains import skipped_without
from waiting import HANG_S

PAGE = Path(__file__).resolve().parents[2] / "docs" / "clients.md"
PAGES = {"python": "python", "java": "java", "go": "franz-go", "js": "kafkajs"}
"""Languages of examples to pages in docs/clients/."""
DOCUMENTED = "127.0.0.1:9092"


def example(language: str, which: int = 0) -> str:
    """The first example in that language, or a later one."""
    found: str = re.findall(rf"```{language}\n(.*?)```", page(PAGES[language]), re.DOTALL)[which]
    assert DOCUMENTED in found
    return found


def printed(command: Sequence[str], **environment: str) -> str:
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("which", range(3), ids=["confluent-kafka", "kafka-python", "aiokafka"])
def test_each_example_of_python_writes_and_reads_a_transaction(tmp_path: Path, which: int) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        program = example("python", which).replace(DOCUMENTED, broker.address)
        assert printed([sys.executable, "-c", program]) == "b'one book'\n"


@pytest.mark.parametrize("release", [java.NEWEST, java.NEWEST_2_7])
def test_the_example_of_java_writes_and_reads_a_transaction(tmp_path: Path, release: str) -> None:
    with skipped_without():
        run = java.command(java.client_jars(release))
    with BrokerProcess(tmp_path / "data") as broker:
        source = tmp_path / "Orders.java"
        source.write_text(example("java").replace(DOCUMENTED, broker.address))
        assert printed([*run, str(source)]) == "one book\n"


def test_the_example_of_kafka_streams_goes_from_topic_to_topic(tmp_path: Path) -> None:
    with skipped_without():
        run = java.command(f"{java.jars(streams.SOURCES, streams.NEWEST)}/*")
    with BrokerProcess(tmp_path / "data") as broker:
        scenario = Scenario(confluent.CLIENT, broker.address)
        for topic in ("orders", "shouted"):
            scenario.admin.create_topic(topic)
        feed = scenario.producer()
        feed.send("orders", b"one book", key=b"42")
        feed.flush()
        source = tmp_path / "Shout.java"
        source.write_text(example("java", 1).replace(DOCUMENTED, broker.address))
        with subprocess.Popen([*run, str(source)]) as process:
            try:
                assert [each.value for each in scenario.reader("shouted").read(1)] == [b"ONE BOOK"]
            finally:
                process.terminate()
        scenario.close()


def test_the_example_of_franz_go_writes_and_reads_a_transaction(tmp_path: Path) -> None:
    # Compiled once, for whatever address it is told.
    program = example("go").replace(f'"{DOCUMENTED}"', "os.Args[1]").replace("import (", 'import (\n\t"os"', 1)
    with skipped_without():
        compiled = franz_go.compiled("franz-go-example", [program])
    with BrokerProcess(tmp_path / "data") as broker:
        assert printed([str(compiled), broker.address]) == "one book\n"


def test_the_example_of_kafkajs_writes_and_reads_a_transaction(tmp_path: Path) -> None:
    with skipped_without():
        node, packages = kafkajs.node(), kafkajs.installed() / "node_modules"
    with BrokerProcess(tmp_path / "data") as broker:
        program = example("js").replace(DOCUMENTED, broker.address)
        assert printed([node, "-e", program], NODE_PATH=str(packages)) == "one book\n"


def test_the_pages_name_the_releases_that_are_tested() -> None:
    overview = PAGE.read_text()
    assert f"| {java.NEWEST}, {java.NEWEST_3}, {java.NEWEST_2_7}, {java.OLDEST_HELPED} |" in overview
    assert f"kgo {franz_go.version()}," in overview
    assert f"| kafkajs | {kafkajs.version()} |" in overview
    assert (
        f"## Kafka Streams\n\n{streams.NEWEST} and {streams.NEWEST_3} in CI, and {streams.WITH_STREAMS_GROUPS} with"
        in page("java")
    )
    assert f"`tests/applications` runs those of {tools.release()}." in page("java")
