"""The console of a cluster that is asked over Kafka's protocol alone: what it finds, and what it cannot know
(console.md 5)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

import httpx
import msgspec
import pytest
from observed_broker import ORDERS_0, ObservedBroker, observed_broker
from waiting import HANG_S
from wire_group import commit_offset

from eosin.client.client import Client
from eosin.client.errors import BadData
from eosin.client.transactions import DescribedTransaction, ListedTransaction, OpenTransaction
from eosin.observe.console import cluster_records
from eosin.observe.console.cluster_console import ClusterConsole
from eosin.observe.console.cluster_partitions import ReadersHeld, holder_of
from eosin.observe.console.cluster_rounds import ClusterRounds
from eosin.observe.console.cluster_transactions import transaction_row
from eosin.observe.console.record_questions import RecordsQuestion, ShownRecords
from eosin.observe.console.rows import TransactionRow
from eosin.observe.console.sessions import Sessions
from eosin.observe.console.tables import KeptRows, Table
from eosin.observe.explain.cluster_facts import ClusterFacts
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.schemas.describe_producers import ProducerState
from eosin.runtime.clock import SystemClock

OPEN = OpenTransaction(ORDERS_0, ProducerState(7, 3, current_txn_start_offset=40))


def described(state: str, *, producer_epoch: int = 3, timeout_ms: int = 60_000) -> DescribedTransaction:
    return DescribedTransaction(1, "billing", state, 7, producer_epoch, timeout_ms, 1000, (ORDERS_0,))


@pytest.mark.parametrize(
    ("known", "holder"),
    [
        (described("Ongoing"), ReadersHeld("billing", "open_transaction", 1000)),
        (described("Ongoing", timeout_ms=2**31 - 1), ReadersHeld("billing", "prepared", 1000)),
        (described("PrepareCommit", producer_epoch=4), ReadersHeld("billing", "markers_pending", 1000)),
        (described("Ongoing", producer_epoch=4), ReadersHeld("producer 7", "")),
        (described("CompleteCommit"), ReadersHeld("producer 7", "")),
        (None, ReadersHeld("producer 7", "")),
    ],
)
def test_readers_are_held_by_what_its_coordinator_will_end(
    known: DescribedTransaction | None, holder: ReadersHeld
) -> None:
    assert holder_of(OPEN, known) == holder


def test_an_id_that_has_moved_on_shows_nothing_of_its_last_description() -> None:
    before = described("Ongoing")
    assert transaction_row(ListedTransaction(1, "billing", 7, "Ongoing"), before).named == ("orders-0",)
    at_rest = transaction_row(ListedTransaction(1, "billing", 7, "CompleteCommit"), before)
    assert at_rest == TransactionRow("billing", "CompleteCommit", 7, 3)
    assert transaction_row(ListedTransaction(1, "billing", 8, "Empty"), before).producer_epoch == -1


def test_rows_that_are_found_again_unchanged_are_sent_to_nobody() -> None:
    table: Table[str] = Table()
    rows = KeptRows(table)
    rows.put_all({"a": 1, "b": 2}, 1)
    rows.put_all({"a": 1, "b": 3}, 2)
    assert [bytes(each) for each in table.since(1).rows] == [b"3"]
    rows.put_all({"b": 3}, 3)
    assert (table.since(2).rows, table.since(2).gone) == ([], ["a"])


@pytest.fixture
async def broker() -> AsyncIterator[ObservedBroker]:
    async with observed_broker() as broker:
        yield broker


@pytest.fixture
async def client(broker: ObservedBroker) -> AsyncIterator[Client]:
    async with Client(broker.address) as client:
        yield client


def rows_of(rounds: ClusterRounds, name: str) -> dict[Any, Any]:
    decoded = [msgspec.json.decode(each) for each in rounds.tables[name].since(0).rows]
    return {each["key"]: each for each in decoded}


@pytest.mark.process
async def test_a_cluster_is_read_over_kafkas_protocol_alone(broker: ObservedBroker, client: Client) -> None:
    billing = await broker.producer("billing")
    await billing.add(ORDERS_0)
    await billing.append(ORDERS_0, 3)
    await billing.commit()
    await billing.completed()
    rounds = ClusterRounds(client, SystemClock(), bootstrap=broker.address)
    await rounds.round()
    assert rows_of(rounds, "transactions")["billing"]["state"] == "CompleteCommit"
    await commit_offset(await broker.wire(), "readers", ORDERS_0, 1)
    await billing.add(ORDERS_0)
    await billing.append(ORDERS_0, 2)
    await rounds.round()
    held = rows_of(rounds, "partitions")["orders-0"]
    assert (held["held_by"], held["cause"], held["open"]) == ("billing", "open_transaction", 1)
    assert (held["last_stable"], held["high_watermark"]) == (4, 6)
    readers = rows_of(rounds, "groups")["readers"]
    assert (readers["lag"], readers["offsets_behind"], readers["control_records"]) == (2, 3, 1)
    assert readers["undecided"] == 2
    whole = rows_of(rounds, "broker")["broker"]
    assert (whole["open"], whole["held"], whole["groups"], whole["brokers"]) == (1, 1, 1, 1)
    assert (whole["cluster"], whole["trouble"]) == (broker.address, "")
    assert [each["address"] for each in whole["nodes"]] == [broker.address]
    assert held["leader"] == whole["nodes"][0]["node_id"]


@pytest.mark.process
async def test_what_no_coordinator_will_end_hangs_only_when_it_is_seen_twice() -> None:
    async with (
        observed_broker(transaction_partition_verification_enable=False) as broker,
        Client(broker.address) as client,
    ):
        lost = await broker.producer("lost", level=1)
        await lost.append(ORDERS_0)
        rounds = ClusterRounds(client, SystemClock(), bootstrap=broker.address)
        for cause in (None, "hanging"):
            await rounds.round()
            assert rows_of(rounds, "partitions")["orders-0"].get("cause") == cause


@pytest.mark.process
async def test_a_cluster_that_does_not_answer_is_said_to_and_the_last_rows_stay(broker: ObservedBroker) -> None:
    timeouts = {"connect_timeout_ms": 500, "request_timeout_ms": 500, "retry_timeout_ms": 500}
    async with Client(broker.address, **timeouts) as client:
        await (await broker.producer("billing")).add(ORDERS_0)
        rounds = ClusterRounds(client, SystemClock(), bootstrap=broker.address)
        await rounds.round()
        await broker.server.shutdown()
        await rounds.round()
    assert rows_of(rounds, "broker")["broker"]["trouble"]
    assert rows_of(rounds, "transactions")["billing"]["state"] == "Ongoing"


@pytest.mark.process
async def test_the_pages_of_a_cluster_have_the_sentences_of_explain_and_one_for_what_is_not_there(
    broker: ObservedBroker, client: Client
) -> None:
    billing = await broker.producer("billing")
    await billing.add(ORDERS_0)
    await billing.append(ORDERS_0)
    await commit_offset(await broker.wire(), "readers", ORDERS_0, 0)
    clock = SystemClock()
    facts = ClusterFacts(client, http=None, token=None, timeout_ms=5000)
    console = ClusterConsole(client, facts, Sessions(clock, port="1"), clock, bootstrap=broker.address)
    transport = httpx.ASGITransport(console.application())
    async with asyncio.timeout(HANG_S), httpx.AsyncClient(transport=transport, base_url="http://here") as web:
        stream = (await web.get("/api/v1/stream?once")).text
        assert '"held_by":"billing"' in stream
        for path in ("transactions/billing", "partitions/orders-0", "groups/readers"):
            answer = (await web.get(f"/api/v1/explain/{path}")).json()
            told = await broker.explain(path.partition("/")[2])
            assert (answer["explained"]["subject"], answer["explained"]["cause"]) == (told.subject, told.cause)
        topic = (await web.get("/api/v1/topics/orders")).json()
        assert [each["transactional_id"] for each in topic["producers"]] == ["billing"]
        assert [each["key"] for each in topic["groups"]] == ["readers"]
        assert "retention.ms" in {each["key"] for each in topic["configs"]}
        for path in ("explain/partitions/orders-9", "explain/transactions/nobody", "topics/nothing", "connections"):
            answer = await web.get(f"/api/v1/{path}")
            assert (answer.status_code, list(answer.json())) == (404, ["error"])
    await console.stop()


Pages = Callable[[str], Awaitable[httpx.Response]]


@pytest.fixture
async def pages(broker: ObservedBroker, client: Client) -> AsyncIterator[Pages]:
    """What the console of the broker's cluster answers to a path below `/api/v1/`."""
    clock = SystemClock()
    facts = ClusterFacts(client, http=None, token=None, timeout_ms=5000)
    console = ClusterConsole(client, facts, Sessions(clock, port="1"), clock, bootstrap=broker.address)
    transport = httpx.ASGITransport(console.application())
    async with httpx.AsyncClient(transport=transport, base_url="http://here/api/v1/", timeout=HANG_S) as web:
        yield web.get
    await console.stop()


