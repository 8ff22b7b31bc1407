"""A topic on the console: settings and where they come from, partitions, producers, groups; topics made, changed and
deleted there, and test records (console.md 5.2 and 5.5)."""

import json
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from observed_broker import ORDERS_0, ObservedBroker, observed_broker
from waiting import HANG_S
from wire_group import RawMember

from eosin.client.client import Client
from eosin.client.groups import GroupAdmin

pytestmark = pytest.mark.process

TOKEN = "correct-horse"
RIGHT = {"authorization": f"Bearer {TOKEN}"}


@asynccontextmanager
async def acting_broker(folder: Path, **settings: Any) -> AsyncIterator[ObservedBroker]:
    (folder / "token").write_text(TOKEN)
    asked = {"eosin_console_enable": True, "eosin_console_actions_enable": True, **settings}
    async with observed_broker(eosin_http_token_file=str(folder / "token"), **asked) as broker:
        yield broker


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[ObservedBroker]:
    async with acting_broker(tmp_path) as broker:
        yield broker


@pytest.fixture
async def http(broker: ObservedBroker) -> AsyncIterator[httpx.AsyncClient]:
    async with client(broker) as found:
        yield found


def client(broker: ObservedBroker) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"http://{broker.http}/api/v1/", headers=RIGHT, timeout=HANG_S)


async def act(http: httpx.AsyncClient, action: str, **asked: Any) -> tuple[int, str]:
    """The status of an action, and its sentence."""
    answer = await http.post(f"actions/{action}", json=asked)
    told = answer.json()
    return answer.status_code, told.get("text") or told["error"]


