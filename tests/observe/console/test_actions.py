"""What an operator may do from the console, and who else may not (console.md 5.5 and 6)."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace
from observed_broker import ORDERS_0, ObservedBroker, observed_broker
from waiting import HANG_S
from wire_group import RawMember
from wire_producer import RawProducer

from eosin.cli.serve import configured
from eosin.model.features import GROUP_VERSION
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from eosin.settings.settings import SettingError

pytestmark = pytest.mark.process

TOKEN = "correct-horse"
RIGHT = {"authorization": f"Bearer {TOKEN}"}
ABORT = "actions/abort-hanging"
END = "actions/end-transaction"
FENCE = "actions/fence-id"
REMOVE = "actions/remove-member"


@asynccontextmanager
async def acting_broker(folder: Path, **settings: Any) -> AsyncIterator[ObservedBroker]:
    (folder / "token").write_text(TOKEN)
    asked = {"eosin_console_enable": True, "eosin_console_actions_enable": True, **settings}
    async with observed_broker(eosin_http_token_file=str(folder / "token"), **asked) as broker:
        yield broker


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[ObservedBroker]:
    async with acting_broker(tmp_path, transaction_partition_verification_enable=False) as broker:
        yield broker


@pytest.fixture
async def http(broker: ObservedBroker) -> AsyncIterator[httpx.AsyncClient]:
    async with client(broker) as found:
        yield found


def client(broker: ObservedBroker) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"http://{broker.http}/api/v1/", headers=RIGHT, timeout=HANG_S)


async def hanging(broker: ObservedBroker) -> RawProducer:
    """A producer that has written, in a transaction that its coordinator has not heard of."""
    lost = await broker.producer("lost", level=1)
    await lost.append(ORDERS_0, 2)
    return lost


def abort_of(lost: RawProducer, **other: Any) -> dict[str, Any]:
    return {
        "partition": "orders-0",
        "producer_id": lost.producer_id,
        "producer_epoch": lost.producer_epoch,
        "first_offset": 0,
        "typed": "orders-0",
        **other,
    }


def end_of(broker: ObservedBroker, name: str, **other: Any) -> dict[str, Any]:
    txn = broker.server.services.transactions.txn(name)
    assert txn is not None
    asked = {"transactional_id": name, "producer_id": txn.producer_id, "producer_epoch": txn.producer_epoch}
    return {**asked, "start_ms": txn.start_ms, "typed": name, **other}


async def test_a_hanging_transaction_is_aborted_and_the_log_says_by_whom(
    broker: ObservedBroker, http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    lost = await hanging(broker)
    with caplog.at_level(logging.INFO, "eosin.audit"):
        answer = await http.post(ABORT, json=abort_of(lost))
    assert answer.status_code == 200, answer.text
    assert answer.json()["text"].endswith("in orders-0 was aborted.")
    assert "the console aborts a hanging transaction" in caplog.text
    found = (await http.get("partitions/orders-0/batches")).json()
    assert [each.get("outcome", "plain") for each in found["batches"]] == ["aborted", "control"]
    assert found["last_stable"] == 3
    again = await http.post(ABORT, json=abort_of(lost))
    assert (again.status_code, "look again" in again.text) == (409, True)


async def test_an_abort_from_the_console_is_the_operators_and_no_healing(
    broker: ObservedBroker, http: httpx.AsyncClient
) -> None:
    lost = await hanging(broker)
    assert (await http.post(ABORT, json=abort_of(lost))).status_code == 200
    told = (await http.get("explain/transactions/lost")).json()
    pair = f"producer {lost.producer_id}/{lost.producer_epoch}"
    assert told["text"].startswith("lost: an operator, eosin-console (eosin-console ")
    assert f"aborted the transaction of {pair} in orders-0 at" in told["text"]
    assert [each["kind"] for each in told["facts"]["history"]["notable"]] == ["operator"]
    assert broker.server.services.recorder is not None
    assert broker.server.services.recorder.stats.healed == 0


async def test_a_transaction_that_its_coordinator_will_end_is_not_taken_for_one_that_hangs(
    broker: ObservedBroker, http: httpx.AsyncClient
) -> None:
    shop = await broker.producer("shop-1")
    await shop.append(ORDERS_0)
    answer = await http.post(ABORT, json=abort_of(shop))
    assert (answer.status_code, "does not hang" in answer.text) == (409, True)
    await shop.commit()


async def test_an_open_transaction_is_ended_and_its_producer_fenced(
    broker: ObservedBroker, http: httpx.AsyncClient
) -> None:
    shop = await broker.producer("shop-1")
    await shop.append(ORDERS_0)
    stale = await http.post(END, json=end_of(broker, "shop-1", start_ms=1))
    assert stale.status_code == 409
    answer = await http.post(END, json=end_of(broker, "shop-1"))
    assert answer.status_code == 200, answer.text
    assert (await shop.end(commit=True)).error_code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    told = (await http.get("explain/transactions/shop-1")).json()
    assert "eosin-console" in str(told)
    assert (await http.post(END, json=end_of(broker, "shop-1"))).status_code == 409


async def test_a_producer_at_rest_is_fenced_and_its_next_request_names_the_operator(
    broker: ObservedBroker, http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    shop = await broker.producer("shop-1")
    asked = {each: value for each, value in end_of(broker, "shop-1").items() if each != "start_ms"}
    assert (await http.post(FENCE, json={**asked, "typed": "shop"})).status_code == 400
    await shop.append(ORDERS_0)
    busy = await http.post(FENCE, json=asked)
    assert (busy.status_code, "has a transaction by now" in busy.text) == (409, True)
    await shop.commit()
    await shop.completed()
    stale = await http.post(FENCE, json=asked)
    assert (stale.status_code, "another producer has shop-1 by now" in stale.text) == (409, True)
    asked = {each: value for each, value in end_of(broker, "shop-1").items() if each != "start_ms"}
    with caplog.at_level(logging.INFO, "eosin.audit"):
        answer = await http.post(FENCE, json=asked)
    assert (answer.status_code, answer.json()) == (200, {"text": "The producer of shop-1 is fenced."})
    assert "the console fences a producer" in caplog.text
    assert await shop.add(ORDERS_0) in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    told = (await http.get("explain/transactions/shop-1")).json()
    assert told["explained"]["cause"] == "operator"
    assert f"because an operator fenced epoch {shop.producer_epoch} at" in told["text"]
    assert "by eosin-console" in told["text"]
    await broker.producer("shop-1")  # a new instance gets the id as always


async def test_a_member_is_removed_from_its_group_which_tells_why(
    broker: ObservedBroker, http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    member = RawMember(await broker.wire("reader-1"), "readers", instance_id="desk-1")
    await member.joined()
    await member.sync({member.member_id: b""})
    (seen,) = (await http.get("explain/groups/readers")).json()["facts"]["seen_members"]
    assert seen["heard_ms"] > 0
    asked = {"group": "readers", "member_id": seen["member_id"]}
    with caplog.at_level(logging.INFO, "eosin.audit"):
        answer = await http.post(REMOVE, json=asked)
    assert answer.status_code == 200, answer.text
    assert answer.json()["text"].startswith("reader-1 was removed from readers.")
    assert "the console removes a member" in caplog.text
    told = (await http.get("explain/groups/readers")).json()
    assert "seen_members" not in told["facts"]
    assert "removed by an operator in the console" in str(told["explained"]["timeline"])
    again = await http.post(REMOVE, json=asked)
    assert (again.status_code, "no such member any more" in again.text) == (409, True)
    assert (await http.post(REMOVE, json={**asked, "group": "none"})).status_code == 404


async def test_a_member_of_a_consumer_group_is_removed_and_its_topic_shows_the_group(
    broker: ObservedBroker, http: httpx.AsyncClient
) -> None:
    await broker.server.cluster.finalize_levels({GROUP_VERSION: 1})
    joining = ConsumerGroupHeartbeatRequest(
        group_id="consumers",
        member_id="m",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("orders",),
        topic_partitions=(),
    )
    assert (await (await broker.wire("reader-1")).ask(joining, 1)).error_code == ErrorCode.NONE
    (group,) = (await http.get("topics/orders")).json()["groups"]
    assert (group["key"], group["state"], group["members"], group["uncommitted"]) == ("consumers", "Stable", 1, 2)
    removed = await http.post(REMOVE, json={"group": "consumers", "member_id": "m"})
    assert removed.json()["text"].startswith("reader-1 was removed from consumers.")
    told = (await http.get("explain/groups/consumers")).json()
    assert told["facts"]["state"] == "Empty"
    assert "removed by an operator in the console" in str(told["explained"]["timeline"])


async def test_members_of_consumer_groups_are_seen_with_their_last_sign_of_life(
    broker: ObservedBroker, http: httpx.AsyncClient
) -> None:
    await broker.server.cluster.finalize_levels({GROUP_VERSION: 1})
    wire = await broker.wire("reader-1")
    beat = ConsumerGroupHeartbeatRequest(group_id="consumers", member_id="m")
    joining = replace(beat, rebalance_timeout_ms=60_000, subscribed_topic_names=("orders",), topic_partitions=())
    epoch = (await wire.ask(joining, 1)).member_epoch

    async def seen() -> Any:
        told = (await http.get("explain/groups/consumers")).json()
        return told["now_ms"], told["facts"]["seen_members"][0]["heard_ms"]

    await broker.server.clock.sleep(60)
    now_ms, silent_since_ms = await seen()
    assert now_ms - silent_since_ms >= 50
    assert (await wire.ask(replace(beat, member_epoch=epoch), 1)).error_code == ErrorCode.NONE
    _, heard_ms = await seen()
    assert heard_ms - silent_since_ms >= 50


async def test_members_are_seen_with_their_last_sign_of_life(broker: ObservedBroker, http: httpx.AsyncClient) -> None:
    member = RawMember(await broker.wire("reader-1"), "readers")
    await member.joined()
    await member.sync({member.member_id: b""})

    async def seen() -> Any:
        told = (await http.get("explain/groups/readers")).json()
        return told["now_ms"], told["facts"]["seen_members"][0]["heard_ms"]

    await broker.server.clock.sleep(60)
    now_ms, silent_since_ms = await seen()
    assert now_ms - silent_since_ms >= 50
    assert await member.heartbeat() == ErrorCode.NONE
    _, heard_ms = await seen()
    assert heard_ms - silent_since_ms >= 50


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"authorization": "Bearer wrong-horse"}, 401),
        ({"authorization": ""}, 401),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}, 403),
        ({"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}, 403),
        ({"host": "evil.example"}, 421),
    ],
)
async def test_an_action_of_another_site_or_without_the_token_changes_nothing(
    broker: ObservedBroker, http: httpx.AsyncClient, headers: dict[str, str], status: int
) -> None:
    lost = await hanging(broker)
    answer = await http.post(ABORT, json=abort_of(lost), headers=headers)
    assert answer.status_code == status
    assert (await http.get("partitions/orders-0/batches")).json()["last_stable"] == 0


async def test_the_cookie_of_a_page_is_no_right_to_act(broker: ObservedBroker, http: httpx.AsyncClient) -> None:
    lost = await hanging(broker)
    cookie = (await http.post("session", json={})).headers["set-cookie"].partition(";")[0]
    async with httpx.AsyncClient(base_url=http.base_url, headers={"cookie": cookie}) as page:
        assert (await page.get("connections")).status_code == 200
        assert (await page.post(ABORT, json=abort_of(lost))).status_code == 401


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b'{"partition": "orders-0"}', 400),
        (b"\xff", 400),
        (b"{" + b" " * 20_000 + b"}", 413),
    ],
)
async def test_a_request_that_is_no_action_is_refused_with_a_sentence(
    http: httpx.AsyncClient, content: bytes, status: int
) -> None:
    answer = await http.post(ABORT, content=content, headers={"content-type": "application/json"})
    assert (answer.status_code, bool(answer.json()["error"])) == (status, True)
    assert (await http.get(ABORT)).status_code == 405


async def test_nothing_happens_before_the_name_is_typed(broker: ObservedBroker, http: httpx.AsyncClient) -> None:
    lost = await hanging(broker)
    assert (await http.post(ABORT, json=abort_of(lost, typed=""))).status_code == 400
    assert (await http.post(ABORT, json=abort_of(lost, partition="none-0", typed="none-0"))).status_code == 404
    assert (await http.post(END, json=end_of(broker, "lost", typed="Lost"))).status_code == 400
    unknown = {**end_of(broker, "lost"), "transactional_id": "nobody", "typed": "nobody"}
    assert (await http.post(END, json=unknown)).status_code == 404


async def test_an_authorizer_decides_about_actions_too(tmp_path: Path) -> None:
    async with (
        acting_broker(
            tmp_path,
            authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            super_users="User:admin",
        ) as broker,
        client(broker) as http,
    ):
        asked = {"partition": "orders-0", "producer_id": 1, "producer_epoch": 0, "first_offset": 0, "typed": "orders-0"}
        answer = await http.post(ABORT, json=asked)
        assert (answer.status_code, answer.json()["error"]) == (403, "User:ANONYMOUS may not alter the cluster")


async def test_without_the_setting_there_are_no_actions(tmp_path: Path) -> None:
    async with acting_broker(tmp_path, eosin_console_actions_enable=False) as broker, client(broker) as http:
        assert (await http.post(ABORT, json={})).status_code == 404


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--console", "--console-actions"], "needs eosin.http.token.file"),
        (["--console-actions"], "needs eosin.console.enable"),
    ],
)
def test_actions_without_a_token_or_a_console_end_the_start(arguments: list[str], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        configured(arguments)
