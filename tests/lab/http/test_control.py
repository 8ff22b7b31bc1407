"""The control API: what each path does, and how it refuses."""

import asyncio
from typing import Any, Protocol

import pytest
from confluent_kafka import Producer
from waiting import HANG_S

from eosin.lab.clock.quiet import BusyError, Quiet
from eosin.lab.http.application import ENDPOINTS
from eosin.lab.http.failures import BROKER_DOWN
from eosin.lab.http.hosts import Lab
from eosin.lab.network.lab_network import LinkMatch

pytestmark = pytest.mark.process

LOSE = {"match": {"api": "EndTxn"}, "do": {"action": "lose", "what": "answer"}}


class Control(Protocol):
    async def __call__(self, method: str, path: str, body: Any = None, *, raw: bytes | None = None) -> tuple[int, Any]:
        """The status and the body of an answer."""


async def code_of(control: Control, method: str, path: str, body: Any = None) -> tuple[int, str]:
    status, answer = await control(method, path, body)
    return status, answer["error"]["code"]


async def test_the_root_tells_of_the_broker(control: Control) -> None:
    status, seen = await control("GET", "/")
    assert status == 200
    assert (seen["is_up"], seen["seed"], seen["clock_rate"], seen["disk"]) == (True, 7, 1.0, "lab")
    assert await control("GET", "/readyz") == (200, {"ready": True})


async def test_records_come_back_as_text_and_as_base64(control: Control) -> None:
    written = {"values": ["a", {"base64": "/w=="}, None], "key": "k", "transactional_id": "t"}
    assert await control("POST", "/topics/orders/records", written) == (201, {"offsets": [0, 1, 2]})
    _, records = await control("GET", "/topics/orders/records?from=1")
    assert [each["value"] for each in records] == [{"base64": "/w=="}, None]
    assert records[0]["key"] == "k"
    _, batches = await control("GET", "/topics/orders/batches")
    assert [each["marker"] for each in batches] == [None, "commit"]
    _, seen = await control("GET", "/transactions/t")
    assert (seen["state"], seen["outcomes"]) == ("CompleteCommit", ["commit"])
    _, steps = await control("GET", "/transactions/t/timeline")
    assert steps


async def test_a_rule_is_armed_read_and_removed(control: Control) -> None:
    status, rule = await control("POST", "/faults", LOSE)
    assert (status, rule["id"], rule["fired"]) == (201, "f1", 0)
    assert (await control("GET", "/faults"))[1] == [rule]
    status, answer = await control("DELETE", "/faults/f1")
    assert (status, answer["error"]["code"]) == (422, "assertion_failed")
    assert "never fired" in answer["error"]["message"]
    await control("POST", "/faults", {**LOSE, "optional": True})
    assert (await control("DELETE", "/faults"))[0] == 200


async def test_a_wrong_rule_is_refused_with_the_field(control: Control) -> None:
    status, answer = await control("POST", "/faults", {**LOSE, "match": {"api": "EndTransaction"}})
    assert status == 400
    assert answer["error"] == {
        "code": "unknown_api",
        "message": 'there is no API "EndTransaction"; did you mean EndTxn?',
        "field": "match.api",
    }


async def test_time_jumps_and_a_transaction_times_out(control: Control) -> None:
    await control("POST", "/topics/orders/records", {"values": ["a"], "transactional_id": "t", "commit": False})
    assert [each["transactional_id"] for each in (await control("GET", "/transactions"))[1]] == ["t"]
    _, due = await control("GET", "/clock/deadlines?count=50")
    assert any(each["owner"] == "t" for each in due)
    status, advanced = await control("POST", "/clock/advance", {"minutes": 16})
    assert (status, advanced["aborted"]) == (200, ["t"])
    assert (await control("POST", "/wait", {"until": "state", "transactional_id": "t", "state": "CompleteAbort"}))[
        0
    ] == 200
    assert (await control("POST", "/assert", {"outcomes": {"transactional_id": "t", "outcomes": ["timeout"]}}))[
        0
    ] == 200
    assert (await control("POST", "/clock/freeze"))[1]["rate"] == 0
    assert (await control("POST", "/clock/flow", {"rate": 2}))[1]["rate"] == 2
    assert (await control("POST", "/clock/jump", {"ms": 60_000}))[0] == 200