async def topic(http: httpx.AsyncClient, name: str) -> dict[str, Any]:
    answer = await http.get(f"topics/{name}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def setting(found: dict[str, Any], name: str) -> dict[str, Any]:
    (one,) = [each for each in found["configs"] if each["key"] == name]
    return dict(one)


async def records(http: httpx.AsyncClient, partition: str, **asked: Any) -> list[dict[str, Any]]:
    answer = await http.get(f"partitions/{partition}/records", params=asked)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["records"]
    return found


async def test_a_topic_tells_its_partitions_and_where_each_setting_comes_from(tmp_path: Path) -> None:
    async with acting_broker(tmp_path, log_retention_ms=86_400_000, given={"log.retention.ms": "86400000"}) as broker:
        await broker.server.cluster.create_topic("prices", partitions=3, configs={"cleanup.policy": "compact"})
        async with client(broker) as http:
            found = await topic(http, "prices")
    assert (found["partitions"], [each["leader"] for each in found["replicas"]]) == (3, [1, 1, 1])
    assert all(each["in_sync"] == each["replicas"] == [1] and each["segments"] >= 0 for each in found["replicas"])
    own, of_the_broker, default = (setting(found, n) for n in ("cleanup.policy", "retention.ms", "segment.bytes"))
    assert (own["value"], own["source"], own["is_own"]) == ("compact", "topic", True)
    assert (of_the_broker["value"], of_the_broker["source"]) == ("86400000", "broker")
    assert (default["source"], default["is_own"]) == ("default", False)
    assert default["help"]


async def test_a_topic_tells_its_producers_those_with_an_open_transaction_first(
    broker: ObservedBroker, http: httpx.AsyncClient
) -> None:
    done, shop = await broker.producer("done"), await broker.producer("shop-1")
    await shop.append(ORDERS_0, 3)
    await done.append(ORDERS_0)
    await done.commit()
    await done.completed()
    await http.get("stream?once")  # a look at the broker, by which names of producers are known
    found = await topic(http, "orders")
    told = [(each["transactional_id"], each["first_offset"], each["partition"]) for each in found["producers"]]
    assert told == [("shop-1", 0, 0), ("done", -1, 0)]
    assert found["producers_known"] == 2
    assert found["producers"][0]["last_sequence"] == 2


async def test_a_topic_tells_the_groups_that_read_it_and_no_others(
    broker: ObservedBroker, http: httpx.AsyncClient
) -> None:
    shop = await broker.producer("shop-1")
    await shop.append(ORDERS_0, 3)
    await shop.commit()
    await shop.completed()
    await broker.server.cluster.create_topic("other", partitions=1)
    async with Client(broker.address) as committer:
        await GroupAdmin(committer).commit("readers", {ORDERS_0: 1})
    await http.get("stream?once")
    found = await topic(http, "orders")
    (group,) = found["groups"]
    assert (group["key"], group["partitions"], group["lag"], group["is_exact"]) == ("readers", 1, 2, True)
    assert (await topic(http, "other"))["groups"] == []


async def test_a_group_that_is_blocked_and_has_committed_nothing_is_on_the_topics_page_and_in_the_list(
    broker: ObservedBroker, http: httpx.AsyncClient
) -> None:
    shop = await broker.producer("shop-1")
    await shop.append(ORDERS_0, 3)
    await RawMember(await broker.wire(), "blocked").assigned(ORDERS_0)
    listed = (await http.get("stream?once&tables=groups")).text
    (group,) = (await topic(http, "orders"))["groups"]
    assert (group["key"], group["undecided"], group["uncommitted"], group["lag"]) == ("blocked", 3, 1, 0)
    (found,) = re.findall(r'\{"key":"blocked"[^}]*\}', listed)
    row = json.loads(found)
    assert (row["undecided"], row["uncommitted"], row["to_end"]) == (3, 1, 3)


async def test_a_topic_that_is_not_there_is_said_so(http: httpx.AsyncClient) -> None:
    answer = await http.get("topics/nothing")
    assert (answer.status_code, answer.json()) == (404, {"error": "this broker knows no 'nothing'"})


async def test_a_topic_is_made_changed_and_deleted_and_the_audit_log_says_so(
    broker: ObservedBroker, http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "eosin.audit"):
        made = await act(http, "create-topic", name="prices", partitions=3, configs={"retention.ms": "1000"})
        assert made == (200, "Topic prices is there.")
        found = await topic(http, "prices")
        assert (found["partitions"], setting(found, "retention.ms")["value"]) == (3, "1000")
        which = {"name": "prices", "topic_id": found["topic_id"]}
        changed = await act(http, "change-topic", **which, config="retention.ms", value="2000", before="1000")
        assert changed == (200, "retention.ms of prices is 2000 now.")
        stale = await act(http, "change-topic", **which, config="retention.ms", value="3000", before="1000")
        assert stale[0] == 409
        assert setting(await topic(http, "prices"), "retention.ms")["value"] == "2000"
        back = await act(http, "change-topic", **which, config="retention.ms", before="2000")
        assert back == (200, "retention.ms of prices follows the broker again.")
        assert not setting(await topic(http, "prices"), "retention.ms")["is_own"]
        assert (await act(http, "delete-topic", **which, typed="Prices"))[0] == 400
        assert await act(http, "delete-topic", **which, typed="prices") == (200, "Topic prices was deleted.")
    assert (await http.get("topics/prices")).status_code == 404
    told = [each.getMessage() for each in caplog.records]
    assert [each for each in told if each.startswith("the console")] == [
        "the console creates a topic",
        "the console changes a topic",
        "the console changes a topic",
        "the console deletes a topic",
    ]


async def test_a_topic_of_the_same_name_that_came_later_is_not_deleted(
    broker: ObservedBroker, http: httpx.AsyncClient
) -> None:
    before = await topic(http, "orders")
    await broker.server.cluster.delete_topic("orders")
    await broker.server.cluster.create_topic("orders", partitions=1)
    which = {"name": "orders", "topic_id": before["topic_id"], "typed": "orders"}
    status, told = await act(http, "delete-topic", **which)
    assert (status, "another topic has this name by now" in told) == (409, True)
    assert (await topic(http, "orders"))["partitions"] == 1


@pytest.mark.parametrize(
    ("action", "asked", "status", "words"),
    [
        ("create-topic", {"name": "orders"}, 409, "already exists"),
        ("create-topic", {"name": "a/b"}, 400, "INVALID_TOPIC"),
        ("create-topic", {"name": "many", "replication_factor": 3}, 400, "INVALID_REPLICATION_FACTOR"),
        ("create-topic", {"name": "odd", "configs": {"nonsense": "1"}}, 400, "INVALID_CONFIG"),
        ("create-topic", {"name": "odd", "partitions": "three"}, 400, "no such action"),
        ("delete-topic", {"name": "none", "topic_id": "", "typed": "none"}, 404, "no topic"),
        ("test-record", {"partition": "orders-7", "value": "x"}, 404, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("test-record", {"partition": "orders", "value": "x"}, 404, "no log"),
        ("test-record", {"partition": "orders-0", "outcome": "maybe"}, 400, "no such action"),
        ("test-record", {"partition": "__transaction_state-0", "value": "x"}, 400, "internal topics"),
        ("delete-records", {"partition": "orders-0", "before": 9, "log_start": 0, "typed": "orders-0"}, 400, "not so"),
        ("delete-records", {"partition": "orders-0", "before": 0, "log_start": 0, "typed": "orders-0"}, 400, "nothing"),
        ("delete-records", {"partition": "orders-0", "before": 9, "log_start": 4, "typed": "orders-0"}, 409, "look"),
        ("delete-records", {"partition": "orders-0", "before": 9, "log_start": 0, "typed": ""}, 400, "type the"),
    ],
)
async def test_a_request_about_topics_that_cannot_be_done_is_answered_in_words(
    broker: ObservedBroker, http: httpx.AsyncClient, action: str, asked: dict[str, Any], status: int, words: str
) -> None:
    shop = await broker.producer("shop-1")  # which makes the coordinators' topic
    found, told = await act(http, action, **asked)
    assert (found, words in told) == (status, True), told
    assert shop.producer_id >= 0


async def test_a_test_record_is_written_with_key_value_and_headers(http: httpx.AsyncClient) -> None:
    asked = {"partition": "orders-1", "key": "k", "value": "grüße", "headers": {"from": "console"}}
    assert await act(http, "test-record", **asked) == (200, "The record has offset 0 of orders-1.")
    (found,) = await records(http, "orders-1", **{"from": 0})
    assert (found["key"]["text"], found["value"]["text"]) == ("k", "grüße")
    assert [(each["name"], each["value"]["text"]) for each in found["headers"]] == [("from", "console")]
    assert found.get("outcome", "plain") == "plain"


async def test_a_test_record_in_a_transaction_is_committed_or_aborted(
    broker: ObservedBroker, http: httpx.AsyncClient
) -> None:
    for outcome, words in (("abort", "aborted"), ("commit", "committed")):
        status, told = await act(http, "test-record", partition="orders-0", value=outcome, outcome=outcome)
        assert (status, told.endswith(f"in a transaction that was {words}.")) == (200, True), told
    assert [each["value"]["text"] for each in await records(http, "orders-0", **{"from": 0})] == ["commit"]
    everything = await records(http, "orders-0", **{"from": 0}, isolation="everything")
    assert [each["outcome"] for each in everything] == ["aborted", "control", "committed", "control"]


async def test_records_below_an_offset_are_deleted(http: httpx.AsyncClient) -> None:
    for number in range(3):
        await act(http, "test-record", partition="orders-0", value=str(number))
    asked = {"partition": "orders-0", "before": 2, "log_start": 0, "typed": "orders-0"}
    assert await act(http, "delete-records", **asked) == (200, "orders-0 begins at 2 now.")
    assert [each["offset"] for each in await records(http, "orders-0", **{"from": 0})] == [2]


async def test_records_are_found_by_their_time(broker: ObservedBroker, http: httpx.AsyncClient) -> None:
    for _ in range(3):
        await act(http, "test-record", partition="orders-0", value="x")
        await broker.server.clock.sleep(5)
    times = [each["timestamp"] for each in await records(http, "orders-0", **{"from": 0})]
    assert [each["offset"] for each in await records(http, "orders-0", time=times[1])] == [1, 2]
    assert [each["offset"] for each in await records(http, "orders-0", time=times[1] + 1)] == [2]
    assert await records(http, "orders-0", time=times[2] + 1) == []
    both = await http.get("partitions/orders-0/records", params={"from": 0, "time": 1})
    assert (both.status_code, both.json()["error"]) == (400, "give from, or time, not both")


async def test_the_consoles_principal_can_do_what_the_authorizer_lets_it_and_no_more(tmp_path: Path) -> None:
    async with (
        acting_broker(
            tmp_path,
            authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            super_users="User:admin",
        ) as broker,
        client(broker) as http,
    ):
        found = await topic(http, "orders")
        which = {"name": "orders", "topic_id": found["topic_id"]}
        for action, asked in (
            ("create-topic", {"name": "prices"}),
            ("delete-topic", {**which, "typed": "orders"}),
            ("change-topic", {**which, "config": "retention.ms", "value": "1"}),
            ("test-record", {"partition": "orders-0", "value": "x"}),
            ("delete-records", {"partition": "orders-0", "before": 1, "log_start": 0, "typed": "orders-0"}),
        ):
            status, told = await act(http, action, **asked)
            assert (status, "TOPIC_AUTHORIZATION_FAILED" in told) == (403, True), (action, told)
        assert "prices" not in broker.server.cluster.topics
        assert broker.server.services.partitions.get(ORDERS_0).log_end_offset == 0  # type: ignore[union-attr]


async def test_a_cookie_is_no_right_to_change_topics(broker: ObservedBroker, http: httpx.AsyncClient) -> None:
    cookie = (await http.post("session", json={})).headers["set-cookie"].partition(";")[0]
    async with httpx.AsyncClient(base_url=http.base_url, headers={"cookie": cookie}) as page:
        assert (await page.get("topics/orders")).status_code == 200
        assert (await page.post("actions/create-topic", json={"name": "prices"})).status_code == 401
    assert "prices" not in broker.server.cluster.topics
