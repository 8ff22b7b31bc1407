"""Waits and assertions against a broker: they hold where they should, and say why where they do not."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from eosin.client.client import Client
from eosin.client.errors import ClientError
from eosin.client.producer import Producer
from eosin.lab.broker import Broker
from eosin.lab.common.errors import EosinAssertion, LabError
from eosin.lab.common.limits import FACTOR
from eosin.lab.process_broker import ProcessBroker
from eosin.lab.verdict.findings import Finding
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord
from eosin.testing import AsyncBroker

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1, "invoices": 1}) as started:
        yield started


@asynccontextmanager
async def producer_of(bootstrap: str, transactional_id: str) -> AsyncIterator[Producer]:
    async with Client(bootstrap, client_id=transactional_id) as client:
        producer = Producer(client, transactional_id)
        await producer.init()
        yield producer


def named(*names: str) -> list[NewRecord]:
    return [NewRecord(name.encode(), name.encode()) for name in names]


async def copy(producer: Producer, *names: str, upto: int, commit: bool = True, group: str = "copier") -> None:
    """A transaction of a copier: output, and the offset of its input."""
    producer.begin()
    if names:
        await producer.send(TopicPartition("out", 0), named(*names))
    await producer.send_offsets({TopicPartition("in", 0): upto}, group)
    await (producer.commit() if commit else producer.abort())


# Exactly once


async def test_a_copier_that_works_is_exactly_once_and_one_that_lost_and_doubled_is_told_where() -> None:
    async with AsyncBroker(topics=["in", "out"]) as broker, producer_of(broker.bootstrap, "copier-1") as producer:
        for name in "abcd":
            await broker.produce("in", name, key=name)
        await copy(producer, "a", "b", upto=2)
        await copy(producer, "c", upto=3, commit=False)
        await copy(producer, "c", "d", upto=4)
        verdict = await broker.assert_exactly_once("in", "out", "copier")
        assert (verdict.input_records, verdict.output_records) == (4, 4)
        await broker.assert_offsets("copier", {"in": 4})

        await broker.produce("in", "e", key="e")
        await copy(producer, "a", upto=5)
        with pytest.raises(EosinAssertion) as failed:
            await broker.assert_exactly_once("in", "out", group="copier")
        assert [each.kind for each in failed.value.findings if isinstance(each, Finding)] == ["lost", "doubled"]
        assert 'in-0:4 key "e" "e"' in str(failed.value)


async def test_what_a_copier_has_not_read_is_stuck_and_what_it_holds_open_is_open() -> None:
    async with AsyncBroker(topics=["in", "out"]) as broker, producer_of(broker.bootstrap, "copier-1") as producer:
        await broker.produce("in", "a", "b")
        await copy(producer, "a", upto=1)
        producer.begin()
        await producer.send(TopicPartition("out", 0), named("b"))
        with pytest.raises(EosinAssertion) as failed:
            await broker.assert_exactly_once("in", "out", "copier")
        assert [each.kind for each in failed.value.findings if isinstance(each, Finding)] == ["open", "stuck"]
        assert "copier-1, Ongoing, in out-0" in str(failed.value)


def test_criteria_and_topics_that_do_not_exist_are_refused_in_a_sentence(broker: Broker) -> None:
    with pytest.raises(LabError, match="by is ids, multiset, last-value or a function"):
        broker.assert_exactly_once("orders", "invoices", by="id")
    with pytest.raises(LabError, match=r'there is no topic "invoice"; did you mean invoices\?'):
        broker.assert_exactly_once("orders", "invoice")


# Assertions


def test_committed_values_are_compared_and_a_missing_one_is_found_where_it_was_written(broker: Broker) -> None:
    broker.topic("paid").create()
    broker.produce("paid", "a", "b", transactional_id="paying")
    broker.assert_committed("paid", ["a", b"b"])
    broker.assert_committed("paid", ["b", "a"], ordered=False)
    with pytest.raises(EosinAssertion, match='another order: "a", "b"'):
        broker.assert_committed("paid", ["b", "a"])
    broker.produce("paid", "c", transactional_id="paying", commit=False)
    with pytest.raises(EosinAssertion) as failed:
        broker.assert_committed("paid", ["a", "c"])
    assert 'missing "c"; it is at paid-0:3 in an open transaction of producer' in str(failed.value)
    assert 'not expected paid-0:1 "b"' in str(failed.value)
    broker.transactions("paying").abort()
    with pytest.raises(EosinAssertion, match=r'missing "c"; it is at paid-0:3 in a transaction of .* that was aborted'):
        broker.assert_committed("paid", ["a", "b", "c"])


def test_what_should_never_be_visible_is_searched_in_every_topic(broker: Broker) -> None:
    broker.produce("aborted", "secret", transactional_id="hidden", commit=False)
    broker.transactions("hidden").abort()
    broker.assert_never_visible(["secret"])
    broker.produce("shown", "secret")
    with pytest.raises(EosinAssertion, match='shown-0:0 "secret"'):
        broker.assert_never_visible(["secret"])
    broker.assert_never_visible(["secret"], topics="aborted")


async def test_a_fence_has_the_cause_that_the_coordinator_knows() -> None:
    async with AsyncBroker(topics=["out"]) as broker, producer_of(broker.bootstrap, "t") as old:
        old.begin()
        await old.send(TopicPartition("out", 0), named("x"))
        with pytest.raises(EosinAssertion, match="no producer of t was fenced by a successor: t has a transaction"):
            await broker.assert_fenced("t", by="successor")
        async with producer_of(broker.bootstrap, "t"):
            await broker.assert_fenced("t", by="successor")
            with pytest.raises(ClientError):
                await old.commit()
            with pytest.raises(EosinAssertion, match="was fenced by an operator, but by successor"):
                await broker.assert_fenced("t", by="operator")
            await broker.transactions("t").abort()
            await broker.assert_fenced("t", by="operator")
        with pytest.raises(LabError, match=r'no cause of a fence "succesor"; did you mean successor\?'):
            await broker.assert_fenced("t", by="succesor")


def test_other_offsets_are_told_with_what_is_pending(broker: Broker) -> None:
    broker.assert_offsets("nobody", {"orders": None})
    with pytest.raises(EosinAssertion, match="orders-0 is at nothing and not at 5"):
        broker.assert_offsets("nobody", {("orders", 0): 5})


def test_a_broker_is_quiet_unless_something_is_open(broker: Broker) -> None:
    broker.assert_quiet()
    broker.produce("orders", "x", transactional_id="loud", commit=False)
    with pytest.raises(EosinAssertion, match=r"(?s)the broker is not quiet:.*loud has a transaction open"):
        broker.assert_quiet()
    broker.transactions("loud").abort()
    broker.assert_quiet()


def test_a_warning_of_the_broker_fails_an_assertion(broker: Broker) -> None:
    async def warn() -> None:
        import logging

        logging.getLogger("eosin.lab.test").warning("something is wrong")

    broker.assert_no_warnings()
    broker._held.thread.call(warn())
    with pytest.raises(EosinAssertion, match=r"(?s)the broker has warned:.*something is wrong"):
        broker.assert_no_warnings()


# The history, and waits for it


async def test_the_history_has_the_requests_of_a_client_and_the_decisions_in_their_order() -> None:
    async with AsyncBroker(topics=["in", "out"]) as broker, producer_of(broker.bootstrap, "copier-1") as producer:
        await broker.produce("in", "a")
        await copy(producer, "a", upto=1)
        (end,) = await broker.wait_for("EndTxn", transactional_id="copier-1", code="NONE")
        assert end.link is not None
        assert (end.link.client_id, end.detail.split()[0]) == ("copier-1", "commit")
        (sent,) = await broker.history.requests("Produce", topic="out")
        assert (sent.transactional_id, [str(each) for each in sent.partitions]) == ("copier-1", ["out-0"])
        assert broker.history.order(sent, end) == -1
        await broker.wait_until_consumed("copier", "in")
        decided = [each.what for each in await broker.history.of("copier-1") if each.request == 0]
        assert (decided[-1], set(decided[decided.index("prepared") : -1])) == ("complete", {"prepared", "marker"})
        markers = [each for each in await broker.history.of("copier-1") if each.what == "marker"]
        assert "out-0" in {str(partition) for each in markers for partition in each.partitions}
        assert {each.detail.split()[0] for each in markers} == {"commit"}
        assert {each.client_id for each in await broker.history.connections()} == {"copier-1"}
        await broker.assert_requests(["InitProducerId", {"api": "Produce", "topic": "out"}, "EndTxn"])
        with pytest.raises(EosinAssertion) as failed:
            await broker.assert_requests(["EndTxn", "Produce"])
        assert "there was no Produce after EndTxn; the requests were:" in str(failed.value)
        assert "Produce v" in str(failed.value)
        assert any("EndTxn" in line and "commit epoch" in line for line in await broker.history.transcript())
        await broker.history.clear()
        assert await broker.history.events() == []


async def test_a_wait_for_a_request_ends_with_the_request_and_says_what_there_was_otherwise() -> None:
    async with AsyncBroker(topics=["out"]) as broker, producer_of(broker.bootstrap, "t") as producer:
        waiting = asyncio.create_task(broker.wait_for("EndTxn", n=2))
        for name in "ab":
            producer.begin()
            await producer.send(TopicPartition("out", 0), named(name))
            await producer.commit()
        assert len(await waiting) == 2
        producer.begin()
        await producer.send(TopicPartition("out", 0), named("c"))
        with pytest.raises(EosinAssertion) as failed:
            await broker.wait_for("EndTxn", n=3, timeout=0)
        said = str(failed.value)
        assert said.startswith("EndTxn has been there 2 times and not 3 within 0 s\nt has a transaction open")
        assert "the last of the history:" in said
        with pytest.raises(LabError, match="did you mean EndTxn"):
            await broker.wait_for("EndTransaction")


async def test_a_group_has_consumed_a_topic_when_nothing_is_unread_or_undecided() -> None:
    async with AsyncBroker(topics=["in", "out"]) as broker, producer_of(broker.bootstrap, "copier-1") as producer:
        await broker.produce("in", "a", "b", transactional_id="source")
        waiting = asyncio.create_task(broker.wait_until_consumed("copier", "in"))
        await copy(producer, "a", upto=1)
        with pytest.raises(EosinAssertion, match=r"in-0: committed 1 of 2, 1 records unread"):
            await broker.wait_until_consumed("copier", "in", timeout=0)
        assert not waiting.done()
        await copy(producer, "b", upto=2)
        await waiting
        producer.begin()
        await producer.send_offsets({TopicPartition("in", 0): 2}, "copier")
        with pytest.raises(EosinAssertion, match="in-0: an open transaction holds offset 2"):
            await broker.wait_until_consumed("copier", "in", timeout=0)


def test_waits_are_multiplied_by_a_variable_of_the_environment(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FACTOR, "0.001")
    with pytest.raises(EosinAssertion, match=r"the sun has not happened within 0.01 s"):
        broker.wait_until(lambda: False, what="the sun")
    monkeypatch.setenv(FACTOR, "fast")
    with pytest.raises(LabError, match="EOSIN_LAB_TIMEOUT is a number above 0, by which waits are multiplied"):
        broker.wait_until(lambda: True)


def test_a_broker_that_keeps_no_history_says_so_and_waits_all_the_same() -> None:
    with Broker(record="off", topics=["orders"]) as broker:
        answers = iter([False, True])
        broker.wait_until(lambda: next(answers))
        broker.wait_until_consumed("nobody", "orders")
        with pytest.raises(LabError, match='started with record="protocol"'):
            broker.history.events()
        with pytest.raises(LabError, match="record is one of off, protocol, full, not 'all'"):
            Broker(record="all")


async def test_a_broker_in_a_process_tells_its_history_and_judges_alike() -> None:
    with ProcessBroker(topics=["in", "out"], record="full") as broker:
        await asyncio.to_thread(broker.produce, "in", "a", key="a")
        async with producer_of(broker.bootstrap, "copier-1") as producer:
            await copy(producer, "a", upto=1)
        await asyncio.to_thread(broker.wait_until_consumed, "copier", "in")
        broker.assert_exactly_once("in", "out", "copier")
        broker.assert_committed("out", ["a"])
        assert len(broker.wait_for("EndTxn")) == 1
        assert broker.history.requests("Produce")[0].detail == "b'a'"
        broker.assert_requests(["Produce", "EndTxn"])
        with pytest.raises(EosinAssertion, match="no producer of copier-1 was fenced"):
            broker.assert_fenced("copier-1")
        with pytest.raises(LabError, match="only a broker in a thread of this process keeps its warnings"):
            broker.assert_no_warnings()


# With scripted faults


async def test_a_lost_commit_answer_is_told_with_its_rule_and_the_transaction_is_committed() -> None:
    async with AsyncBroker(topics=["out"]) as broker, producer_of(broker.bootstrap, "t") as producer:
        await broker.faults.on("EndTxn").lose("answer")
        producer.begin()
        await producer.send(TopicPartition("out", 0), named("a"))
        await producer.commit()
        lost, again = await broker.wait_for("EndTxn", n=2)
        assert (lost.fate, lost.code, lost.rule, lost.steps) == ("lost", "NONE", "f1", ("executed",))
        assert (again.fate, again.rule) == ("answered", "")
        assert any("->  executed, answer lost (rule f1)" in line for line in await broker.history.transcript())
        await broker.assert_committed("out", ["a"])


async def test_a_verdict_shows_the_requests_at_which_faults_have_fired() -> None:
    async with AsyncBroker(topics=["in", "out"]) as broker, producer_of(broker.bootstrap, "copier-1") as producer:
        await broker.produce("in", "a", "b")
        await broker.faults.on("EndTxn").error("INVALID_TXN_STATE")
        with pytest.raises(ClientError):
            await copy(producer, "a", upto=1)
        with pytest.raises(EosinAssertion) as failed:
            await broker.assert_exactly_once("in", "out", "copier")
        assert "the faults that fired:\n  +" in str(failed.value)
        assert str(failed.value).endswith("(rule f1)")


async def test_a_wait_in_vain_names_the_rule_that_holds_what_it_waits_for() -> None:
    async with AsyncBroker(topics=["out"]) as broker, producer_of(broker.bootstrap, "t") as producer:
        rule = await broker.faults.on("EndTxn").hold()
        producer.begin()
        await producer.send(TopicPartition("out", 0), named("a"))
        committing = asyncio.create_task(producer.commit())
        await rule.wait_fired()
        with pytest.raises(EosinAssertion) as failed:
            await broker.wait_for("EndTxn", timeout=0)
        assert "the rules of its faults:\n  f1 (EndTxn" in str(failed.value)
        assert "matched 1, fired 1, holds 1" in str(failed.value)
        assert "->  not answered yet (rule f1)" in str(failed.value)
        with pytest.raises(EosinAssertion, match="the broker is not quiet"):
            await broker.assert_quiet()
        await rule.release()
        await committing


async def test_the_history_goes_on_when_a_broker_crashes_and_starts_again() -> None:
    async with AsyncBroker(topics=["out"]) as broker:
        async with producer_of(broker.bootstrap, "t") as producer:
            producer.begin()
            await producer.send(TopicPartition("out", 0), named("a"))
        await broker.crash()
        await broker.produce("out", "b", transactional_id="t")
        await broker.assert_committed("out", ["b"])
        await broker.crash(power=True)
        await broker.clock.advance(minutes=1)
        events = await broker.history.events()
        lives = [(each.what, each.detail) for each in events if each.what in ("start", "crash", "advance")]
        assert lives == [
            *(("start", ""), ("crash", "")),
            *(("start", ""), ("crash", "the power is lost")),
            *(("start", ""), ("advance", "60000 ms")),
        ]
        assert any(line.endswith("advance 60000 ms") for line in await broker.history.transcript())
        decided = [each.detail.split()[0] for each in await broker.history.of("t") if each.what == "complete"]
        assert decided[-1] == "commit"