async def test_an_open_transaction_expires_at_once(control: Control) -> None:
    await control("POST", "/topics/orders/records", {"values": ["a"], "transactional_id": "t", "commit": False})
    _, seen = await control("POST", "/transactions/t/expire")
    assert seen["outcomes"] == ["timeout"]
    assert await code_of(control, "POST", "/transactions/t/expire") == (400, "bad_request")


async def test_a_successor_fences_and_a_zombie_is_refused(control: Control) -> None:
    await control("POST", "/topics/orders/records", {"values": ["a"], "transactional_id": "t", "commit": False})
    _, zombie = await control("POST", "/transactions/t/zombie")
    status, successor = await control("POST", "/transactions/t/successor")
    assert (status, successor["id"]) == (201, "i2")
    write = {"step": "write", "topic": "orders", "values": ["late"]}
    _, answer = await control("POST", f"/instances/{zombie['id']}/steps", write)
    assert answer["code"] in ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED")
    assert (await control("POST", "/instances/i2/steps", write))[1] == {"code": "NONE"}
    assert (await control("POST", "/instances/i2/steps", {"step": "commit"}))[1] == {"code": "NONE"}
    assert (await control("POST", "/assert", {"fenced": {"transactional_id": "t"}}))[0] == 200
    assert await code_of(control, "POST", "/instances/i2/steps", {"step": "fly"}) == (400, "unknown_step")


async def test_an_operator_aborts(control: Control) -> None:
    await control("POST", "/topics/orders/records", {"values": ["a"], "transactional_id": "t", "commit": False})
    assert (await control("POST", "/transactions/t/abort"))[0] == 200
    assert (await control("GET", "/transactions/t"))[1]["outcomes"] == ["fenced"]
    assert (await control("GET", "/explain/t"))[0] == 200


async def test_a_crash_loses_nothing_and_keeps_the_address(control: Control) -> None:
    await control("POST", "/topics/orders/records", {"values": ["a"]})
    _, before = await control("GET", "/")
    assert (await control("POST", "/broker/crash", {"power": True}))[0] == 200
    assert (await control("POST", "/broker/restart", {"settings": {"message.max.bytes": 2000}}))[0] == 200
    _, after = await control("GET", "/")
    assert before["bootstrap"] == after["bootstrap"]
    wrong = {"settings": {"message.max.bytes": "many"}}
    assert await code_of(control, "POST", "/broker/restart", wrong) == (400, "bad_request")
    assert len((await control("GET", "/topics/orders/records"))[1]) == 1


async def test_a_snapshot_goes_to_a_file_and_back(control: Control) -> None:
    await control("POST", "/topics/orders/records", {"values": ["a"]})
    status, kept = await control("POST", "/snapshots")
    assert (status, kept["id"]) == (201, "s1")
    _, file = await control("GET", "/snapshots/s1/file")
    await control("POST", "/broker/reset")
    assert (await control("GET", "/topics/orders/records"))[1] == []
    assert (await control("POST", "/snapshots/file", file))[1]["id"] == "s2"
    assert (await control("PUT", "/broker/state", {"snapshot": "s2"}))[0] == 200
    assert len((await control("GET", "/topics/orders/records"))[1]) == 1
    assert await code_of(control, "POST", "/snapshots/file", {"base64": "AAAA"}) == (400, "bad_request")
    assert await code_of(control, "POST", "/snapshots/file", {"base64": "?"}) == (400, "bad_request")


