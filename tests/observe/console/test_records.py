"""What the console shows of records, and to whom (console.md 5.2 and 6)."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from observed_broker import ORDERS_0, ObservedBroker, observed_broker
from waiting import HANG_S
from wire import Wire

from eosin.cli.serve import configured
from eosin.observe.console import record_picker, records_view
from eosin.observe.console.record_rows import cut
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import Compression, NewRecord, build_batch
from eosin.settings.settings import SettingError

pytestmark = pytest.mark.process


@pytest.fixture
async def broker() -> AsyncIterator[ObservedBroker]:
    async with observed_broker(eosin_console_enable=True) as broker:
        yield broker


@pytest.fixture
async def http(broker: ObservedBroker) -> AsyncIterator[httpx.AsyncClient]:
    async with client(broker) as found:
        yield found


def client(broker: ObservedBroker, **headers: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"http://{broker.http}/api/v1/", headers=headers, timeout=HANG_S)


async def look(http: httpx.AsyncClient, partition: str = "orders-0", **asked: Any) -> Any:
    answer = await http.get(f"partitions/{partition}/records", params=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def write(wire: Wire, *records: NewRecord, codec: Compression = Compression.NONE, topic: Any = ORDERS_0) -> int:
    batch = build_batch(list(records), timestamp=1_700_000_000_000, compression=codec)
    answer = await wire.produce(topic, batch)
    assert answer.error_code == ErrorCode.NONE
    return answer.base_offset


def offsets(found: Any) -> list[int]:
    return [each["offset"] for each in found["records"]]


async def test_each_isolation_shows_what_its_readers_get(broker: ObservedBroker, http: httpx.AsyncClient) -> None:
    wire = await broker.wire()
    await wire.append(ORDERS_0)  # 0
    shop = await broker.producer("shop-1")
    await shop.append(ORDERS_0, 2)  # 1, 2, and the marker at 3
    await shop.commit()
    await shop.completed()
    await shop.append(ORDERS_0)  # 4, and the marker at 5
    await shop.abort()
    await shop.completed()
    await shop.append(ORDERS_0)  # 6
    committed = await look(http, **{"from": 0})
    assert offsets(committed) == [0, 1, 2]
    assert {each["is_visible"] for each in committed["records"]} == {True}
    assert committed["is_end"]
    uncommitted = await look(http, **{"from": 0, "isolation": "uncommitted"})
    assert offsets(uncommitted) == [0, 1, 2, 4, 6]
    everything = await look(http, **{"from": 0, "isolation": "everything"})
    told = [(each["offset"], each.get("outcome", "plain")) for each in everything["records"]]
    assert told[2:] == [(2, "committed"), (3, "control"), (4, "aborted"), (5, "control"), (6, "open")]
    assert everything["records"][5]["marker"] == "ABORT"
    assert not everything["records"][4].get("is_visible", False)


@pytest.mark.parametrize("codec", list(Compression))
async def test_records_are_read_page_by_page_whatever_their_batches(
    broker: ObservedBroker, http: httpx.AsyncClient, codec: Compression
) -> None:
    wire = await broker.wire()
    for number in range(4):
        await write(wire, *(NewRecord(b"key", b"%d-%d" % (number, each)) for each in range(5)), codec=codec)
    seen, at = [], 3
    while at < 20:
        found = await look(http, **{"from": at, "limit": 4})
        assert 1 <= len(found["records"]) <= 4
        seen += offsets(found)
        at = found["next"]
    assert seen == list(range(3, 20))
    last = await look(http, limit=3)
    assert offsets(last) == [17, 18, 19]
    assert last["records"][0]["value"] == {"size": 3, "text": "3-2"}


async def test_long_values_are_cut_and_binary_ones_shown_as_digits(
    broker: ObservedBroker, http: httpx.AsyncClient
) -> None:
    wire = await broker.wire()
    long = "é".encode() * 2000
    await write(wire, NewRecord(b"\xff\x00", long, headers=(("trace\udcff", b"\x01"), ("none", None))))
    await write(wire, NewRecord(None, None))
    first, second = (await look(http, **{"from": 0, "cut": 7}))["records"]
    assert first["key"] == {"size": 2, "hex": "ff00"}
    assert first["value"] == {"size": 4000, "text": "ééé", "is_cut": True}
    assert first["headers"] == [{"name": "trace?", "value": {"size": 1, "text": "\x01"}}, {"name": "none"}]
    assert "key" not in second
    assert "value" not in second
    whole = (await look(http, **{"from": 0, "limit": 1, "cut": 10**6}))["records"][0]
    assert whole["value"]["text"] == long.decode()


def test_a_cut_never_splits_a_letter_and_never_takes_broken_text_for_text() -> None:
    assert cut("aé".encode(), 2) is not None
    found = cut("aé".encode(), 2)
    assert found is not None
    assert (found.text, found.hex) == ("a", None)
    broken = cut(b"a\xc3", 10)
    assert broken is not None
    assert (broken.text, broken.hex) == (None, "61c3")


async def test_records_are_searched_in_steps_that_say_how_far_they_looked(
    broker: ObservedBroker, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records_view, "MOST_EXAMINED", 50)
    monkeypatch.setattr(records_view, "RECORDS_PER_PIECE", 20)
    wire = await broker.wire()
    for number in range(12):
        await write(wire, *(NewRecord(b"%d" % each, b"value %d" % (number * 10 + each)) for each in range(10)))
    seen, at, questions = [], 0, 0
    while at < 120:
        found = await look(http, **{"from": at, "value": "value 7", "limit": 500})
        assert found["looked_at"] <= 50
        seen += offsets(found)
        at, questions = found["next"], questions + 1
    assert seen == [7, *range(70, 80)]
    assert questions == 3
    assert offsets(await look(http, **{"from": 0, "key": "9", "limit": 2})) == [9, 19]


async def test_a_search_looks_at_each_record_once_whatever_the_size_of_the_batches(
    broker: ObservedBroker, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records_view, "MOST_EXAMINED", 50)
    monkeypatch.setattr(records_view, "RECORDS_PER_PIECE", 20)
    wire = await broker.wire()
    for first in range(0, 120, 40):
        await write(wire, *(NewRecord(None, b"value") for _ in range(first, first + 40)))
    told, seen, at = [], [], 0
    while at < 120:
        found = await look(http, **{"from": at, "value": "value", "limit": 500})
        told.append((found["first"], found["looked_at"]))
        seen += offsets(found)
        at = found["next"]
    assert told == [(0, 50), (50, 50), (100, 20)]
    assert seen == list(range(120))


async def test_the_records_of_internal_topics_are_decoded(broker: ObservedBroker, http: httpx.AsyncClient) -> None:
    shop = await broker.producer("shop-1")
    await shop.append(ORDERS_0)
    await shop.add_offsets("readers")
    await shop.commit_offsets("readers", ORDERS_0, 1)
    await shop.commit()
    await shop.completed()
    names = [str(each) for each, _ in broker.server.services.partitions.hosted()]
    decoded: dict[str, list[Any]] = {"__transaction_state": [], "__consumer_offsets": []}
    for name in names:
        topic = name.rpartition("-")[0]
        if topic in decoded:
            found = await look(http, name, **{"from": 0, "isolation": "everything"})
            decoded[topic] += [each["decoded"] for each in found["records"] if "decoded" in each]
    states = [each["value"]["transaction_status"] for each in decoded["__transaction_state"]]
    assert states[0] == "Empty"
    assert {"Ongoing", "PrepareCommit"} <= set(states)
    assert decoded["__transaction_state"][0]["key"] == {"transactional_id": "shop-1"}
    assert [each["key"]["topic"] for each in decoded["__consumer_offsets"] if each["kind"] == "OffsetCommit"] == [
        "orders"
    ]


async def test_a_damaged_batch_and_one_that_grows_too_large_are_told_in_their_place(
    broker: ObservedBroker, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_picker, "LARGEST_BATCH", 10_000)
    wire = await broker.wire()
    await write(wire, NewRecord(b"k", bytes(20_000)), codec=Compression.GZIP)
    await write(wire, NewRecord(b"k", b"after"))
    first, second = (await look(http, **{"from": 0}))["records"]
    assert "cannot be shown: the records decompress to more than 10000 bytes" in first["value"]["text"]
    assert second["value"]["text"] == "after"


async def test_a_record_of_ten_megabytes_is_shown_by_its_beginning(
    broker: ObservedBroker, http: httpx.AsyncClient
) -> None:
    wire = await broker.wire()
    await wire.create_topic("large", **{"max.message.bytes": str(16 * 1024 * 1024)})
    value = json.dumps({"text": "x" * 10_000_000}).encode()
    await write(wire, NewRecord(b"big", value), topic=TopicPartition("large", 0))
    answer = await http.get("partitions/large-0/records", params={"from": 0})
    assert len(answer.content) < 4000
    assert answer.json()["records"][0]["value"]["size"] == len(value)
    one = await http.get("partitions/large-0/records", params={"from": 0, "limit": 1, "cut": 10**9})
    assert len(one.content) < 1.2 * 1024 * 1024
    many = await http.get("partitions/large-0/records", params={"from": 0, "isolation": "everything", "key": "big"})
    assert many.json()["looked_at"] == 1


async def test_a_batch_that_would_fill_memory_is_told_of_and_never_read(
    broker: ObservedBroker, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (record_picker, records_view):
        monkeypatch.setattr(module, "LARGEST_BATCH", 1_000_000)
    wire = await broker.wire()
    await wire.create_topic("large", **{"max.message.bytes": str(16 * 1024 * 1024)})
    large = TopicPartition("large", 0)
    await write(wire, NewRecord(b"k", bytes(8_000_000)), NewRecord(b"k", b""), topic=large)
    await write(wire, NewRecord(b"k", b"after"), topic=large)
    first, second = (await look(http, "large-0", **{"from": 0}))["records"]
    assert "offsets 0 to 1 cannot be shown: it has 8000" in first["value"]["text"]
    assert second["value"]["text"] == "after"
    one = await look(http, "large-0", **{"from": 0, "limit": 1})
    assert one["next"] == 2, "the sentence is for the whole batch"


@pytest.mark.parametrize(
    "query", ["isolation=none", "from=-1", "limit=many", "cut=-5", "key=" + "x" * 201, "value=" + "x" * 201]
)
async def test_a_request_that_does_not_ask_for_records_is_answered_with_a_sentence(
    http: httpx.AsyncClient, query: str
) -> None:
    answer = await http.get(f"partitions/orders-0/records?{query}")
    assert answer.status_code == 400
    assert answer.json()["error"]


async def test_records_can_be_turned_off_or_shown_without_their_values() -> None:
    async with (
        observed_broker(eosin_console_enable=True, eosin_console_records="off") as broker,
        client(broker) as http,
    ):
        answer = await http.get("partitions/orders-0/records")
        assert (answer.status_code, "eosin.console.records is off" in answer.text) == (403, True)
        assert (await http.get("partitions/orders-0/batches")).status_code == 200
    async with (
        observed_broker(eosin_console_enable=True, eosin_console_records="keys") as broker,
        client(broker) as http,
    ):
        await write(await broker.wire(), NewRecord(b"key", b"secret", headers=(("h", b"secret"),)))
        answer = await http.get("partitions/orders-0/records", params={"from": 0})
        assert "secret" not in answer.text
        assert answer.json()["records"][0]["value"] == {"size": 6, "is_hidden": True}
        searched = await http.get("partitions/orders-0/records", params={"from": 0, "value": "s"})
        assert (searched.status_code, "not searched" in searched.text) == (400, True)


AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


async def test_with_an_authorizer_the_console_reads_what_its_principal_may_read(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("correct-horse")
    async with (
        observed_broker(
            eosin_console_enable=True,
            authorizer_class_name=AUTHORIZER,
            super_users="User:admin",
            eosin_http_token_file=str(tmp_path / "token"),
        ) as broker,
        client(broker, authorization="Bearer correct-horse") as http,
    ):
        answer = await http.get("partitions/orders-0/records")
        assert answer.status_code == 403
        assert answer.json()["error"].startswith("User:ANONYMOUS may not read topic orders")
    async with (
        observed_broker(
            eosin_console_enable=True,
            authorizer_class_name=AUTHORIZER,
            super_users="User:admin",
            eosin_http_token_file=str(tmp_path / "token"),
            eosin_console_principal="User:admin",
        ) as broker,
        client(broker) as stranger,
        client(broker, authorization="Bearer correct-horse") as http,
    ):
        assert (await http.get("partitions/orders-0/records")).status_code == 200
        assert (await stranger.get("partitions/orders-0/records")).status_code == 401


async def test_where_every_client_must_prove_who_it_is_records_need_the_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("eosin.observe.console.record_access.is_open", lambda config, name: False)
    async with observed_broker(eosin_console_enable=True) as broker, client(broker) as http:
        answer = await http.get("partitions/orders-0/records")
        assert (answer.status_code, "eosin.http.token.file" in answer.text) == (403, True)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["eosin.console.principal=admin"], "must be TYPE:NAME"),
        (["eosin.console.principal=User:admin"], "needs eosin.http.token.file"),
        (["eosin.console.records=some"], "eosin.console.records"),
    ],
)
def test_settings_that_would_show_records_to_anybody_are_refused(settings: list[str], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        configured(["--console", *(part for each in settings for part in ("--set", each))])
