"""`eosin explain` of transactional ids: each cause made by producers, seen in its sentence (console.md 2.3 and 3)."""

import re
import socket
from collections.abc import AsyncIterator

import pytest
from local_broker import local_broker
from observed_broker import ORDERS_0, ObservedBroker, observed_broker
from waiting import until

from eosin.client.client import Client
from eosin.observe.explain.cluster_facts import ClusterFacts
from eosin.observe.explain.subjects import find
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest

pytestmark = pytest.mark.process


@pytest.fixture
async def broker() -> AsyncIterator[ObservedBroker]:
    async with observed_broker() as broker:
        yield broker


def without_times(text: str) -> str:
    """Times as T, durations as D, ports as P: what differs from run to run."""
    text = re.sub(r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d{3}", "T", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "P", text)
    return re.sub(r"\d+(\.\d)? (ms|s)\b", "D", text)


async def sentence(broker: ObservedBroker, name: str) -> str:
    return without_times((await broker.explain(name)).text)


async def test_a_producer_fenced_by_a_new_instance_hears_who_took_over(broker: ObservedBroker) -> None:
    old = await broker.producer("invoicing", client_id="orders-1")
    await old.append(ORDERS_0)
    await broker.producer("invoicing", client_id="orders-2")
    assert (await old.end(commit=True)).error_code == ErrorCode.PRODUCER_FENCED
    assert await sentence(broker, "invoicing") == (
        "invoicing was fenced at T because a new instance, orders-2 at P, took over from epoch 0 at T"
        " and aborted its transaction of 1 partition; it holds epoch 2 now."
    )
    found = await broker.explain("invoicing")
    assert found.cause == "successor"
    assert [event.kind for event in found.timeline] == ["begin", "epoch_raised", "complete", "fenced"]
    assert found.timeline[-1].who is not None
    assert found.timeline[-1].who.client_id == "orders-1"


async def test_a_fenced_producer_hears_who_holds_its_id_now(broker: ObservedBroker) -> None:
    old = await broker.producer("invoicing")
    await broker.producer("invoicing", client_id="orders-2")
    await broker.producer("invoicing", client_id="orders-3")
    await old.add(ORDERS_0)
    assert (await sentence(broker, "invoicing")).endswith(
        "a new instance, orders-2 at P, took over from epoch 0 at T; now held by orders-3 at P, epoch 2."
    )


async def test_a_transaction_that_ran_out_of_time_says_when_it_began(broker: ObservedBroker) -> None:
    late = await broker.producer("invoicing", timeout_ms=50)
    await late.append(ORDERS_0)

    async def is_over() -> bool:
        return (await broker.explain("invoicing")).cause == "timeout"

    await until(is_over)
    aborted = "it ran out of time: begun T (D), aborted by the coordinator; nobody has replaced it."
    told = "The producer may come back with its pair; a longer transaction.timeout.ms gives it more time."
    assert await sentence(broker, "invoicing") == (
        f"the transaction of invoicing was aborted at T because {aborted} {told}"
    )
    await late.end(commit=True)
    assert await sentence(broker, "invoicing") == (
        "invoicing was fenced at T because its transaction ran out of time: begun T (D), aborted by the coordinator;"
        f" nobody has replaced it. {told}"
    )


async def test_a_connection_that_introduced_itself_again_fenced_itself(broker: ObservedBroker) -> None:
    producer = await broker.producer("invoicing")
    await producer.wire.init("invoicing")
    await producer.add(ORDERS_0)
    assert await sentence(broker, "invoicing") == (
        "invoicing was fenced at T because its own later init at T, whose answer it may not have seen, replaced"
        " epoch 0; it holds epoch 1 now."
    )


async def test_an_admin_client_is_named_as_who_probably_fenced(broker: ObservedBroker) -> None:
    producer = await broker.producer("invoicing")
    admin = await broker.wire("adminclient-1")
    await admin.ask(InitProducerIdRequest("invoicing", 60_000), 4)
    await producer.add(ORDERS_0)
    found = await broker.explain("invoicing")
    assert found.cause == "admin_fence"
    assert "an admin client, probably fencing it, raised epoch 0 by adminclient-1" in found.sentence


async def test_an_epoch_of_its_own_past_is_told_apart_from_another_instance(broker: ObservedBroker) -> None:
    producer = await broker.producer("invoicing")
    for _ in range(2):
        await producer.append(ORDERS_0)
        await producer.commit()
    await producer.add(ORDERS_0, epoch=0)
    found = await broker.explain("invoicing")
    assert found.cause == "own_end"
    assert "epoch 0 is one of its own past" in found.sentence


async def test_an_id_that_was_never_seen_is_not_known(broker: ObservedBroker) -> None:
    found = await broker.explain("nobody")
    assert not found.is_known
    assert found.sentence == "no coordinator knows nobody: it was never used, or it has expired."


async def test_a_pair_of_an_unknown_id_is_named_with_its_producer_id(broker: ObservedBroker) -> None:
    producer = await broker.producer("invoicing")
    producer.transactional_id = "mistyped"
    assert await producer.add(ORDERS_0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    found = await broker.explain("mistyped")
    assert found.cause == "unknown_id"
    assert f"producer {producer.producer_id} was never seen with this id here" in found.sentence


async def test_an_open_transaction_says_when_it_will_be_aborted(broker: ObservedBroker) -> None:
    producer = await broker.producer("invoicing")
    await producer.append(ORDERS_0)
    assert await sentence(broker, "invoicing") == (
        "invoicing has a transaction open since T (D) in 1 partition:"
        f" producer {producer.producer_id}/0, orders-1 at P. It will be aborted at T (in D)."
    )


async def test_a_committed_transaction_says_who_and_how_long(broker: ObservedBroker) -> None:
    producer = await broker.producer("invoicing")
    await producer.append(ORDERS_0)
    await producer.commit()
    await producer.completed()
    assert await sentence(broker, "invoicing") == (
        "invoicing has nothing open: its last transaction by orders-1 at P was committed at T after D in 1 partition;"
        f" producer {producer.producer_id}/1. Unless it is used, the coordinator forgets it at T (in 7 days;"
        " transactional.id.expiration.ms)."
    )


async def test_a_fence_is_forgotten_in_the_sentence_once_the_new_instance_commits(broker: ObservedBroker) -> None:
    old = await broker.producer("invoicing")
    new = await broker.producer("invoicing", client_id="orders-2")
    await old.add(ORDERS_0)
    await new.append(ORDERS_0)
    await new.commit()
    await new.completed()
    assert "was committed" in await sentence(broker, "invoicing")


async def test_without_http_the_state_is_told_and_that_the_reason_is_not(broker: ObservedBroker) -> None:
    old = await broker.producer("invoicing")
    await old.append(ORDERS_0)
    await broker.producer("invoicing", client_id="orders-2")
    found = await broker.explain("invoicing", over_http=False)
    assert found.sources == ("Kafka's APIs",)
    assert without_times(found.sentence).startswith("invoicing has nothing open, and no transaction since")
    assert found.evidence == ("no flight recorder was asked: who did what, and why, is not known",)


async def test_a_refusal_that_repeats_is_counted_and_pushes_nothing_out(broker: ObservedBroker) -> None:
    old = await broker.producer("invoicing")
    await broker.producer("invoicing", client_id="orders-2")
    for _ in range(20):
        await old.add(TopicPartition("orders", 1))
    facts = await broker.facts("transactions/invoicing")
    assert [each["count"] for each in facts["history"]["notable"]] == [20]
    assert (await broker.explain("invoicing")).text.endswith(
        "If both shall run, each needs a transactional.id of its own."
    )


async def test_memories_of_an_id_that_another_broker_coordinates_now_are_told_with_its_present_state(
    broker: ObservedBroker,
) -> None:
    old = await broker.producer("invoicing")
    await broker.producer("invoicing", client_id="orders-2")
    await old.add(ORDERS_0)
    transactions = broker.server.services.transactions
    assert broker.server.observability is not None
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(transactions, "txn", lambda _: None)  # as where the partition has moved away
        found = await broker.explain("invoicing")
    assert found.cause == "successor"
    assert found.sentence.endswith("; it holds epoch 1 now.")
    assert found.sources[0] == "Kafka's APIs"


async def test_the_http_listener_is_found_by_the_brokers_settings() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    asked_for = {"eosin_http_listener": str(port), "given": {"eosin.http.listener": str(port)}}
    async with observed_broker(**asked_for) as broker, Client(broker.address) as client:
        old = await broker.producer("invoicing")
        await broker.producer("invoicing", client_id="orders-2")
        await old.add(ORDERS_0)
        asked = ClusterFacts(client, http=None, token=None, timeout_ms=5000)
        assert (await find(asked, "invoicing", None)).cause == "successor"
        assert not asked.complaints


async def test_a_listener_that_does_not_answer_costs_the_reason_and_not_the_sentence(broker: ObservedBroker) -> None:
    await broker.producer("invoicing")
    async with Client(broker.address) as client:
        asked = ClusterFacts(client, http="127.0.0.1:1", token=None, timeout_ms=500)
        found = await find(asked, "invoicing", "txn")
    assert found.sentence.startswith("invoicing has nothing open")
    assert len(asked.complaints) == 1


async def test_an_eosin_that_records_nothing_says_how_it_would() -> None:
    async with local_broker(listeners=("PLAINTEXT://127.0.0.1:0",)) as server:
        server.cluster.advertise("PLAINTEXT", "127.0.0.1", int(server.addresses[0].rpartition(":")[2]))
        await server.cluster.create_topic("orders", partitions=2)
        broker = ObservedBroker(server)
        producer = await broker.producer("invoicing")
        await producer.append(ORDERS_0)
        assert (await producer.end(commit=True)).error_code == ErrorCode.NONE
        async with Client(broker.address) as client:
            asked = ClusterFacts(client, http=None, token=None, timeout_ms=5000)
            told = (await find(asked, "invoicing", None)).text
        for wire in broker.wires:
            await wire.close()
    assert "its last transaction was committed" in told or "its last transaction was aborted" in told
    assert "this broker does not tell by whom, or why: it records that when it is started with --http" in told
