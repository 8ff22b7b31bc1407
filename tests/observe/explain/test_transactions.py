"""`eosin explain` of transactional ids: each cause made by producers, seen in its sentence (console.md 2.3 and 3)."""

import re
import socket
from collections.abc import AsyncIterator

import pytest
from local_broker import local_broker
from observed_broker import ORDERS_0, ObservedBroker, observed_broker
from waiting import until
from wire_producer import transactional

from eosin.client.client import Client
from eosin.observe.explain.cluster_facts import ClusterFacts
from eosin.observe.explain.subjects import find
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.api_versions import ApiVersionsRequest
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.storage.results.log_results import Refused

pytestmark = pytest.mark.process

STOP = "The fenced instance cannot go on: stop it, or give it a transactional.id of its own if both shall run."
TERMINATE = "`eosin transactions force-terminate invoicing` aborts it now, what it has written is lost."


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
        f" and aborted its transaction of 1 partition; it holds epoch 2 now. {STOP}"
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
        f"a new instance, orders-2 at P, took over from epoch 0 at T; now held by orders-3 at P, epoch 2. {STOP}"
    )


async def test_a_transaction_that_ran_out_of_time_says_when_it_began(broker: ObservedBroker) -> None:
    late = await broker.producer("invoicing", timeout_ms=50)
    await late.append(ORDERS_0)

    async def is_over() -> bool:
        return (await broker.explain("invoicing")).cause == "timeout"

    await until(is_over)
    aborted = "it ran out of time: begun T (D), aborted by the coordinator; nobody has replaced it."
    told = (
        "The producer may abort and go on, or is restarted with the same transactional.id; a longer"
        " transaction.timeout.ms gives it more time."
    )
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
        " epoch 0; it holds epoch 1 now. Restart the producer with the same transactional.id: what the old epoch had"
        " open is aborted, so send it again."
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
        f" producer {producer.producer_id}/0, orders-1 at P. It will be aborted at T (in D); {TERMINATE}"
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


async def test_a_fence_stays_first_after_the_new_instance_has_committed(broker: ObservedBroker) -> None:
    old = await broker.producer("invoicing")
    new = await broker.producer("invoicing", client_id="orders-2")
    await old.add(ORDERS_0)
    await old.add(ORDERS_0)
    await new.append(ORDERS_0)
    await new.commit()
    await new.completed()
    found = await broker.explain("invoicing")
    assert without_times(found.text) == (
        "invoicing was fenced at T because a new instance, orders-2 at P, took over from epoch 0 at T; it holds epoch 2"
        f" now. {STOP}"
    )
    assert [without_times(each) for each in found.evidence] == [
        "invoicing has nothing open: its last transaction by orders-2 at P was committed at T after D in 1 partition;"
        f" producer {old.producer_id}/2",
        "in the last hour 1 instance of it was fenced, in 2 requests",
        f"orders-1 at P, producer {old.producer_id}/0, was refused with PRODUCER_FENCED 2 times",
    ]


async def test_a_producer_whose_connection_has_closed_is_told_to_be_gone(broker: ObservedBroker) -> None:
    producer = await broker.producer("invoicing")
    await producer.append(ORDERS_0)
    await producer.wire.close()

    async def is_gone() -> bool:
        return "its connections closed" in (await broker.explain("invoicing")).sentence

    await until(is_gone)
    found = await broker.explain("invoicing")
    assert without_times(found.text) == (
        f"invoicing has a transaction open since T (D) in 1 partition: producer {producer.producer_id}/0, orders-1 at"
        " P; its connections closed at T and none has come back. Restart its producer with the same transactional.id,"
        f" which aborts it at once. It will be aborted at T (in D); {TERMINATE}"
    )
    assert [event.kind for event in found.timeline] == ["begin", "disconnected"]
    other = await broker.wire("orders-1")  # a client of its name, which may be it
    await other.ask(InitProducerIdRequest("other", 60_000), 4)
    assert "closed at T and others of its name are open. It will be" in without_times(
        (await broker.explain("invoicing")).text
    )


async def test_the_code_that_a_client_was_sent_is_told_with_that_of_the_rules(broker: ObservedBroker) -> None:
    """After a timeout Java 3 is sent INVALID_PRODUCER_ID_MAPPING, after which it recovers (transactions.md 12.3)."""
    wire = await broker.wire("java-1")
    await wire.ask(ApiVersionsRequest("apache-kafka-java", "3.9.1"), 3)
    late = await transactional(wire, "invoicing", timeout_ms=50)
    await late.append(ORDERS_0)

    async def is_over() -> bool:
        return (await broker.explain("invoicing")).cause == "timeout"

    await until(is_over)
    assert await late.add(ORDERS_0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    (notable,) = [
        each for each in (await broker.facts("transactions/invoicing"))["history"]["notable"] if "error" in each
    ]
    assert (notable["error"], notable["rule"]) == ("INVALID_PRODUCER_ID_MAPPING", "PRODUCER_FENCED")
    assert (
        "was refused with INVALID_PRODUCER_ID_MAPPING (PRODUCER_FENCED by the rules; this client goes on after the"
        in (" ".join((await broker.explain("invoicing")).evidence))
    )
    metrics = (await broker.get("metrics")).body.decode()
    counted = 'eosin_transaction_errors_total{api="AddPartitionsToTxn",error='
    assert f'{counted}"INVALID_PRODUCER_ID_MAPPING"}} 1\n' in metrics
    assert f'{counted}"PRODUCER_FENCED"}} 0\n' in metrics


async def test_records_that_a_full_disk_refuses_are_events_of_their_id_and_the_cause_of_its_timeout(
    broker: ObservedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await broker.producer("invoicing", timeout_ms=500)
    await producer.append(ORDERS_0)
    log = broker.server.services.partitions.get(ORDERS_0)
    full = Refused(ErrorCode.KAFKA_STORAGE_ERROR, "no space left on the disk: records are refused for now")
    with monkeypatch.context() as patched:
        patched.setattr(type(log), "append", lambda *_, **__: full)
        assert (await producer.send(ORDERS_0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (
        "1 request refused with KAFKA_STORAGE_ERROR, last at T: no space left on the disk: records are refused for now"
        in [without_times(each) for each in (await broker.explain("invoicing")).evidence]
    )

    async def is_over() -> bool:
        return "was aborted" in (await broker.explain("invoicing")).sentence

    await until(is_over)
    found = await broker.explain("invoicing")
    assert found.cause == "disk_full"
    assert without_times(found.text) == (
        "the transaction of invoicing was aborted at T because it ran out of time while the disk was full (records"
        " refused 1 time): begun T (D), aborted by the coordinator; nobody has replaced it. Make room on the broker's"
        " disk (retention.bytes, `eosin topics delete`); if the producer has stopped, restart it then with the same"
        " transactional.id. More time would not have helped."
    )


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
    assert (await broker.explain("invoicing")).text.endswith(STOP)


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
