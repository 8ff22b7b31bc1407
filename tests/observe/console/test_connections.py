"""Who the console says is connected, and what each connection waits for (console.md 5.2)."""

import asyncio
from typing import Any

import httpx
import pytest
from observed_broker import ORDERS_0, observed_broker
from waiting import HANG_S, until

from eosin.model.principals import Principal
from eosin.observe.console import connection_survey
from eosin.observe.console.connection_survey import ConnectionSurvey
from eosin.observe.survey import slices
from eosin.protocol.keys import ApiKey
from eosin.runtime.clock import SystemClock
from eosin.security.session import Session


class FakeConnection:
    """As much of a connection as is looked at."""

    def __init__(self, number: int) -> None:
        self.peer = f"10.0.0.1:{number}"
        self.listener = "PLAINTEXT"
        self.session = Session(principal=Principal("User", f"user-{number}"))
        self.client_id = "<b>till</b>" * 200
        self.software = ("librdkafka", "2.16.1")
        self.begun = [(ApiKey.FETCH, 0)] * 20


@pytest.mark.process
async def test_connections_are_told_with_who_they_are_and_what_they_wait_for() -> None:
    async with (
        observed_broker(eosin_console_enable=True) as broker,
        httpx.AsyncClient(base_url=f"http://{broker.http}/api/v1/", timeout=HANG_S) as http,
    ):
        wire = await broker.wire("till-1")
        await wire.append(ORDERS_0)
        waiting = asyncio.ensure_future(wire.fetch(ORDERS_0, 1, wait_ms=30_000))
        told: dict[str, Any] = {}

        async def is_told() -> bool:
            told.update((await http.get("connections", params={"contains": "TILL-1"})).json())
            return bool(told["connections"] and told["connections"][0]["in_flight"])

        await until(is_told)
        (row,) = told["connections"]
        assert (row["client_id"], row["listener"], row["principal"]) == ("till-1", "PLAINTEXT", "User:ANONYMOUS")
        assert (row["protocol"], row["in_flight"], row["requests"][0]["api"]) == ("PLAINTEXT", 1, "FETCH")
        assert row["requests"][0]["ms"] >= 0
        assert told["open"] >= 1
        assert (await http.get("connections", params={"contains": "nobody"})).json()["connections"] == []
        waiting.cancel()
        await asyncio.wait((waiting,))


async def test_ten_thousand_connections_are_looked_at_in_turns_and_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    everyone: list[Any] = [FakeConnection(number) for number in range(10_000)]
    turns = 0

    async def counted() -> None:
        nonlocal turns
        turns += 1

    monkeypatch.setattr(slices, "next_turn", counted)
    survey = ConnectionSurvey(lambda: everyone, SystemClock())
    found = await survey.find("")
    assert turns == 10_000 // connection_survey.PER_TURN
    assert (found.open, len(found.connections), found.left_out) == (10_000, 2000, 8000)
    assert [(each.software, each.connections) for each in found.software] == [("librdkafka 2.16.1", 10_000)]
    first = found.connections[0]
    assert (len(first.client_id), first.in_flight, len(first.requests)) == (300, 20, 8)
    assert len((await survey.find("user-9999")).connections) == 1
