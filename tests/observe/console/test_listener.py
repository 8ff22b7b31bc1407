"""The console over HTTP: its pages, its stream, and what it refuses (console.md 5.1 and 6)."""

import asyncio
import gzip
import hashlib
import json
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import pytest
from observed_broker import ORDERS_0, ObservedBroker, observed_broker
from waiting import HANG_S, until

from eosin.cli.serve import configured
from eosin.node.configuration import load_config
from eosin.observe.console import streams
from eosin.observe.console.page_routes import static_files
from eosin.settings.settings import SettingError

pytestmark = pytest.mark.process

TOKEN = "correct-horse"


@pytest.fixture
async def broker() -> AsyncIterator[ObservedBroker]:
    async with observed_broker(eosin_console_enable=True) as broker:
        yield broker


def client(broker: ObservedBroker, **headers: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"http://{broker.http}", headers=headers, timeout=HANG_S)


class Page:
    """A page as a script: it applies what the stream sends."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines
        self.tables: dict[str, dict[Any, Any]] = {}
        self.last = ""
        self.kinds: list[str] = []

    async def until(self, seen: Any) -> None:
        """Read on until `seen(tables)`."""
        async with asyncio.timeout(HANG_S):
            while not seen(self.tables):
                line = await anext(self._lines)
                kind, _, text = line.partition(": ")
                if kind == "id":
                    self.last = text
                elif kind == "event":
                    self.kinds.append(text)
                elif kind == "data" and text != "{}":
                    self._apply(json.loads(text))

    def _apply(self, frame: Any) -> None:
        for name, change in frame["tables"].items():
            table = self.tables.setdefault(name, {})
            if change.get("reset"):
                table.clear()
            for key in change.get("gone", ()):
                table.pop(key, None)
            table.update({row["key"]: row for row in change.get("rows", ())})


async def test_the_page_runs_its_own_files_alone_and_stands_in_no_frame(broker: ObservedBroker) -> None:
    async with client(broker) as http:
        page = await http.get("/")
        policy = page.headers["content-security-policy"]
        assert page.status_code == 200
        assert "default-src 'none'; script-src 'self'; style-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert page.headers["x-frame-options"] == "DENY"
        assert "access-control-allow-origin" not in page.headers
        assert "<script>" not in page.text
        assert (await http.get("/static/console.js")).headers["content-type"].startswith("text/javascript")
        assert (
            (await http.get("/api/v1/explain/groups/nobody"))
            .headers["content-security-policy"]
            .startswith("default-src 'none'; frame-ancestors")
        )


@pytest.mark.parametrize(
    "path", ["/static/", "/static/none.js", "/static/../console.py", "/static/%2e%2e/console.py", "/static/vendor"]
)
async def test_nothing_but_the_listed_files_is_served(broker: ObservedBroker, path: str) -> None:
    async with client(broker) as http:
        assert (await http.get(path)).status_code == 404


async def test_without_the_console_its_paths_are_not_there() -> None:
    async with observed_broker() as broker, client(broker) as http:
        for path in ("/", "/static/console.js", "/api/v1/stream", "/api/v1/explain/groups/g"):
            assert (await http.get(path)).status_code == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}, 403),
        ({"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}, 403),
        ({"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}, 200),
    ],
)
async def test_the_stream_is_told_to_pages_of_the_broker_alone(
    broker: ObservedBroker, headers: dict[str, str], status: int
) -> None:
    async with client(broker, **headers) as http:
        answer = await http.get("/api/v1/stream?once&watch=broker")
        assert answer.status_code == status
        assert ("data" in answer.text) == (status == 200)


async def test_a_link_of_another_site_leads_to_the_page_and_to_nothing_else(broker: ObservedBroker) -> None:
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    async with client(broker, **link) as http:
        assert (await http.get("/")).status_code == 200
        assert (await http.get("/api/v1/stream?once")).status_code == 403
        assert (await http.get("/", headers={"sec-fetch-dest": "iframe"})).status_code == 403


async def test_a_page_trades_the_token_for_a_cookie_that_reads_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    async with (
        observed_broker(eosin_console_enable=True, eosin_http_token_file=str(tmp_path / "token")) as broker,
        client(broker) as http,
    ):
        assert (await http.get("/")).status_code == 200, "the page asks for the token"
        assert (await http.get("/api/v1/stream?once")).status_code == 401
        kind = {"content-type": "application/json"}
        wrong = await http.post("/api/v1/session", headers={"authorization": "Bearer wrong-horse", **kind})
        assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
        right = await http.post("/api/v1/session", headers={"authorization": f"Bearer {TOKEN}", **kind})
        cookie = right.headers["set-cookie"]
        assert "; HttpOnly; SameSite=Strict; Max-Age=43200" in cookie
        session = {"cookie": cookie.partition(";")[0]}
        http.cookies.clear()
        assert (await http.get("/api/v1/stream?once&watch=broker", headers=session)).status_code == 200
        assert (await http.get("/api/v1/stream?once", headers={"cookie": "eosin-1=x"})).status_code == 401
        assert (await http.post("/api/v1/session", headers={**session, **kind})).status_code == 401


async def test_the_stream_tells_an_open_transaction_who_it_blocks_and_its_end(broker: ObservedBroker) -> None:
    async with client(broker) as http, http.stream("GET", "/api/v1/stream") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        page = Page(answer.aiter_lines())
        await page.until(lambda tables: "orders-0" in tables.get("partitions", {}))
        producer = await broker.producer("shop-1")
        await producer.send(ORDERS_0)
        await page.until(lambda tables: tables["transactions"].get("shop-1", {}).get("state") == "Ongoing")
        row = page.tables["transactions"]["shop-1"]
        assert row["named"] == ["orders-0"]
        assert row["client"].startswith("orders-1")
        await page.until(lambda tables: tables["partitions"]["orders-0"].get("held_by") == "shop-1")
        held = page.tables["partitions"]["orders-0"]
        assert (held["last_stable"], held["high_watermark"], held["cause"]) == (0, 1, "open_transaction")
        assert held["held_since_ms"] == row["start_ms"]
        await producer.end(commit=True)
        await page.until(lambda tables: any(each["id"] == "shop-1" for each in tables.get("ends", {}).values()))
        await page.until(lambda tables: "held_by" not in tables["partitions"]["orders-0"])
        assert page.tables["partitions"]["orders-0"]["last_stable"] == 2
        assert [each["outcome"] for each in page.tables["ends"].values()] == ["commit"]


async def test_a_page_that_comes_back_is_told_what_it_has_missed(broker: ObservedBroker) -> None:
    async with client(broker) as http:
        async with http.stream("GET", "/api/v1/stream") as answer:
            page = Page(answer.aiter_lines())
            await page.until(lambda tables: "orders-0" in tables.get("partitions", {}))
        await broker.producer("shop-1")
        async with http.stream("GET", "/api/v1/stream", headers={"last-event-id": page.last}) as answer:
            again = Page(answer.aiter_lines())
            await again.until(lambda tables: "shop-1" in tables.get("transactions", {}))
            assert "orders-0" not in again.tables.get("partitions", {}), "it has that already"
        for other in ("nonsense", "0.1", f"{page.last}9", page.last.partition(".")[0] + ".-1"):
            text = (await http.get(f"/api/v1/stream?once&watch=broker&last={other}")).text
            assert "data" in text or other.endswith("9")


async def test_nobody_looks_at_the_broker_while_no_page_watches(broker: ObservedBroker) -> None:
    assert broker.server.observability is not None
    console = broker.server.observability.served.console
    assert console is not None
    async with client(broker) as http, http.stream("GET", "/api/v1/stream") as answer:
        await Page(answer.aiter_lines()).until(lambda tables: "broker" in tables)
        assert console.streams.count == 1
    await until(lambda: not console.streams.count and not console.streams.is_running)


async def test_more_pages_than_the_limit_send_the_oldest_to_poll(
    broker: ObservedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MOST_STREAMS", 1)
    async with client(broker) as http, http.stream("GET", "/api/v1/stream") as first:
        page = Page(first.aiter_lines())
        await page.until(lambda tables: "broker" in tables)
        async with http.stream("GET", "/api/v1/stream") as second:
            await Page(second.aiter_lines()).until(lambda tables: "broker" in tables)
            with pytest.raises(StopAsyncIteration):
                await page.until(lambda tables: False)
    assert page.kinds == ["crowded"]


async def test_a_broker_with_a_page_that_reads_nothing_stops() -> None:
    async with observed_broker(eosin_console_enable=True) as broker:
        host, _, port = broker.http.rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await writer.drain()
        observation = broker.server.observability
        assert observation is not None
        console = observation.served.console
        assert console is not None
        await until(lambda: console.streams.count)
    writer.close()


def test_the_console_beyond_this_machine_needs_a_token() -> None:
    console = ["eosin.console.enable=true", "eosin.http.public.metrics=true", "eosin.http.listener=0.0.0.0:9100"]
    with pytest.raises(SettingError, match=r"the console there needs eosin\.http\.token\.file"):
        load_config(assignments=console)
    load_config(assignments=[*console, "eosin.http.token.file=token"])
    with pytest.raises(SettingError, match=r"eosin\.console\.enable needs eosin\.http\.listener, or --http"):
        load_config(assignments=["eosin.console.enable=true"])


def test_the_option_alone_listens_on_this_machine_and_gives_way_to_what_is_said(tmp_path: Path) -> None:
    assert configured(["--console"]).config.eosin_http_listener == "9100"
    assert configured(["--console", "--http", "9200"]).config.eosin_http_listener == "9200"
    assert configured(["--console", "--set", "eosin.http.listener=9300"]).config.eosin_http_listener == "9300"
    (tmp_path / "properties").write_text("eosin.http.listener=9400\n")
    assert configured(["--console", "--config", str(tmp_path / "properties")]).config.eosin_http_listener == "9400"
    assert configured(["--http", "9200"]).config.eosin_console_enable is False


def test_the_vendored_files_are_those_of_the_list() -> None:
    vendor = files("eosin.observe.console") / "static" / "vendor"
    listed = json.loads((vendor / "vendor.lock").read_text())
    for each in listed:
        assert hashlib.sha256((vendor / each["file"]).read_bytes()).hexdigest() == each["sha256"], each["name"]
        assert (vendor / each["licence_file"]).is_file()
    scripts = {name for name in static_files() if name.startswith("vendor/") and name.endswith(".js")}
    assert scripts == {f"vendor/{each['file']}" for each in listed}


def test_the_whole_application_is_small() -> None:
    sizes = {name: len(gzip.compress(each.body)) for name, each in static_files().items()}
    assert sum(sizes.values()) <= 120 * 1024
    assert len(static_files()["console.css"].body) <= 20 * 1024


async def test_offsets_of_a_group_that_wait_for_a_transaction_are_told(broker: ObservedBroker) -> None:
    producer = await broker.producer("copier-1")
    await producer.add_offsets("readers")
    await producer.commit_offsets("readers", ORDERS_0, 0)
    async with client(broker) as http:
        async with http.stream("GET", "/api/v1/stream?watch=groups") as answer:
            page = Page(answer.aiter_lines())
            await page.until(lambda tables: tables.get("groups", {}).get("readers", {}).get("pending") == 1)
            assert page.tables["groups"]["readers"]["lag"] == 0
            await producer.end(commit=True)
            await page.until(lambda tables: "pending" not in tables["groups"]["readers"])
        told = (await http.get("/api/v1/explain/groups/readers")).json()
    assert told["text"] == "group readers: Empty, 0 members, lag 0."


async def test_a_transaction_that_no_coordinator_knows_is_said_to_hang(broker: ObservedBroker) -> None:
    producer = await broker.producer("shop-1")
    await producer.send(ORDERS_0)
    transactions = broker.server.services.transactions
    entry = transactions.entry("shop-1")
    assert entry is not None
    transactions.forget(entry)
    async with client(broker) as http, http.stream("GET", "/api/v1/stream?watch=partitions") as answer:
        page = Page(answer.aiter_lines())
        await page.until(lambda tables: tables.get("partitions", {}).get("orders-0", {}).get("cause") == "hanging")
        assert page.tables["partitions"]["orders-0"]["held_by"] == f"producer {producer.producer_id}"
        told = (await http.get("/api/v1/explain/partitions/orders-0")).json()
    assert "of which no coordinator knows: it hangs" in told["text"]


async def test_asking_for_the_headers_of_the_stream_begins_none(broker: ObservedBroker) -> None:
    assert broker.server.observability is not None
    assert broker.server.observability.served.console is not None
    async with client(broker) as http:
        assert (await http.head("/api/v1/stream")).status_code == 200
    assert broker.server.observability.served.console.streams.count == 0
