"""Causes as an unmodified producer meets them: what `eosin explain` says afterwards (console.md 2.3)."""

import asyncio
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from broker_process import BrokerProcess
from confluent_kafka import KafkaException, Producer
from observed_broker import ORDERS_0, observed_broker
from waiting import HANG_S, wait_until
from wire import unique
from wire_producer import RawProducer

from eosin.broker import hanging_transactions
from eosin.coordinator.transactions.log.encoder import encode_batch
from eosin.coordinator.transactions.rules.state import LAST_CLIENT_EPOCH, Txn
from eosin.node.node import Node
from eosin.protocol.errors import ErrorCode
from eosin.settings.broker import BrokerConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.log_results import Appended, AppendOrigin

pytestmark = [pytest.mark.process, pytest.mark.slow]
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


def eosin(broker: BrokerProcess, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "eosin.cli", *arguments, "--bootstrap-server", broker.address],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def explained(broker: BrokerProcess, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(eosin(broker, "explain", name, "--json", "--http", broker.http_address))
    return found


def producing(broker: BrokerProcess, name: str, topic: str) -> Producer:
    """A producer with an open transaction."""
    made = Producer({"bootstrap.servers": broker.address, "transactional.id": name, "log_level": 0})
    made.init_transactions(HANG_S)
    made.begin_transaction()
    made.produce(topic, b"x", partition=0)
    made.flush(HANG_S)
    return made


def fenced(broker: BrokerProcess, cause: str) -> float:
    with urllib.request.urlopen(f"http://{broker.http_address}/metrics", timeout=HANG_S) as answer:
        lines = [each for each in answer.read().decode().splitlines() if f'fenced_total{{cause="{cause}"}}' in each]
    return sum(float(line.split()[-1]) for line in lines)


def test_an_id_that_was_forgotten_is_no_riddle_to_its_producer(forgetful: BrokerProcess) -> None:
    name, topic = unique("seldom"), unique("topic")
    producer = producing(forgetful, name, topic)
    producer.commit_transaction(HANG_S)
    wait_until(lambda: "was forgotten" in explained(forgetful, name)["sentence"], lambda: forgetful.log, every_s=0.3)
    producer.begin_transaction()
    producer.produce(topic, b"late", partition=0)
    with pytest.raises(KafkaException):
        producer.commit_transaction(HANG_S)
    found = explained(forgetful, name)
    assert found["cause"] == "expired", found
    assert "unused for so long that it was forgotten" in found["sentence"]
    wait_until(lambda: fenced(forgetful, "expired") >= 1, every_s=0.3)


def test_a_transaction_that_an_operator_ended_names_the_operator(broker: BrokerProcess) -> None:
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
        producer.commit_transaction(HANG_S)
    found = explained(broker, name)
    assert found["cause"] == "operator", found
    assert "because an operator ended its transaction at" in found["sentence"]
    assert "by eosin-cli" in found["sentence"]
    wait_until(lambda: fenced(broker, "operator") >= 1, every_s=0.3)


def test_a_commit_after_an_operators_abort_says_what_is_missing_in_it(broker: BrokerProcess) -> None:
    name, topic = unique("orders"), unique("topic")
    producer = producing(broker, name, topic)
    eosin(broker, "transactions", "abort", topic, "0", "--start-offset", "0")
    producer.produce(topic, b"later", partition=0)
    producer.commit_transaction(HANG_S)
    found = explained(broker, name)
    assert "was committed" in found["sentence"], found
    assert any("what was written there before is not committed with it" in each for each in found["evidence"]), found


def test_explain_finds_a_listener_on_any_free_port_by_itself(broker: BrokerProcess) -> None:
    name = unique("orders")
    producer = producing(broker, name, unique("topic"))
    assert "the broker's flight recorder" in json.loads(eosin(broker, "explain", name, "--json"))["sources"]
    del producer


FEW_PARTITIONS = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}


async def nearly_exhausted(directory: Path, name: str, producer_id: int) -> None:
    """A data directory whose state log says that one epoch of the producer of `name` is left."""
    config = BrokerConfig(
        listeners=(), log_dirs=(str(directory),), transaction_state_log_num_partitions=1, offsets_topic_num_partitions=1
    )
    server = await Node.alone(config).start()
    log = server.services.partitions.transaction_state_logs.log(0)
    assert isinstance(log, PartitionLog)
    now_ms = server.clock.now_ms()
    last = Txn(name, producer_id, producer_epoch=LAST_CLIENT_EPOCH - 1, timeout_ms=60_000, updated_ms=now_ms)
    batch = encode_batch([last], now_ms=now_ms, transaction_version=2)
    assert isinstance(log.append(batch, now_ms=now_ms, origin=AppendOrigin.COORDINATOR), Appended)
    await server.shutdown()


def test_a_producer_whose_epochs_were_used_up_is_told_so(tmp_path: Path) -> None:
    name, topic, producer_id = unique("orders"), unique("topic"), 700
    asyncio.run(nearly_exhausted(tmp_path / "data", name, producer_id))
    with observed(tmp_path, FEW_PARTITIONS) as broker:
        old = producing(broker, name, topic)  # with the last epoch
        producing(broker, name, topic).commit_transaction(HANG_S)  # for which the id gets another producer id
        broker.stop()
        broker.start()  # who took over when is forgotten; the log knows both producer ids
        with pytest.raises(KafkaException):
            old.commit_transaction(HANG_S)
        found = explained(broker, name)
    assert found["cause"] == "exhausted", found
    assert f"the epochs of producer {producer_id} were used up, and the id has a new one" in found["sentence"]


async def test_a_producer_whose_late_batch_hung_is_told_that_it_was_healed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with observed_broker(transaction_partition_verification_enable=False) as broker:
        settings = {"bootstrap.servers": broker.address, "transactional.id": "orders", "log_level": 0}
        producer = Producer(settings)

        def commit_one() -> None:
            producer.init_transactions(HANG_S)
            producer.begin_transaction()
            producer.produce("orders", b"x", partition=0)
            producer.commit_transaction(HANG_S)

        await asyncio.to_thread(commit_one)
        services = broker.server.services
        txn = services.transactions.txn("orders")
        assert txn is not None
        # A batch of this client that the network kept until its transaction was over.
        late = RawProducer(await broker.wire(), "orders", *txn.client_pair, level=1)
        log = services.partitions.get(ORDERS_0)
        assert isinstance(log, PartitionLog)
        entry = log.producer_state.get(late.producer_id)
        if entry is not None and entry.producer_epoch == late.producer_epoch:
            late.sequences[ORDERS_0] = entry.last_sequence + 1
        assert (await late.send(ORDERS_0)).error_code == ErrorCode.NONE
        monkeypatch.setattr(hanging_transactions, "GRACE_MS", -services.config.transaction_max_timeout_ms)
        await services.clock.sleep(5)
        assert await hanging_transactions.HangingTransactions(services).round() == 1
        found = await broker.explain("orders")
        assert found.cause == "healed"
        assert found.sentence.startswith("a hanging transaction of orders was aborted at")
        assert found.sentence.endswith("in orders-0: no coordinator knew of it.")
