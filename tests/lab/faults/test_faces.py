"""`broker.faults` as a test has it: in a thread, for asyncio, in another process, by pytest; and with a real client."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import HANG_S

from eosin.client.client import Client
from eosin.client.errors import ClientError
from eosin.client.producer import Producer
from eosin.lab.broker import Broker
from eosin.lab.common.errors import LabError
from eosin.lab.process_broker import ProcessBroker
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord
from eosin.testing import AsyncBroker

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}, seed=7) as started:
        yield started


async def commit(bootstrap: str, transactional_id: str) -> None:
    """A transaction of one record, by our own client."""
    async with Client(bootstrap, client_id=transactional_id) as client:
        producer = Producer(client, transactional_id)
        await producer.init()
        producer.begin()
        await producer.send(TopicPartition("orders", 0), [NewRecord(None, transactional_id.encode())])
        await producer.commit()


async def test_a_commit_whose_answer_is_lost_is_committed_once(broker: Broker) -> None:
    with broker.faults.on("EndTxn", transactional_id="lost").lose("answer") as rule:
        await commit(broker.bootstrap, "lost")
        assert (rule.fired, rule.matched) == (1, 2)
    assert broker.transactions("lost").outcomes == ["commit"]
    (first, second) = broker.history.requests("EndTxn", transactional_id="lost")
    assert (first.fate, first.rule, second.fate) == ("lost", rule.id, "answered")


async def test_conditions_come_before_the_action_and_after_it(broker: Broker) -> None:
    rule = broker.faults.on("InitProducerId", transactional_id="cond").after(1).error("NOT_COORDINATOR").times(2)
    await commit(broker.bootstrap, "cond")
    assert (rule.matched, rule.fired) == (1, 0)
    await commit(broker.bootstrap, "cond")
    assert (rule.matched, rule.fired) == (4, 2)
    rule.remove()
    assert rule.id not in [each.id for each in broker.faults.rules()]
    assert broker.faults.seed == 7


def test_what_is_held_waits_for_its_release(broker: Broker) -> None:
    with broker.faults.hold("Produce", topic="orders") as held:
        started = threading.Thread(target=_committed, args=(broker.bootstrap, "held"))
        started.start()
        held.wait(timeout=HANG_S)
        assert held.state.held == 1
        held.release()
        started.join(HANG_S)
    assert broker.transactions("held").outcomes == ["commit"]


def _committed(bootstrap: str, transactional_id: str) -> None:
    import asyncio

    asyncio.run(commit(bootstrap, transactional_id))


def test_a_rule_that_never_fires_is_an_error_with_its_words(broker: Broker) -> None:
    words = r"rule f\d+ \(Fetch, topic none: held, at request\) never fired: nothing"
    with pytest.raises(LabError, match=words), broker.faults.hold("Fetch", topic="none"):
        pass
    with broker.faults.hold("Fetch", topic="none").optional():
        pass
    with pytest.raises(ZeroDivisionError) as failed, broker.faults.hold("Fetch", topic="none"):
        raise ZeroDivisionError
    assert any("never fired" in note for note in failed.value.__notes__)
    with pytest.raises(LabError, match=r'there is no API "Fetsch"; did you mean Fetch\?'):
        broker.faults.on("Fetsch").error("NOT_COORDINATOR")
    rule = broker.faults.hold("Fetch", topic="none").optional()
    with pytest.raises(LabError, match=r"has not fired once within 0 s: it matched 0 requests"):
        rule.wait_fired(timeout=0)
    rule.remove()


def test_a_broker_does_not_close_over_a_rule_that_never_fired() -> None:
    broker = Broker()
    broker.faults.on("EndTxn").lose("answer").once()
    with pytest.raises(LabError, match=r"rule f1 \(EndTxn: answer lost, .*\) never fired"):
        broker.close()
    broker.close()
    with Broker() as last:
        last.faults.on("EndTxn").lose("answer")
        with pytest.raises(LabError, match="never fired"):
            last.faults.clear()


async def test_a_wait_for_rest_names_the_rule_that_holds_something(broker: Broker) -> None:
    with broker.faults.on("EndTxn", transactional_id="held").hold() as rule:
        committing = asyncio.create_task(commit(broker.bootstrap, "held"))
        await asyncio.to_thread(rule.wait_fired, timeout=HANG_S)
        with pytest.raises(LabError, match=rf"not quiet after .*: rule {rule.id} \(EndTxn.*\) holds 1 request; open"):
            await asyncio.to_thread(broker.settle, timeout=0)
        await asyncio.to_thread(broker.clock.advance, seconds=1)
    await committing
    broker.settle(timeout=HANG_S)


async def test_time_does_not_wait_for_records_that_a_rule_keeps_from_being_durable(broker: Broker) -> None:
    with broker.faults.on(topic="orders").at("appended").hold() as rule:
        committing = asyncio.create_task(commit(broker.bootstrap, "undurable"))
        await asyncio.to_thread(rule.wait_fired, timeout=HANG_S)
        await asyncio.to_thread(broker.clock.advance, seconds=1)
    await committing
    assert broker.transactions("undurable").outcomes == ["commit"]


async def test_what_goes_wrong_in_a_function_of_a_rule_is_in_the_history() -> None:
    async with AsyncBroker(topics=["orders"]) as failing:
        await failing.faults.on("EndTxn").call(lambda seen: 1 // 0)
        await commit(failing.bootstrap, "t")
        (line,) = [each for each in await failing.history.transcript() if "  internal " in each]
        assert line.endswith(
            "a rule failed, and its request went on without it: ZeroDivisionError: integer division or modulo by zero"
        )
        (complaint,) = await failing.complaints(dismiss=True)
        assert complaint in line


async def test_faults_are_awaited_in_an_event_loop() -> None:
    async with AsyncBroker(topics=["orders"]) as broker:
        rule = await broker.faults.on("EndTxn", transactional_id="a*").after(0).lose("answer").once()
        await commit(broker.bootstrap, "async")
        await rule.wait_fired(timeout=HANG_S)
        assert (await rule.fired, await rule.matched) == (1, 2)
        async with broker.faults.on("EndTxn").call(lambda seen: None) as called:
            await commit(broker.bootstrap, "async")
            assert await called.fired == 1
        with pytest.raises(LabError, match="never fired"):
            async with broker.faults.hold("Fetch"):
                pass
        assert await broker.transactions("async").outcomes == ["commit", "commit"]


async def test_a_delayed_end_of_a_transaction_ends_the_next_one_without_transaction_version_2() -> None:
    """Jepsen's anomaly: the network keeps an EndTxn, the client asks again and begins anew, the kept one arrives."""
    async with AsyncBroker(topics=["orders"], settings={"eosin.transaction.version": 1}) as broker:
        rule = await broker.faults.on("EndTxn").detour(behind="Produce")
        async with Client(broker.bootstrap, client_id="jepsen") as client:
            producer = Producer(client, "jepsen")
            await producer.init()
            producer.begin()
            await producer.send(TopicPartition("orders", 0), [NewRecord(None, b"first")])
            await producer.commit()
            producer.begin()
            await producer.send(TopicPartition("orders", 0), [NewRecord(None, b"torn")])
            assert await rule.fired == 1
            assert await broker.topic("orders").values() == [b"first", b"torn"]
            with pytest.raises(ClientError, match="INVALID_TXN_STATE"):
                await producer.abort()