async def records(pages: Pages, partition: str = "orders-0", **asked: Any) -> Any:
    answer = await pages(f"partitions/{partition}/records?{urlencode(asked)}")
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.process
async def test_records_of_a_cluster_are_shown_to_each_isolation_with_what_became_of_them(
    broker: ObservedBroker, pages: Pages
) -> None:
    await (await broker.wire()).append(ORDERS_0)  # 0
    shop, other = await broker.producer("shop"), await broker.producer("other")
    await shop.append(ORDERS_0, 2)  # 1, 2, and the marker at 3
    await shop.commit()
    await shop.completed()
    await shop.append(ORDERS_0)  # 4, and the marker at 5
    await shop.abort()
    await shop.completed()
    await other.append(ORDERS_0)  # 6, open
    await shop.append(ORDERS_0)  # 7, and the marker at 8, behind what is open
    await shop.abort()
    await shop.completed()
    committed = await records(pages, **{"from": 0})
    assert [each["offset"] for each in committed["records"]] == [0, 1, 2]
    assert (committed["is_end"], committed["last_stable"]) == (True, 6)
    uncommitted = await records(pages, **{"from": 0, "isolation": "uncommitted"})
    assert [each["offset"] for each in uncommitted["records"]] == [0, 1, 2, 4, 6, 7]
    everything = await records(pages, **{"from": 0, "isolation": "everything"})
    told = [(each["offset"], each.get("outcome", "plain"), each.get("marker", "")) for each in everything["records"]]
    assert told == [
        (0, "plain", ""),
        (1, "committed", ""),
        (2, "committed", ""),
        (3, "control", "COMMIT"),
        (4, "aborted", ""),
        (5, "control", "ABORT"),
        (6, "open", ""),
        (7, "aborted", ""),
        (8, "control", "ABORT"),
    ]
    some = await records(pages, **{"from": 1, "isolation": "everything", "limit": 2})
    assert ([each["offset"] for each in some["records"]], some["next"], some["is_end"]) == ([1, 2], 3, False)
    newest = await records(pages, isolation="everything", limit=2)
    assert [each["offset"] for each in newest["records"]] == [7, 8]
    assert (await records(pages, time=2**52))["records"] == []