async def test_a_reset_takes_faults_topics_and_history_away(control: Control) -> None:
    await control("POST", "/topics", {"name": "more", "partitions": 2, "configs": {"cleanup.policy": "compact"}})
    await control("POST", "/faults", LOSE)
    written = {"values": ["a"], "transactional_id": "t"}
    await control("POST", "/topics/orders/records", written)
    assert (await control("POST", "/broker/reset", {"settings": {"message.max.bytes": 2000}}))[0] == 200
    assert await code_of(control, "GET", "/transactions/t") == (404, "unknown_transactional_id")
    await control("POST", "/topics/orders/records", written)
    assert (await control("GET", "/transactions/t"))[1]["outcomes"] == ["commit"]
    assert (await control("GET", "/topics"))[1] == {"topics": ["orders"]}
    assert (await control("GET", "/faults"))[1] == []
    assert (await control("GET", "/requests"))[1] == []


async def test_the_disk_fails_as_it_is_told(control: Control) -> None:
    for path, body in (
        ("full", {"after_bytes": 1}),
        ("free", None),
        ("fail", {"call": "sync"}),
        ("tear", {"path": "orders", "keep": 3}),
        ("slow", {"ms": 1}),
        ("lose", None),
        ("heal", None),
        ("stop", {"call": 1000}),
    ):
        assert (await control("POST", f"/disk/{path}", body))[0] == 200, path
    assert await code_of(control, "POST", "/disk/fail", {"call": "fly"}) == (400, "unknown_call")
    assert await code_of(control, "POST", "/disk/tear", {"path": "a", "keep": -1}) == (400, "bad_request")


async def test_the_network_fails_as_it_is_told(control: Control) -> None:
    for path, body in (
        ("partition", {"client_id": "inv-*", "refuse": True}),
        ("heal", None),
        ("latency", {"ms": 1}),
        ("bandwidth", {"bytes_per_s": 1000}),
        ("bandwidth", {"bytes_per_s": None}),
        ("reset", None),
    ):
        assert (await control("POST", f"/network/{path}", body))[0] == 200, path
    assert await code_of(control, "POST", "/network/latency", {"ms": -1}) == (400, "bad_request")


async def test_clients_wait_for_the_address_that_they_are_to_reach(control: Control, lab: Lab) -> None:
    host, _, port = lab.broker.bootstrap.rpartition(":")
    assert host == "127.0.0.1"
    lab.held.broker.network.partition(LinkMatch(), refuse=False)
    producer = Producer({"bootstrap.servers": lab.broker.bootstrap, "log_level": 0})
    producer.produce("orders", b"early")
    assert await asyncio.to_thread(producer.flush, 0.2) == 1
    assert (await control("PUT", "/advertise", {"address": f"localhost:{port}"}))[0] == 200
    assert await asyncio.to_thread(producer.flush, HANG_S) == 0
    found = await asyncio.to_thread(producer.list_topics, timeout=HANG_S)
    assert [each.host for each in found.brokers.values()] == ["localhost"]
    assert await code_of(control, "PUT", "/advertise", {"address": "nowhere"}) == (400, "bad_request")
    assert (await control("GET", "/readyz"))[0] == 200


async def test_waits_end_and_say_what_was_missing(control: Control) -> None:
    await control("POST", "/faults", {**LOSE, "optional": True})
    for body in (
        {"until": "fired", "fault": "f1", "timeout_ms": 1},
        {"until": "request", "match": {"api": "EndTxn"}, "timeout_ms": 1},
        {"until": "state", "group": "g", "state": "Stable", "timeout_ms": 1},
    ):
        assert await code_of(control, "POST", "/wait", body) == (408, "wait_over"), body
    assert await code_of(control, "GET", "/faults/f1?wait_fired=1&timeout_ms=1") == (408, "wait_over")
    await control("POST", "/topics/orders/records", {"values": ["a"]})
    unread = {"until": "consumed", "group": "g", "topic": "orders", "timeout_ms": 1}
    status, answer = await control("POST", "/wait", unread)
    assert status == 408
    assert "orders-0: committed nothing of 1" in answer["error"]["message"]
    assert (await control("POST", "/wait", {"until": "quiet"}))[0] == 200
    assert (await control("POST", "/broker/settle"))[0] == 200
    for wrong in ({"until": "state", "state": "Stable"}, {"until": "request", "match": {}}, {"until": "dawn"}):
        assert (await control("POST", "/wait", wrong))[0] == 400, wrong


