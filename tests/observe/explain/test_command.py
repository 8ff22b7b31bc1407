"""`eosin explain` as a command: its options, exit codes, a stopped directory, real clients, Apache Kafka
(console.md 3).

The tests of Apache Kafka prove that every sentence of another broker comes from Kafka's APIs alone.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache_kafka import ApacheKafka
from broker_process import BrokerProcess
from cluster_console import console_of
from confluent_kafka import Consumer, KafkaException, Producer
from toolchains import skipped_without
from waiting import HANG_S, wait_until

from eosin.cli import explain
from eosin.client.http import HttpError, get

pytestmark = pytest.mark.process


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "eosin.cli", "explain", *arguments],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("explain") / "data")
    process.options = ("--http", "0")
    with process:
        yield process


def producer(address: str, transactional_id: str, client_id: str) -> Producer:
    made = Producer(
        {"bootstrap.servers": address, "transactional.id": transactional_id, "client.id": client_id, "log_level": 0}
    )
    made.init_transactions(HANG_S)
    return made


def fenced(address: str, transactional_id: str) -> Producer:
    """A producer of librdkafka's is fenced by another, which is returned, while its transaction is open."""
    old = producer(address, transactional_id, "orders-1")
    old.begin_transaction()
    old.produce("orders", b"x", partition=0)
    assert old.flush(HANG_S) == 0
    new = producer(address, transactional_id, "orders-2")
    with pytest.raises(KafkaException):
        old.commit_transaction(HANG_S)
    return new


@pytest.mark.slow
def test_a_fenced_client_is_explained_while_the_broker_runs_and_after_it_has_stopped(broker: BrokerProcess) -> None:
    new = fenced(broker.address, "invoicing")
    options = ("--bootstrap-server", broker.address, "--http", broker.http_address)
    done = run("invoicing", *options, "--timeline")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("invoicing was fenced at ")
    assert "a new instance, orders-2 (confluent-kafka-python " in done.stdout
    assert "epoch_raised" in done.stdout
    found = json.loads(run("invoicing", *options, "--json").stdout)
    assert (found["cause"], found["subject"]) == ("successor", "invoicing")
    assert run("nobody", *options).returncode == 1
    new.begin_transaction()
    new.produce("orders", b"x", partition=0)
    new.commit_transaction(HANG_S)
    wrong = run(*options)  # which finds the name, though the new instance has committed
    (told,) = wrong.stdout.splitlines()
    assert (wrong.returncode, wrong.stderr) == (1, "")
    assert told.startswith("invoicing was fenced at ")
    assert told.endswith(": eosin explain invoicing")
    first, second, *_ = run("invoicing", *options).stdout.splitlines()
    assert first.partition(";")[0] == done.stdout.partition(";")[0]
    assert first.endswith("stop it, or give it a transactional.id of its own if both shall run.")
    assert "its last transaction by orders-2 (confluent-kafka-python " in second
    in_use = run("invoicing", "--data-dir", str(broker.data_dir))
    assert (in_use.returncode, "a broker is at work" in in_use.stderr) == (2, True)

    with subprocess.Popen(
        [sys.executable, "-m", "eosin.cli", "explain", "followed", *options, "--follow"],
        stdout=subprocess.PIPE,
        text=True,
    ) as follow:
        assert follow.stdout is not None
        try:
            assert follow.stdout.readline().startswith("no coordinator knows followed")
            fresh = producer(broker.address, "followed", "orders-4")
            assert follow.stdout.readline().startswith("followed has nothing open")
            fresh.begin_transaction()
            fresh.produce("orders", b"x", partition=0)
            fresh.flush(HANG_S)
            lines = (line for line in follow.stdout if not line.startswith("  ("))
            assert next(lines).startswith("followed has a transaction open")
        finally:
            follow.kill()

    broker.stop()
    stored = run("invoicing", "--data-dir", str(broker.data_dir), "--timeline")
    assert stored.returncode == 0, stored.stderr
    assert stored.stdout.partition(". ")[0] == done.stdout.partition(";")[0]
    assert "PrepareAbort, from the log" in stored.stdout
    assert run("nobody", "--data-dir", str(broker.data_dir)).returncode == 1


@pytest.mark.slow
def test_apache_kafka_is_explained_as_far_as_its_apis_tell(tmp_path: Path) -> None:
    with skipped_without():
        kafka = ApacheKafka(tmp_path / "kafka")
    with kafka:
        fenced(kafka.address, "invoicing")
        options = ("--bootstrap-server", kafka.address)
        done = run("invoicing", *options)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("invoicing has nothing open")
        assert "who did what, and why, is not known" in done.stdout
        late = producer(kafka.address, "late", "orders-3")
        late.begin_transaction()
        late.produce("orders", b"x", partition=0)
        late.flush(HANG_S)
        done = run("orders-0", *options)
        assert "the transaction of late (producer " in done.stdout
        assert "It will be aborted at" in done.stdout
        members = [reader(kafka.address, protocol) for protocol in ("classic", "consumer")]
        wrong = run(*options)
        assert (wrong.returncode, wrong.stdout.count("has committed nothing for 1 partition of its members")) == (1, 2)
        for protocol in ("classic", "consumer"):
            told = run(protocol, *options).stdout
            assert told.startswith(f"group {protocol}: Stable, 1 member, and nothing committed of 1 partition"), told
        with console_of(kafka.address) as console:
            tables = console.tables()
            held = tables["partitions"]["orders-0"]
            assert (held["held_by"], held["cause"]) == ("late", "open_transaction")
            assert (tables["transactions"]["late"]["state"], tables["broker"]["broker"]["trouble"]) == ("Ongoing", "")
            assert {name: row["uncommitted"] for name, row in tables["groups"].items()} == {"classic": 1, "consumer": 1}
            page = console.get("/api/v1/explain/transactions/late").json()
            assert page["text"].startswith("late has a transaction open since ")
            topic = console.get("/api/v1/topics/orders").json()
            assert "late" in {each["transactional_id"] for each in topic["producers"]}
        for member in members:
            member.close()
        late.commit_transaction(HANG_S)
        assert "no transaction is open" in run("orders-0", *options).stdout


def reader(address: str, protocol: str) -> Consumer:
    """A member of the group that is named as its protocol, with the partition of `orders`, that commits nothing."""
    member = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": protocol,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    member.subscribe(["orders"])
    wait_until(lambda: (member.poll(0.1), member.assignment())[1], "the member is assigned nothing")
    return member


@pytest.mark.parametrize(
    "arguments",
    [
        ("--timeline",),
        ("--as", "txn"),
        ("--data-dir", "/nowhere"),
        ("x", "--as", "planet"),
        ("x", "--timeout", "0"),
        ("x", "--http-token-file", "/nowhere/token"),
        ("x", "--data-dir", "/nowhere"),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused_in_one_sentence_with_exit_code_2(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = explain.main(arguments)
    except SystemExit as left:
        code = int(left.code or 0)
    told = capsys.readouterr().err
    assert code == 2
    assert told.count("\n") == 1
    assert told.startswith("eosin explain: ")


def test_a_broker_that_is_not_there_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain.main(["x", "--bootstrap-server", "127.0.0.1:1", "--timeout", "0.5"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://[", "http://127.0.0.1:1/x", "http://h:999999/"])
async def test_a_url_that_does_not_answer_is_one_sentence(url: str) -> None:
    with pytest.raises(HttpError):
        await get(url, timeout_ms=500)
