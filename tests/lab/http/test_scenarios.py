"""Scenarios by HTTP, with an application that somebody else has started."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from waiting import until

from eosin.lab.history.occurrences import START
from eosin.lab.http.hosts import Lab
from eosin.lab.scenarios.catalogue import SCENARIOS

pytestmark = pytest.mark.process

COPIER = Path(__file__).parents[1] / "copiers" / "confluent.py"


class Control(Protocol):
    async def __call__(self, method: str, path: str, body: Any = None, *, raw: bytes | None = None) -> tuple[int, Any]:
        """The status and the body of an answer."""


async def test_the_catalogue_is_told_with_its_incidents(control: Control) -> None:
    status, found = await control("GET", "/scenarios")
    assert (status, len(found)) == (200, len(SCENARIOS))
    assert found[0]["name"] == "lost-commit-answer"
    assert set(found[0]["parts"]) == {"Origin", "Steps", "Healthy", "Cure"}


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("lost-commit", {}, 404, "unknown_scenario"),
        ("full-disk", {"judge": "multiset"}, 400, "bad_request"),
        ("full-disk", {"judge": "nobody"}, 400, "bad_request"),
        ("full-disk", {"partitions": 0}, 400, "bad_request"),
        ("full-disk", {"id": "header:"}, 400, "bad_request"),
        ("full-disk", {"feed": 1}, 400, "bad_request"),
    ],
)
async def test_what_cannot_be_run_is_refused(
    control: Control, path: str, body: dict[str, Any], status: int, code: str
) -> None:
    found, answer = await control("POST", f"/scenarios/{path}/run", body)
    assert (found, answer["error"]["code"]) == (status, code)


async def test_an_application_that_is_not_there_is_stuck_and_one_run_follows_the_other(
    control: Control, lab: Lab
) -> None:
    first = asyncio.ensure_future(control("POST", "/scenarios/reference/run", {"feed": 2, "timeout_ms": 1000}))
    await until(lambda: lab.is_in_scenario)
    status, answer = await control("POST", "/scenarios/full-disk/run", {})
    assert (status, answer["error"]["code"]) == (409, "refused")
    status, result = await first
    assert (status, result["verdict"], result["kinds"]) == (200, "FAIL", ["stuck"])
    status, skipped = await control("POST", "/scenarios/last-epoch/run", {})
    assert (status, skipped["verdict"]) == (200, "SKIPPED")
    status, skipped = await control("POST", "/scenarios/zombie-after-pause/run", {"timeout_ms": 1000})
    assert (status, skipped["verdict"]) == (200, "SKIPPED")
    assert "somebody else has started" in skipped["evidence"]


async def test_a_run_begins_with_its_topics_before_any_client_can_have_them_made(control: Control, lab: Lab) -> None:
    await control("POST", "/topics", {"name": "input"})
    await control("POST", "/topics/orders/records", {"values": ["a"]})
    await control("POST", "/scenarios/reference/run", {"feed": 2, "partitions": 3, "timeout_ms": 100})
    assert lab.blocking.topic("input").partitions == 3
    begun, *_ = lab.blocking.history.events()
    assert begun.what == START, "nothing that a client does in this life is before it or forgotten"


async def test_a_topic_that_cannot_be_is_refused_and_the_broker_stays_as_it_was(control: Control) -> None:
    await control("POST", "/topics/orders/records", {"values": ["a"]})
    status, answer = await control("POST", "/scenarios/reference/run", {"input": "no/slash"})
    assert (status, answer["error"]["message"]) == (400, "no topic can have the name 'no/slash'")
    assert len((await control("GET", "/topics/orders/records"))[1]) == 1


@pytest.fixture
def copier(lab: Lab) -> Iterator[None]:
    """An application at the broker, that the lab has not started."""
    lab.blocking.topic("input").create()
    environment = {**os.environ, "KAFKA_BOOTSTRAP_SERVERS": lab.broker.bootstrap}
    with subprocess.Popen([sys.executable, str(COPIER)], env=environment, stderr=subprocess.DEVNULL) as process:
        yield
        process.kill()


@pytest.mark.usefixtures("copier")
async def test_an_attached_application_goes_through_scenarios(control: Control) -> None:
    few = {"feed": 10, "timeout_ms": 30_000}
    _, result = await control("POST", "/scenarios/reference/run", few)
    assert result["verdict"] == "PASS", result["evidence"]
    _, result = await control("POST", "/scenarios/lost-commit-answer/run", {**few, "judge": "multiset"})
    assert result["verdict"] == "PASS", result["evidence"]