async def test_assertions_that_do_not_hold_have_findings(control: Control) -> None:
    await control("POST", "/topics", {"name": "invoices"})
    await control("POST", "/topics/orders/records", {"values": ["a", "b"]})
    await control("POST", "/topics/invoices/records", {"values": ["a"]})
    judged = {"exactly_once": {"input": "orders", "output": "invoices"}}
    status, answer = await control("POST", "/assert", judged)
    assert (status, [each["kind"] for each in answer["error"]["findings"]]) == (422, ["lost"])
    holding: tuple[dict[str, Any], ...] = (
        {"committed": {"topic": "orders", "values": ["a", "b"]}},
        {"never_visible": {"values": ["c"]}},
        {"offsets": {"group": "g", "offsets": [{"topic": "orders", "offset": None}]}},
        {"requests": []},
        {"no_open_transactions": True, "quiet": True, "no_warnings": True},
        {"exactly_once": {"input": "orders", "output": "invoices", "by": "multiset", "reference": ["a"]}},
    )
    for holds in holding:
        assert await control("POST", "/assert", holds) == (200, {"done": True}), holds
    for fails in (
        {"committed": {"topic": "orders", "values": ["a"]}},
        {"never_visible": {"values": ["a"]}},
        {"fenced": {"transactional_id": "t"}},
        {"offsets": {"group": "g", "offsets": [{"topic": "orders", "offset": 1}]}},
        {"requests": [{"api": "EndTxn"}]},
        {"outcomes": {"transactional_id": "t", "outcomes": ["commit"]}},
    ):
        assert await code_of(control, "POST", "/assert", fails) == (422, "assertion_failed"), fails
    assert await code_of(control, "POST", "/assert", {}) == (400, "bad_request")


async def test_a_batch_is_carried_out_in_its_order(control: Control) -> None:
    batch = [
        {"method": "POST", "path": "/faults", "body": {**LOSE, "optional": True}},
        {"method": "POST", "path": "/faults/f1/release"},
        {"method": "GET", "path": "/topics/nothing/records?partition=0"},
        {"method": "DELETE", "path": "/faults"},
    ]
    status, answers = await control("POST", "/batch", batch)
    assert (status, [each["status"] for each in answers]) == (200, [201, 200, 404, 200])
    assert await code_of(control, "POST", "/batch", [{"method": "POST", "path": "/broker/crash"}]) == (
        400,
        "bad_request",
    )
    assert await code_of(control, "POST", "/batch", {"method": "GET"}) == (400, "bad_request")


async def test_a_group_shows_its_offsets(control: Control) -> None:
    _, seen = await control("GET", "/groups/g?topic=orders")
    assert seen["offsets"] == [{"topic": "orders", "partition": 0, "committed": None, "pending": None}]
    assert await code_of(control, "POST", "/groups/g/kick") == (400, "bad_request")
    assert await code_of(control, "POST", "/groups/g/expire", {"member": "m"}) == (400, "unknown_member")
    assert await code_of(control, "POST", "/groups/g/rebalance") == (400, "bad_request")


async def test_features_are_raised_and_lowered(control: Control) -> None:
    for level in (1, 0):
        assert (await control("POST", "/features", {"levels": {"share.version": level}}))[0] == 200
    wrong = {"levels": {"shares": 1}}
    assert await code_of(control, "POST", "/features", wrong) == (400, "unknown_feature")