async def test_under_transaction_version_2_the_kept_request_is_refused() -> None:
    async with AsyncBroker(topics=["orders"]) as broker:
        await broker.faults.on("EndTxn").detour(behind="Produce")
        async with Client(broker.bootstrap, client_id="jepsen") as client:
            producer = Producer(client, "jepsen")
            await producer.init()
            for value, end in ((b"first", producer.commit), (b"second", producer.abort)):
                producer.begin()
                await producer.send(TopicPartition("orders", 0), [NewRecord(None, value)])
                await end()
        assert await broker.topic("orders").values() == [b"first"]
        assert await broker.transactions("jepsen").outcomes == ["commit", "abort"]


def test_a_test_that_fails_is_told_of_rules_that_never_fired_beside_its_own_failure() -> None:
    broker = Broker()
    broker.faults.on("EndTxn").lose("answer")
    with pytest.raises(ZeroDivisionError) as failed, broker:
        raise ZeroDivisionError
    assert any("never fired" in note for note in failed.value.__notes__)


def test_another_process_has_the_same_faults_without_functions() -> None:
    broker = ProcessBroker(topics=["orders"], seed=3)
    with broker.faults.on("EndTxn").lose("answer") as rule:
        _committed(broker.bootstrap, "process")
        rule.wait_fired(timeout=HANG_S)
        assert rule.state.fired == 1
    with pytest.raises(LabError, match="takes no functions"):
        broker.faults.on("EndTxn").call(print)
    assert broker.faults.seed == 3
    broker.faults.on("EndTxn").lose("request")
    with pytest.raises(LabError, match="never fired"):
        broker.close()


def test_pytest_fails_a_test_whose_rule_never_fired(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.eosin(seed=7)\n"
        "def test_unfired(eosin):\n"
        "    assert eosin.faults.seed == 7\n"
        "    eosin.faults.on('EndTxn').lose('answer').once()\n"
        "def test_optional(eosin):\n"
        "    eosin.faults.on('EndTxn').lose('answer').optional()\n"
        "def test_failed(eosin):\n"
        "    eosin.faults.on('EndTxn').lose('answer')\n"
        "    assert not 'its own failure'\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False, cwd=tmp_path)
    assert "2 failed, 1 passed" in run.stdout, run.stdout
    assert "rule f1 (EndTxn: answer lost, connection reset, at answer) never fired" in run.stdout
    assert "error" not in run.stdout.splitlines()[-1]


def test_an_application_of_confluent_kafka_survives_a_lost_commit(broker: Broker) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    broker.faults.on("EndTxn", transactional_id="invoicing-1").lose("answer").once()
    producer = confluent.Producer(broker.conf(transactional_id="invoicing-1"))
    producer.init_transactions(HANG_S)
    producer.begin_transaction()
    producer.produce("invoices", b"invoice for one book")
    producer.commit_transaction(HANG_S)
    assert broker.transactions("invoicing-1").outcomes == ["commit"]
    assert broker.topic("invoices").values() == [b"invoice for one book"]
