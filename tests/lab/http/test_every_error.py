"""Each error that the document promises for a path is an answer of that path, in the shape of `ErrorAnswer`; and no
path has another one, whatever state the broker is in.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple, Protocol

import msgspec
import pytest

from eosin.lab.http.application import BASE, ENDPOINTS
from eosin.lab.http.endpoint import ControlPath
from eosin.lab.http.failures import BROKER_DOWN, STATUSES
from eosin.lab.http.hosts import Lab
from eosin.lab.http.openapi import document
from eosin.lab.http.values import ErrorAnswer
from eosin.lab.operations import Operations

pytestmark = pytest.mark.process

INTERNAL = 500
"""Promised of every path; `test_control` has one."""
FIELDS = {"code", "message", "field", "findings"}
UNKNOWN = (400, 404)
"""The statuses of names that do not exist."""
SURPRISE = {"surprise": 1}
FAULT = {"match": {"api": "EndTxn"}, "do": {"action": "lose", "what": "answer"}}
LATE = {"until": "request", "match": {"api": "EndTxn"}, "timeout_ms": 1}
BODIES: dict[str, Any] = {
    "/advertise": {"address": "localhost:9092"},
    "/assert": {"no_open_transactions": True},
    "/clock/advance": {"ms": 1},
    "/clock/flow": {"rate": 1},
    "/clock/jump": {"ms": 1},
    "/coordinators/move": {"kind": "group", "key": "g"},
    "/disk/fail": {"call": "sync"},
    "/disk/slow": {"ms": 1},
    "/disk/stop": {"call": 100_000},
    "/disk/tear": {"path": "nowhere"},
    "/faults": {**FAULT, "optional": True},
    "/features": {"levels": {"share.version": 1}},
    "/instances/{instance}/steps": {"step": "commit"},
    "/leaders/move": {"topic": "orders"},
    "/network/bandwidth": {"bytes_per_s": None},
    "/network/latency": {"ms": 0},
    "/snapshots/file": {"base64": "AAAA"},
    "/topics": {"name": "more"},
    "/topics/{topic}/records": {"values": ["a"]},
    "/wait": {"until": "consumed", "group": "g", "topic": "orders", "timeout_ms": 1},
}
"""Requests that are right, of paths that need a body."""


class Control(Protocol):
    async def __call__(self, method: str, path: str, body: Any = None, *, raw: bytes | None = None) -> tuple[int, Any]:
        """The status and the body of an answer."""


StartLab = Callable[..., Awaitable[tuple[Lab, Control]]]


class Case(NamedTuple):
    """A request that fails, after others."""

    method: str
    path: str
    body: Any = None
    before: tuple[tuple[str, str, Any], ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    """Of the broker that it needs."""


MEMORY, UNRECORDED = (("disk", "memory"),), (("record", "off"),)
ARMED = (("POST", "/faults", {**FAULT, "id": "f1"}),)
CASES: dict[tuple[str, str, int], Case] = {
    ("POST", "/broker/stop", 400): Case("POST", "/broker/stop", options=MEMORY),
    ("POST", "/disk/free", 400): Case("POST", "/disk/free", options=MEMORY),
    ("POST", "/disk/heal", 400): Case("POST", "/disk/heal", options=MEMORY),
    ("POST", "/disk/lose", 400): Case("POST", "/disk/lose", options=MEMORY),
    ("POST", "/snapshots", 400): Case("POST", "/snapshots", options=MEMORY),
    ("POST", "/broker/settle", 408): Case(
        "POST", "/broker/settle", {"quiet_ms": 1000, "timeout_ms": 1}, before=(("POST", "/broker/settle", {}),)
    ),
    ("POST", "/features", 409): Case("POST", "/features", {"levels": {"share.version": 9}}),
    ("POST", "/groups/{group}/expire", 400): Case("POST", "/groups/none/expire"),
    ("POST", "/groups/{group}/rebalance", 400): Case("POST", "/groups/none/rebalance"),
    ("POST", "/transactions/{transaction}/expire", 400): Case(
        "POST",
        "/transactions/t/expire",
        before=(("POST", "/topics/orders/records", {"values": ["a"], "transactional_id": "t"}),),
    ),
    ("POST", "/topics", 409): Case("POST", "/topics", {"name": "orders"}),
    ("POST", "/topics/{topic}/records", 409): Case("POST", "/topics/orders/records", {"values": ["a" * 2_000_000]}),
    ("DELETE", "/faults", 422): Case("DELETE", "/faults", before=ARMED),
    ("DELETE", "/faults/{fault}", 422): Case("DELETE", "/faults/f1", before=ARMED),
    ("GET", "/faults/{fault}", 408): Case("GET", "/faults/f1?wait_fired=1&timeout_ms=1", before=ARMED),
    ("POST", "/wait", 408): Case("POST", "/wait", LATE),
    ("POST", "/assert", 422): Case("POST", "/assert", {"requests": [{"api": "EndTxn"}]}),
    ("GET", "/history", 409): Case("GET", "/history", options=UNRECORDED),
    ("DELETE", "/history", 409): Case("DELETE", "/history", options=UNRECORDED),
    ("GET", "/requests", 409): Case("GET", "/requests", options=UNRECORDED),
    ("GET", "/transcript", 409): Case("GET", "/transcript", options=UNRECORDED),
    ("POST", "/batch", 400): Case("POST", "/batch", {"method": "GET"}),
}
"""The requests for errors that the following do not bring about."""
ELSEWHERE = frozenset(
    {
        ("POST", "/clock/advance", 409),
        ("POST", "/transactions/{transaction}/expire", 409),
        ("POST", "/scenarios/{scenario}/run", 409),
    }
)
"""`test_control` has the first two: a broker that does not come to rest; `test_scenarios` the last: a scenario runs
already."""


def path_of(endpoint: ControlPath, name: str = "") -> str:
    """Its path, about something that there is, or about something of this name."""
    there = {"topic": "orders", "node": "1", "fault": "f1"}
    path = endpoint.path
    for each in endpoint.names:
        path = path.replace(f"{{{each}}}", name or there.get(each, each))
    return path


def usual_case(endpoint: ControlPath, status: int) -> Case:
    """A body or a query that it does not have; a name that does not exist."""
    body = BODIES.get(endpoint.path) if endpoint.method != "GET" else None
    if status == STATUSES["not_found"]:
        return Case(endpoint.method, path_of(endpoint, "none"), body)
    if endpoint.body is not None:
        return Case(endpoint.method, path_of(endpoint), SURPRISE)
    return Case(endpoint.method, f"{path_of(endpoint)}?surprise=1")


def promised(*, of_a_broker_that_is_down: bool) -> Iterator[tuple[tuple[str, str, int], list[str]]]:
    """The errors in the document, each with its codes."""
    by_name = {(each.method, each.path): each for each in ENDPOINTS}
    for path, operations in document(ENDPOINTS, BASE)["paths"].items():
        for method, operation in operations.items():
            for status, answer in operation["responses"].items():
                codes = answer["description"].partition(": ")[2].replace(" or unknown_...", "").split(", ")
                endpoint = by_name.get((method.upper(), path))
                others = [each for each in codes if (each == BROKER_DOWN) is of_a_broker_that_is_down]
                key = (method.upper(), path, int(status))
                is_error = 400 <= int(status) != INTERNAL and not (endpoint and int(status) in endpoint.also)
                if is_error and others and key not in ELSEWHERE:
                    yield key, codes


def is_as_promised(status: int, codes: list[str], got: int, answer: Any) -> bool:
    """True for an error of that status, with one of those codes, in the shape of `ErrorAnswer`."""
    if got != status or set(answer) != {"error"} or not set(answer["error"]) <= FIELDS:
        return False
    error = msgspec.convert(answer, ErrorAnswer, strict=True).error
    return bool(error.message) and (error.code in codes or (status in UNKNOWN and error.code.startswith("unknown_")))


async def test_each_error_that_is_promised_is_an_answer(start_lab: StartLab) -> None:
    by_name = {(each.method, each.path): each for each in ENDPOINTS}
    wanted: dict[tuple[tuple[str, Any], ...], list[tuple[tuple[str, str, int], list[str], Case]]] = defaultdict(list)
    for key, codes in promised(of_a_broker_that_is_down=False):
        case = CASES.get(key) or usual_case(by_name[key[0], key[1]], key[2])
        wanted[case.options].append((key, codes, case))
    others: list[str] = []
    for options, cases in wanted.items():
        lab, control = await start_lab(**dict(options))
        for key, codes, case in cases:
            for method, path, body in case.before:
                assert (await control(method, path, body))[0] < 300, path
            status, answer = await control(case.method, case.path, case.body)
            if not is_as_promised(key[2], codes, status, answer):
                others.append(f"{key}: {status} {answer}")
            await lab.broker.call(Operations.fault_complaints, True)
    assert not others, "\n".join(others)


async def test_each_path_that_needs_the_broker_says_that_it_is_down(start_lab: StartLab) -> None:
    by_name = {(each.method, each.path): each for each in ENDPOINTS}
    lab, control = await start_lab()
    await control("POST", "/topics/orders/records", {"values": ["a"], "transactional_id": "t", "commit": False})
    await control("POST", "/transactions/t/successor")
    await lab.broker.stop()
    for key, _ in promised(of_a_broker_that_is_down=True):
        path = path_of(by_name[key[0], key[1]]).replace("/instance/", "/i1/")
        status, answer = await control(key[0], path, BODIES.get(key[1]) if key[0] != "GET" else None)
        assert is_as_promised(key[2], [BROKER_DOWN], status, answer), f"{key}: {answer}"


@pytest.mark.parametrize(
    "options", [{}, {"disk": "memory"}, {"record": "off"}, {"nodes": 3}, {"clock": "frozen"}], ids=str
)
@pytest.mark.parametrize("is_up", [True, False], ids=["up", "down"])
async def test_no_path_has_an_answer_that_is_not_promised(
    start_lab: StartLab, options: dict[str, Any], is_up: bool
) -> None:
    lab, control = await start_lab(**options)
    paths = document(ENDPOINTS, BASE)["paths"]
    for each in sorted(ENDPOINTS, key=lambda one: one.path.startswith("/broker/")):
        if each.path.startswith("/scenarios/{"):
            continue
        if not is_up and lab.is_up and lab.held.broker.options.disk != "memory":
            await lab.broker.stop()
        body = BODIES.get(each.path) if each.method != "GET" else None
        status, answer = await control(each.method, path_of(each), body)
        assert str(status) in paths[each.path][each.method.lower()]["responses"], f"{each.method} {each.path}: {answer}"
        assert status != INTERNAL, each.path
