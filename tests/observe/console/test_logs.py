"""What the console tells of a partition's log (console.md 5.3), asked over HTTP while clients write."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from observed_broker import ORDERS_0, ObservedBroker, observed_broker
from waiting import HANG_S

from eosin.observe.console import log_view, worker_threads

pytestmark = pytest.mark.process


@pytest.fixture
async def broker() -> AsyncIterator[ObservedBroker]:
    async with observed_broker(eosin_console_enable=True) as broker:
        yield broker


@pytest.fixture
async def http(broker: ObservedBroker) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"http://{broker.http}/api/v1/", timeout=HANG_S) as client:
        yield client


async def look(http: httpx.AsyncClient, partition: str = "orders-0", **asked: Any) -> Any:
    answer = await http.get(f"partitions/{partition}/batches", params=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_log_is_shown_batch_by_batch_with_what_became_of_each(
    broker: ObservedBroker, http: httpx.AsyncClient
) -> None:
    plain = await broker.wire()
    await plain.append(ORDERS_0, 2)
    shop = await broker.producer("shop-1")
    await shop.append(ORDERS_0, 3)
    await shop.commit()
    await shop.completed()
    await shop.append(ORDERS_0)
    await shop.abort()
    await shop.completed()
    await shop.append(ORDERS_0)
    found = await look(http)
    told = [(each["base_offset"], each["last_offset"], each.get("outcome", "plain")) for each in found["batches"]]
    assert told == [
        (0, 1, "plain"),
        (2, 4, "committed"),
        (5, 5, "control"),
        (6, 6, "aborted"),
        (7, 7, "control"),
        (8, 8, "open"),
    ]
    commit, abort = found["batches"][2], found["batches"][4]
    assert (commit["marker"], abort["marker"]) == ("COMMIT", "ABORT")
    assert commit["coordinator_epoch"] == 0
    committed = found["batches"][1]
    assert committed["producer_id"] == shop.producer_id
    assert committed["sequence"] == 0
    assert (found["log_start"], found["last_stable"], found["high_watermark"], found["log_end"]) == (0, 8, 9, 9)
    assert found["open"][0]["first_offset"] == 8
    assert (found["first"], found["next"]) == (0, 9)


async def test_the_producers_of_a_log_have_their_names_while_a_page_watches(
    broker: ObservedBroker, http: httpx.AsyncClient
) -> None:
    shop = await broker.producer("shop-1")
    await shop.append(ORDERS_0)
    await http.get("stream", params={"once": "", "watch": "broker"})
    found = await look(http)
    assert found["producers"] == {str(shop.producer_id): "shop-1"}
    assert found["open"][0]["transactional_id"] == "shop-1"


async def test_a_log_is_read_on_from_where_an_answer_ended(broker: ObservedBroker, http: httpx.AsyncClient) -> None:
    wire = await broker.wire()
    for _ in range(7):
        await wire.append(ORDERS_0, 2)
    offsets, at = [], 0
    while at < 14:
        found = await look(http, **{"from": at, "limit": 3})
        assert 1 <= len(found["batches"]) <= 3
        offsets += [each["base_offset"] for each in found["batches"]]
        at = found["next"]
    assert offsets == list(range(0, 14, 2))
    assert (await look(http, **{"from": 14}))["batches"] == []
    assert (await look(http, **{"from": 10**15}))["first"] == 14


async def test_more_batches_than_a_page_can_hold_come_as_counts_by_outcome(
    broker: ObservedBroker, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_view, "MOST_BATCHES", 20)
    monkeypatch.setattr(log_view, "MOST_BINS", 4)
    shop = await broker.producer("shop-1")
    for number in range(20):
        await shop.append(ORDERS_0, 4)
        await (shop.abort() if number % 2 else shop.commit())
        await shop.completed()
    found = await look(http, **{"from": 0, "to": 100})
    assert found["batches"] == []
    assert [(each["first"], each["next"]) for each in found["bins"]] == [(0, 25), (25, 50), (50, 75), (75, 100)]
    for outcome, records in (("committed", 40), ("aborted", 40), ("control", 20)):
        assert sum(each["records"].get(outcome, 0) for each in found["bins"]) == records
    assert not [each for each in found["bins"] if not each.get("is_whole", True)]
    monkeypatch.setattr(log_view, "BATCHES_PER_BIN", 3)
    found = await look(http, **{"from": 0, "to": 100})
    assert {each.get("batches") for each in found["bins"]} == {3}
    assert not [each for each in found["bins"] if each.get("is_whole", True)]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("partitions/orders-9/batches", 404),
        ("partitions/orders/batches", 404),
        ("partitions/orders-²/batches", 404),
        ("partitions/nobody-0/batches", 404),
        ("partitions/orders-0/batches?from=-1", 400),
        ("partitions/orders-0/batches?from=1e3", 400),
        ("partitions/orders-0/batches?from=99999999999999999999", 400),
        ("partitions/orders-0/batches?limit=x", 400),
    ],
)
async def test_a_request_that_does_not_ask_about_a_log_is_answered_with_a_sentence(
    http: httpx.AsyncClient, path: str, status: int
) -> None:
    answer = await http.get(path)
    assert answer.status_code == status
    assert "Traceback" not in answer.text
    assert answer.json()["error"]


async def test_more_jobs_than_two_are_told_to_come_again(
    broker: ObservedBroker, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_threads, "MOST_JOBS", 0)
    answer = await http.get("partitions/orders-0/batches")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"


async def test_an_empty_log_and_one_that_starts_later_are_shown(
    broker: ObservedBroker, http: httpx.AsyncClient
) -> None:
    assert (await look(http, "orders-1"))["batches"] == []
    wire = await broker.wire()
    for _ in range(4):
        await wire.append(ORDERS_0)
    log = broker.server.services.partitions.replica(ORDERS_0)
    assert not isinstance(log, int)
    log.move_log_start(2)
    found = await look(http, **{"from": 0})
    assert (found["log_start"], found["first"]) == (2, 2)
    assert [each["base_offset"] for each in found["batches"]] == [2, 3]


async def test_a_log_that_is_offline_is_told_in_a_sentence(broker: ObservedBroker, http: httpx.AsyncClient) -> None:
    wire = await broker.wire()
    await wire.append(ORDERS_0)
    log = broker.server.services.partitions.replica(ORDERS_0)
    assert not isinstance(log, int)
    log.fail(OSError(5, "Input/output error"))
    answer = await http.get("partitions/orders-0/batches")
    assert answer.status_code in (404, 503)
    assert answer.json()["error"]


async def test_readers_of_a_log_do_not_hold_up_the_event_loop(broker: ObservedBroker, http: httpx.AsyncClient) -> None:
    """Judged by what a step does, not by the clock: no call beside it looks at more than a few hundred batches."""
    wire = await broker.wire()
    for _ in range(300):
        await wire.append(ORDERS_0)
    console = broker.server.observability.served.console if broker.server.observability else None
    assert console is not None
    sizes: list[int] = []
    beside = console.work.beside

    async def counted(*args: Any, **kwargs: Any) -> Any:
        found = await beside(*args, **kwargs)
        sizes.append(len(found.found))
        return found

    console.work.beside = counted  # type: ignore[method-assign]
    found = await asyncio.wait_for(look(http, **{"from": 0, "to": 300}), HANG_S)
    assert len(found["batches"]) == 300
    assert max(sizes) <= log_view.BATCHES_PER_PIECE


async def test_a_question_that_is_under_way_when_the_broker_stops_ends_with_a_sentence(
    broker: ObservedBroker, http: httpx.AsyncClient
) -> None:
    await (await broker.wire()).append(ORDERS_0)
    console = broker.server.observability.served.console if broker.server.observability else None
    assert console is not None
    console.work.stop()
    answer = await http.get("partitions/orders-0/batches")
    assert (answer.status_code, bool(answer.json()["error"])) == (503, True)
