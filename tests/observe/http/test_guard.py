"""What the guard of the HTTP listener refuses (console.md 6)."""

import json
import platform
from typing import Any

import pytest
from manual_clock import ManualClock

from eosin.node.cluster_console import OF_THE_COMMAND
from eosin.node.observability import own_names
from eosin.observe.http.guard import Advice, Guard, host_is_private
from eosin.settings.broker import BrokerConfig
from eosin.settings.listeners import Listener

TOKEN = "correct-horse"


async def served(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"told"})


async def ask(
    guard: Guard, path: str = "/metrics", *, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body; header names with underscores."""
    given = {"host": "127.0.0.1:8080", **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope = {
        "type": "http",
        "scheme": "http",
        "method": method,
        "path": path,
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items()],
        "client": ("192.0.2.9", 1),
    }
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    await guard(scope, receive, send)
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], told, b"".join(each.get("body", b"") for each in sent[1:])


def guard(**how: Any) -> Guard:
    return Guard(served, clock=ManualClock(), **how)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8080",
        "10.1.2.3:1",
        "[::1]:8080",
        "[fe80::1]",
        "localhost",
        "localhost:80",
        "LOCALHOST.",
        "eosin.example.com",
        "EOSIN.example.com.",
    ],
)
def test_a_host_that_nobody_else_can_point_here_is_served(host: str) -> None:
    assert host_is_private(host, {"eosin.example.com"})


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "broker",
        "eosin.localhost",
        "laptop.local",
        "kafka.svc.cluster.local:9",
        "host.docker.internal",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "local.evil.example",
        "127.0.0.1:8080:9",
        "[::1].evil.example",
        "[evil.example]",
        "user@127.0.0.1",
        "127.0.0.1/..",
        "eosin.example.com.evil.example",
        "evil.example\r\nx: y",
        "a b",
    ],
)
async def test_a_host_of_somebody_elses_is_refused(host: str) -> None:
    assert not host_is_private(host, {"eosin.example.com"})
    status, _, body = await ask(guard(allowed_hosts=("eosin.example.com",)), host=host)
    assert status == 421
    assert "eosin.http.allowed.hosts" in json.loads(body)["error"]


def test_a_listener_is_asked_by_the_names_of_its_machine() -> None:
    config = BrokerConfig(
        listeners=("INSIDE://0.0.0.0:29092",),
        advertised_listeners=("INSIDE://Broker-1:29092",),
        listener_security_protocol_map=("INSIDE:PLAINTEXT",),
    )
    names = own_names(config, Listener("HTTP", "console.example", 9100))
    assert {"broker-1", "console.example", platform.node().lower()} <= set(names)
    assert host_is_private("broker-1:9100", names)
    assert not host_is_private("broker-2:9100", names)


async def test_health_answers_whatever_the_host_is() -> None:
    assert (await ask(guard(), "/livez", host="anything.example"))[0] == 200
    assert (await ask(guard(token=TOKEN, is_private=False), "/readyz", host="anything.example"))[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://127.0.0.1:8080"}, 200),
        ({"origin": "http://127.0.0.1:8081"}, 403),
        ({"origin": "https://127.0.0.1:8080"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "same-origin"}, 200),
        ({"sec_fetch_site": "none"}, 200),
        ({"sec_fetch_site": "cross-site"}, 403),
    ],
)
async def test_requests_of_other_sites_are_refused(headers: dict[str, str], status: int) -> None:
    assert (await ask(guard(), **headers))[0] == status


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "OPTIONS", "TRACE", "BREW"])
async def test_a_change_that_a_page_could_send_without_asking_is_refused(method: str) -> None:
    assert (await ask(guard(), method=method))[0] == 415
    assert (await ask(guard(), method=method, content_type="text/plain"))[0] == 415
    assert (await ask(guard(), method=method, content_type="application/x-www-form-urlencoded"))[0] == 415


async def test_a_delete_needs_no_type_since_no_page_of_another_site_can_send_one() -> None:
    assert (await ask(guard(), method="DELETE"))[0] == 200
    assert (await ask(guard(), method="DELETE", origin="http://evil.example"))[0] == 403
    assert (await ask(guard(), method="DELETE", sec_fetch_site="cross-site"))[0] == 403


async def test_an_api_has_codes_and_the_page_a_text() -> None:
    guarded = guard(token=TOKEN, advice=Advice("the token", "add the name", "/lab/v1"))
    _, _, body = await ask(guarded, path="/lab/v1/faults")
    said = "send the token as Authorization: Bearer TOKEN"
    assert json.loads(body) == {"error": {"code": "no_token", "message": said}}
    _, _, body = await ask(guarded, path="/facts/overview")
    assert json.loads(body) == {"error": said, "token": "the token"}


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer  {TOKEN} ", 200),
        ("", 401),
        ("Bearer", 401),
        ("Bearer ", 401),
        ("Bearer correct-hors", 401),
        ("Bearer correct-horse-", 401),
        (f"Basic {TOKEN}", 401),
        ("Bearer \xff\xfe", 401),
    ],
)
async def test_the_token_is_asked_for_on_loopback_too_where_there_is_one(authorization: str, status: int) -> None:
    found, headers, _ = await ask(guard(token=TOKEN), authorization=authorization)
    assert found == status
    assert (headers.get("www-authenticate") == "Bearer") == (status == 401)


async def test_wrong_tokens_are_one_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    asked = Guard(served, clock=clock, token=TOKEN)
    for _ in range(5):
        await ask(asked)
    clock.advance(60_000)
    await ask(asked)
    assert [record.getMessage() for record in caplog.records] == [
        "an HTTP request from 192.0.2.9 had no valid token"
    ] * 2


async def test_without_a_token_other_machines_reach_public_metrics_alone() -> None:
    public = guard(is_private=False, public_metrics=True)
    assert (await ask(public, "/metrics"))[0] == 200
    assert (await ask(public, "/api/v1/transactions/x"))[0] == 403
    assert (await ask(guard(is_private=False), "/metrics"))[0] == 403


async def test_a_path_that_is_open_needs_no_token_and_leaves_the_others_closed() -> None:
    opened = guard(is_private=False, open_paths=["/api/v1/advertise"])
    assert (await ask(opened, "/api/v1/advertise"))[0] == 200
    assert (await ask(opened, "/api/v1/advertise", host="evil.example"))[0] == 421
    assert (await ask(opened, "/api/v1/transactions/x"))[0] == 403


async def test_a_second_host_header_is_refused() -> None:
    asked, sent = guard(), []
    headers = [(b"host", b"127.0.0.1"), (b"host", b"evil.example")]
    scope = {"type": "http", "scheme": "http", "method": "GET", "path": "/metrics", "headers": headers}

    async def send(message: Any) -> None:
        sent.append(message)

    await asked(scope, None, send)  # type: ignore[arg-type]
    assert sent[0]["status"] == 400


async def test_a_request_that_says_twice_how_long_it_is_is_refused_and_the_connection_closed() -> None:
    status, headers, _ = await ask(guard(), content_length="5", transfer_encoding="chunked")
    assert (status, headers["connection"]) == (400, "close")
    assert (await ask(guard(), content_length="5"))[0] == 200


async def test_every_answer_says_that_nothing_may_be_made_of_it() -> None:
    for status, headers, _ in (await ask(guard()), await ask(guard(), host="evil.example")):
        assert status in (200, 421)
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "access-control-allow-origin" not in headers


async def test_the_console_of_another_cluster_names_what_the_command_has_printed_and_no_setting() -> None:
    of_the_command = guard(token=TOKEN, advice=OF_THE_COMMAND)
    status, _, body = await ask(of_the_command)
    told = json.loads(body)
    assert (status, told["token"]) == (401, "the token of the address that `eosin console` has printed")
    assert told["error"] == f"send {told['token']} as Authorization: Bearer TOKEN"
    status, _, other = await ask(of_the_command, host="kafka.example.com")
    assert (status, "open the address that `eosin console` has printed" in other.decode()) == (421, True)
    assert b"eosin." not in body + other
    _, _, of_a_broker = await ask(guard(token=TOKEN))
    assert json.loads(of_a_broker)["token"] == "the token of eosin.http.token.file"
