"""Causes as an unmodified producer meets them: what `eosin explain` says afterwards (console.md 2.3)."""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from broker_process import BrokerProcess
from confluent_kafka import KafkaException, Producer
from wire import unique

pytestmark = pytest.mark.slow
UNUSED_MS = 1500


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with observed(tmp_path_factory.mktemp("causes"), {}) as process:
        yield process


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[BrokerProcess]:
    """Forgets ids so soon that no other test should wait for anything there."""
    settings = {
        "transactional.id.expiration.ms": str(UNUSED_MS),
        "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
    }
    with observed(tmp_path, settings) as process:
        yield process


@contextmanager
def observed(folder: Path, settings: dict[str, str]) -> Iterator[BrokerProcess]:
    process = BrokerProcess(folder / "data", settings=settings)
    process.options = ("--http", "0")
    with process:
        yield process


def http_of(broker: BrokerProcess) -> str:
    return broker.ready_line.rpartition("http ")[2].rstrip(")\n")


def eosin(broker: BrokerProcess, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "eosin.broker", *arguments, "--bootstrap-server", broker.address],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def explained(broker: BrokerProcess, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(eosin(broker, "explain", name, "--json", "--http", http_of(broker)))
    return found


def producing(broker: BrokerProcess, name: str, topic: str) -> Producer:
    """A producer with an open transaction."""
    made = Producer({"bootstrap.servers": broker.address, "transactional.id": name, "log_level": 0})
    made.init_transactions(20)
    made.begin_transaction()
    made.produce(topic, b"x", partition=0)
    made.flush(20)
    return made


def fenced(broker: BrokerProcess, cause: str) -> float:
    with urllib.request.urlopen(f"http://{http_of(broker)}/metrics", timeout=10) as answer:
        (line,) = [each for each in answer.read().decode().splitlines() if f'fenced_total{{cause="{cause}"}}' in each]
    return float(line.split()[-1])


def test_an_id_that_was_forgotten_is_no_riddle_to_its_producer(forgetful: BrokerProcess) -> None:
    name, topic = unique("seldom"), unique("topic")
    producer = producing(forgetful, name, topic)
    producer.commit_transaction(20)
    deadline = time.monotonic() + 30
    while "was forgotten" not in explained(forgetful, name)["sentence"]:
        assert time.monotonic() < deadline, forgetful.log
        time.sleep(0.3)
    producer.begin_transaction()
    producer.produce(topic, b"late", partition=0)
    with pytest.raises(KafkaException):
        producer.commit_transaction(20)
    found = explained(forgetful, name)
    assert found["cause"] == "expired", found
    assert "unused for so long that it was forgotten" in found["sentence"]
    time.sleep(1.1)
    assert fenced(forgetful, "expired") >= 1


def test_what_an_operator_has_ended_names_the_operator(broker: BrokerProcess) -> None:
    name, topic = unique("orders"), unique("topic")
    producer = producing(broker, name, topic)
    eosin(broker, "transactions", "abort", topic, "0", "--start-offset", "0")
    found = explained(broker, name)
    told = f"{found['sentence']} {found['evidence']} {found['timeline']}"
    assert "an operator" in told, found
    assert f"{topic}-0" in told, found
    del producer


def test_a_producer_that_an_operator_has_fenced_names_the_operator_as_the_cause(broker: BrokerProcess) -> None:
    name, topic = unique("orders"), unique("topic")
    producer = producing(broker, name, topic)
    eosin(broker, "transactions", "force-terminate", name)
    with pytest.raises(KafkaException):
        producer.commit_transaction(20)
    found = explained(broker, name)
    assert found["cause"] == "operator", found
    assert "because an operator ended its transaction at" in found["sentence"]
    assert "by eosin-cli" in found["sentence"]
    time.sleep(1.1)
    assert fenced(broker, "operator") >= 1


def test_a_commit_after_an_operators_abort_says_what_is_missing_in_it(broker: BrokerProcess) -> None:
    name, topic = unique("orders"), unique("topic")
    producer = producing(broker, name, topic)
    eosin(broker, "transactions", "abort", topic, "0", "--start-offset", "0")
    producer.produce(topic, b"later", partition=0)
    producer.commit_transaction(20)
    found = explained(broker, name)
    assert "was committed" in found["sentence"], found
    assert any("what was written there before is not committed with it" in each for each in found["evidence"]), found


def test_explain_finds_a_listener_on_any_free_port_by_itself(broker: BrokerProcess) -> None:
    name = unique("orders")
    producer = producing(broker, name, unique("topic"))
    assert "the broker's flight recorder" in json.loads(eosin(broker, "explain", name, "--json"))["sources"]
    del producer
