"""What danielqsj/kafka_exporter exports beside a broker, and what the broker exports itself: one replaces the other.

The exporter is a program that no package index has: `KAFKA_EXPORTER` names one that was built from its repository.
"""

import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from free_ports import free_port
from prometheus_client.parser import text_string_to_metric_families
from shell import Shell
from waiting import HANG_S, wait_until

pytestmark = pytest.mark.process

Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]
OF_NO_USE = {"kafka_exporter_build_info"}
PREFIXES = ("kafka_broker", "kafka_topic_partition", "kafka_consumergroup")
INTERNAL = ("__consumer_offsets", "__transaction_state")


@contextmanager
def exporter(broker: BrokerProcess, log: Path) -> Iterator[str]:
    """HOST:PORT of one that asks this broker."""
    program = os.environ.get("KAFKA_EXPORTER")
    if program is None:
        pytest.skip("KAFKA_EXPORTER names no kafka_exporter, and no package index has one")
    address = f"127.0.0.1:{free_port()}"
    with log.open("wb") as told:
        running = subprocess.Popen(
            [program, f"--kafka.server={broker.address}", f"--web.listen-address={address}"], stdout=told, stderr=told
        )
    try:
        yield address
    finally:
        running.terminate()
        running.wait(HANG_S)


def scraped(address: str) -> Samples:
    def answered() -> str | None:
        try:
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=HANG_S) as answer:
                return bytes(answer.read()).decode()
        except urllib.error.URLError:
            return None

    text = wait_until(answered, every_s=0.1)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("topic") not in INTERNAL
    }


@pytest.mark.slow
def test_a_kafka_exporter_tells_the_same_as_the_broker_itself(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    broker.options = ("--http", "0")
    with broker, exporter(broker, tmp_path / "exporter.log") as address, Shell(broker.address) as shell:
        topic = shell.topic(2)
        for partition in ("0", "1"):
            shell.ok("produce", topic, "--partition", partition, given=b"1\n2\n")
        shell.ok("produce", topic, "--partition", "0", "--transactional-id", "shop", "--batch", "2", given=b"1\n2\n3\n")
        shell.ok("groups", "reset-offsets", "readers", "--topic", topic, "--to-offset", "1", "--execute")
        with shell.start("produce", topic, "--partition", "0", "--transactional-id", "open") as writer:
            assert writer.stdin is not None
            writer.stdin.write(b"undecided\n")
            writer.stdin.flush()
            wait_until(lambda: "undecided" in shell.ok("consume", topic, "--isolation", "read_uncommitted").lines)
            theirs, ours = scraped(address), scraped(broker.http_address)
            writer.communicate(timeout=HANG_S)
    told = {each: value for each, value in theirs.items() if each[0].startswith(PREFIXES)}
    assert {name for name, _ in theirs if name.startswith("kafka_")} - {name for name, _ in told} == OF_NO_USE
    assert len(told) > 20
    assert {each: ours.get(each) for each in told} == told
