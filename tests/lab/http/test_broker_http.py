"""The broker's metrics and its console at the address of the control API, over its lives."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from eosin.lab.broker import ThreadedBroker
from eosin.lab.http.application import ControlApplication
from eosin.lab.http.broker_http import BrokerHttp
from eosin.lab.http.hosts import Lab
from eosin.lab.operations import Operations
from eosin.lab.options import options_of
from eosin.node.observability import MountedHttp
from eosin.observe.console.sessions import Sessions
from eosin.runtime.clock import SystemClock

pytestmark = pytest.mark.process

ADDRESS = "127.0.0.1:9644"


class Browser:
    """Asks for paths without a socket."""

    def __init__(self, application: ControlApplication, lab: Lab) -> None:
        self.application = application
        self.lab = lab

    async def get(self, path: str) -> tuple[int, bytes]:
        """The status and the body of an answer, once it has ended."""
        sent: list[Any] = []
        await self.ask(path, sent.append)
        return sent[0]["status"], b"".join(each.get("body", b"") for each in sent)

    async def ask(self, path: str, sent: Any) -> None:
        """One request, whose messages are given to `sent`."""

        is_told = False

        async def receive() -> dict[str, Any]:
            nonlocal is_told
            if is_told:
                await asyncio.Future()
            is_told = True
            return {"type": "http.request", "body": b""}

        async def send(message: Any) -> None:
            sent(message)

        path, _, query = path.partition("?")
        scope = {"type": "http", "method": "GET", "path": path, "query_string": query.encode(), "headers": []}
        await self.application({**scope, "root_path": "", "http_version": "1.1"}, receive, send)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """That of a broker with the topic `orders`."""
    mounted = MountedHttp(ADDRESS, Sessions(SystemClock(), port="9644"))
    held = await ThreadedBroker(options_of(topics={"orders": 1}), http=mounted).start_async()
    lab = Lab(held)
    yield Browser(ControlApplication(lab, BrokerHttp(held, mounted)), lab)
    await held.close_async()


async def test_metrics_the_page_and_facts_stand_beside_the_control_api(browser: Browser) -> None:
    await browser.lab.broker.produce("orders", "a", transactional_id="tx", commit=False)
    status, metrics = await browser.get("/metrics")
    assert status == 200
    assert b"eosin_flush_backlog_bytes" in metrics
    status, page = await browser.get("/")
    assert (status, page[:15]) == (200, b"<!doctype html>")
    assert (await browser.get("/livez"))[0] == 200
    assert b'"tx"' in (await browser.get("/api/v1/transactions/tx"))[1]
    assert b'"is_last":true' in (await browser.get("/api/v1/stream?once=1"))[1]
    assert (await browser.get("/lab/v1/"))[0] == 200
    status, refused = await browser.get("/lab")
    assert (status, b"the control API is below" in refused) == (404, True)


async def test_the_next_life_of_the_broker_has_its_own(browser: Browser) -> None:
    await browser.lab.broker.produce("orders", "a", transactional_id="tx", commit=False)
    await browser.lab.broker.crash()
    assert (await browser.get("/metrics"))[0] == 200
    assert (await browser.get("/api/v1/transactions/tx"))[0] == 200
    await browser.lab.broker.stop()
    assert await browser.get("/metrics") == (503, b'{"error": "the broker does not run"}\n')
    await browser.lab.broker.start()
    assert (await browser.get("/metrics"))[0] == 200


@pytest.mark.parametrize("end", ["crash", "close"])
async def test_a_stream_ends_with_its_broker_and_with_the_lab(browser: Browser, end: str) -> None:
    sent: list[Any] = []
    has_begun = asyncio.Event()

    def take(message: Any) -> None:
        sent.append(message)
        has_begun.set()

    stream = asyncio.ensure_future(browser.ask("/api/v1/stream", take))
    await has_begun.wait()
    if end == "crash":
        await browser.lab.broker.crash()
    else:
        browser.application.close()
    await stream
    assert sent[0]["status"] == 200
    assert sent[-1] == {"type": "http.response.body", "body": b""}


async def test_whoever_asks_the_broker_for_its_settings_is_told_where_the_metrics_are(browser: Browser) -> None:
    async def listener(_: Operations) -> str:
        return browser.lab.held.broker.node.config.eosin_http_listener

    assert await browser.lab.broker.call(listener) == ADDRESS


async def test_a_jump_of_days_leaves_the_charts_of_the_console_alone(browser: Browser) -> None:
    await browser.lab.broker.clock.advance(days=8)
    assert (await browser.get("/metrics"))[0] == 200