@pytest.mark.process
async def test_what_shows_no_records_of_a_cluster_is_answered_with_a_sentence(
    broker: ObservedBroker, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path, status in (("orders-9", 404), ("nothing-0", 404), ("orders", 404), ("orders-0/records?from=x", 400)):
        answer = await pages(f"partitions/{path}" if "?" in path else f"partitions/{path}/records")
        assert (answer.status_code, list(answer.json())) == (status, ["error"]), path
    wire = await broker.wire()
    await wire.create_topic("large", **{"max.message.bytes": str(16 * 1024 * 1024)})
    large = TopicPartition("large", 0)
    await wire.produce(large, build_batch([NewRecord(b"k", bytes(3_000_000))], timestamp=1))
    await wire.produce(large, build_batch([NewRecord(b"k", b"after")], timestamp=1))
    first, after = (await records(pages, "large-0", **{"from": 0}))["records"]
    assert (first["value"]["size"], first["value"]["is_cut"], after["value"]["text"]) == (3_000_000, True, "after")


@pytest.mark.process
async def test_a_batch_of_a_cluster_that_fills_memory_is_not_received(
    broker: ObservedBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_records, "MOST_RESPONSE", 1_000_000)
    wire = await broker.wire()
    await wire.create_topic("large", **{"max.message.bytes": str(16 * 1024 * 1024)})
    await wire.produce(TopicPartition("large", 0), build_batch([NewRecord(b"k", bytes(3_000_000))], timestamp=1))
    found = cluster_records.ClusterRecords(client, lambda _: None, SystemClock())
    question = RecordsQuestion(0, None, 100, ShownRecords.COMMITTED, b"", b"", 1024)
    with pytest.raises(BadData, match="the batch at offset 0 of large-0 is larger than"):
        await found.read(TopicPartition("large", 0), question)
    await found.stop()
    assert (await client.metadata("large")).leader(TopicPartition("large", 0)) == 1  # its own connections go on