async def test_a_broker_that_does_not_come_to_rest_says_so(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    open_one = {"values": ["a"], "transactional_id": "t", "commit": False}
    assert (await control("POST", "/topics/orders/records", open_one))[0] == 201

    async def works_on(*_: object) -> None:
        raise BusyError("the broker does not come to rest: 7 bytes are not durable yet")

    monkeypatch.setattr(Quiet, "idle", works_on)
    assert await code_of(control, "POST", "/clock/advance", {"ms": 1}) == (409, "not_idle")
    assert await code_of(control, "POST", "/transactions/t/expire") == (409, "not_idle")


async def test_the_history_is_read_and_forgotten(control: Control) -> None:
    assert await control("GET", "/history?api=EndTxn") == (200, [])
    assert (await control("GET", "/transcript"))[0] == 200
    assert (await control("DELETE", "/history"))[0] == 200


async def test_what_is_no_request_is_refused(control: Control) -> None:
    assert await code_of(control, "GET", "/nothing") == (404, "not_found")
    assert await code_of(control, "PATCH", "/topics") == (405, "wrong_method")
    assert (await control("POST", "/topics", raw=b"{"))[1]["error"]["code"] == "bad_request"
    assert await code_of(control, "GET", "/topics?colour=red") == (400, "bad_request")
    assert await code_of(control, "GET", "/requests?colour=red") == (400, "bad_request")


async def test_every_path_refuses_a_body_or_a_query_that_it_does_not_have(control: Control) -> None:
    for each in ENDPOINTS:
        path = each.path.replace("{", "").replace("}", "")
        if each.body is not None:
            assert (await control(each.method, path, {"surprise": 1}))[0] == 400, f"{each.method} {path}"
        if each.query is not None:
            assert (await control(each.method, f"{path}?surprise=1"))[0] == 400, f"{each.method} {path}"


async def test_every_path_about_a_thing_that_is_not_there_says_so(control: Control) -> None:
    for method, path, body in (
        ("DELETE", "/topics/none", None),
        ("GET", "/topics/none/records", None),
        ("GET", "/topics/none/batches", None),
        ("GET", "/transactions/none", None),
        ("GET", "/transactions/none/timeline", None),
        ("POST", "/transactions/none/abort", None),
        ("POST", "/transactions/none/expire", None),
        ("POST", "/transactions/none/zombie", None),
        ("POST", "/instances/none/steps", {"step": "commit"}),
        ("GET", "/faults/none", None),
        ("DELETE", "/faults/none", None),
        ("POST", "/faults/none/release", None),
        ("GET", "/snapshots/none/file", None),
        ("POST", "/nodes/none/up", None),
        ("POST", "/nodes/2/down", None),
        ("POST", "/nodes/2/pause", None),
    ):
        status, code = await code_of(control, method, path, body)
        assert (status, code.partition("_")[0]) == (404, "unknown"), path
    assert await code_of(control, "PUT", "/broker/state", {"snapshot": "none"}) == (400, "unknown_snapshot")


async def test_every_path_that_needs_the_broker_says_that_it_is_down(control: Control, lab: Lab) -> None:
    await lab.broker.stop()
    bodies: dict[str, Any] = {
        "/advertise": {"address": "localhost:9092"},
        "/features": {"levels": {"share.version": 1}},
        "/topics": {"name": "more"},
        "/topics/{topic}/records": {"values": ["a"]},
        "/wait": {"until": "consumed", "group": "g", "topic": "orders"},
        "/assert": {"no_open_transactions": True},
        "/leaders/move": {"topic": "orders"},
        "/coordinators/move": {"kind": "group", "key": "g"},
    }
    for each in ENDPOINTS:
        if BROKER_DOWN in each.errors and "{instance}" not in each.path:
            path = each.path.replace("{topic}", "orders").replace("{node}", "1").replace("{", "").replace("}", "")
            body = bodies.get(each.path) if each.method != "GET" else None
            status = await code_of(control, each.method, path, body)
            assert status == (409, "broker_down"), f"{each.method} {path}"
    assert await control("GET", "/readyz") == (503, {"ready": False})
    assert (await control("POST", "/broker/start"))[0] == 200
    assert await control("GET", "/readyz") == (200, {"ready": True})


async def test_an_error_of_the_lab_itself_tells_no_more_than_that(
    control: Control, lab: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(lab.broker, "open_transactions", fail)
    status, answer = await control("GET", "/transactions")
    assert (status, answer["error"]["code"]) == (500, "internal")
    assert "secret" not in answer["error"]["message"]
    assert "secret" in caplog.text
