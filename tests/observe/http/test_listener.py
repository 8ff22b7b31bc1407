"""The HTTP listener of a broker: health, what it refuses over a socket, its start and its stop (console.md 4.1 and
4.4)."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from observed_broker import ObservedBroker, observed_broker
from waiting import HANG_S

from eosin.client.http import HttpError
from eosin.node.configuration import load_config
from eosin.node.node import Node
from eosin.settings.broker import STANDARD_AUTHORIZER, BrokerConfig
from eosin.settings.settings import SettingError
from eosin.settings.start_error import StartError

pytestmark = pytest.mark.process


@pytest.fixture
async def broker() -> AsyncIterator[ObservedBroker]:
    async with observed_broker() as broker:
        yield broker


async def raw(broker: ObservedBroker, request: bytes) -> bytes:
    """What the listener answers to these bytes until it closes."""
    host, _, port = broker.http.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(request)
        await writer.drain()
        return await asyncio.wait_for(reader.read(), HANG_S)
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_a_broker_that_serves_is_alive_and_ready(broker: ObservedBroker) -> None:
    assert (await broker.get("livez")).status == 200
    answer = await broker.get("readyz")
    assert (answer.status, answer.body) == (200, b'{"ready":true}\n')


async def test_a_broker_is_not_ready_while_its_coordinators_load(
    broker: ObservedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker.server.loading, "is_done", False)
    answer = await broker.get("readyz")
    assert (answer.status, answer.body) == (503, b'{"ready":false,"loading":true}\n')
    assert (await broker.get("livez")).status == 200


async def test_a_broker_with_an_internal_log_offline_names_it(broker: ObservedBroker) -> None:
    partition, log = next(each for each in broker.server.services.partitions.hosted() if each[0].topic[:2] == "__")
    log.failure = OSError(5, "Input/output error")
    answer = await broker.get("readyz")
    assert answer.status == 503
    assert str(partition).encode() in answer.body
    log.failure = None


async def test_readiness_looks_at_internal_partitions_alone(
    broker: ObservedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def walked() -> None:
        raise AssertionError("a broker may have 100,000 partitions")

    monkeypatch.setattr(broker.server.services.partitions, "hosted", walked)
    assert (await broker.get("readyz")).status == 200


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /nothing HTTP/1.1", b"404"),
        (b"POST /livez HTTP/1.1", b"415"),
        (b"POST /livez HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 0", b"405"),
        (b"POST /livez HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2", b"400"),
        (b"GET /api/v1/transactions/ HTTP/1.1", b"404"),
        (b"GET /api/v1/transactions/%ff%00%2e%2e HTTP/1.1", b"404"),
        (b"GET /../../etc/passwd HTTP/1.1", b"404"),
        (b"nonsense", b"400"),
    ],
)
async def test_requests_that_are_not_served_get_their_status(
    broker: ObservedBroker, request_line: bytes, status: bytes
) -> None:
    answer = await raw(broker, request_line + b"\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    assert answer.split(b" ", 2)[1] == status


async def test_a_request_with_two_lengths_is_refused_and_nothing_behind_it_is_read(broker: ObservedBroker) -> None:
    """A proxy in front may have read another request than this (request smuggling)."""
    hidden = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    head = b"POST /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    answer = await raw(broker, head + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


async def test_requests_behind_each_other_are_answered_in_their_order(broker: ObservedBroker) -> None:
    get = b"GET /%s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n"
    answer = await raw(
        broker, get % (b"readyz", b"") + get % (b"nothing", b"") + get % (b"livez", b"Connection: close\r\n")
    )
    assert [each[:3] for each in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"404", b"200"]
    assert answer.endswith(b"ok\n")


async def test_head_gets_the_headers_alone(broker: ObservedBroker) -> None:
    answer = await raw(broker, b"HEAD /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    assert b"content-length: 3\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


async def test_headers_without_end_are_cut_off(broker: ObservedBroker) -> None:
    answer = await raw(broker, b"GET /livez HTTP/1.1\r\nHost: a\r\n" + b"x: y\r\n" * 20_000)
    assert answer.split(b" ", 2)[1:2] in ([b"400"], [])
    assert (await broker.get("livez")).status == 200


async def test_more_headers_than_anybody_needs_are_refused_unread(broker: ObservedBroker) -> None:
    request = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n%s\r\n"
    for lines, status in ((150, b"200"), (5_000, b"400")):
        answer = await raw(broker, request % (b"x: y\r\n" * lines))
        assert answer.split(b" ", 2)[1] == status
    answer = await raw(broker, request % (b"x: %s\r\n" % (b"y" * 20_000)))
    assert answer.split(b" ", 2)[1] == b"400"


async def test_clients_that_never_finish_their_request_do_not_keep_the_broker_from_stopping() -> None:
    async with observed_broker() as broker:
        host, _, port = broker.http.rpartition(":")
        held = [await asyncio.open_connection(host, int(port)) for _ in range(20)]
        for _, writer in held:
            writer.write(b"GET /livez HTTP/1.1\r\nHost:")
        assert (await broker.get("livez")).status == 200
    for _, writer in held:
        writer.close()


async def test_connections_that_ask_nothing_make_room(broker: ObservedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eosin.observe.http.host.HEADER_SECONDS", 0.05)
    host, _, port = broker.http.rpartition(":")
    held = [await asyncio.open_connection(host, int(port)) for _ in range(3)]
    held[0][1].write(b"GET /livez HTTP/1.1\r\nHost:")  # and never the rest
    for reader, writer in held:
        assert await asyncio.wait_for(reader.read(), HANG_S) == b""
        writer.close()


async def test_a_taken_port_is_refused_before_anything_is_written(broker: ObservedBroker, tmp_path: Path) -> None:
    second = Node.alone(
        BrokerConfig(
            listeners=("PLAINTEXT://127.0.0.1:0",),
            log_dirs=(str(tmp_path / "data"),),
            eosin_http_listener=broker.http,
        )
    )
    with pytest.raises(StartError, match="the address is in use"):
        await second.start()
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("text", ["x", "70000", "1.2.3.4", "HTTP=127.0.0.1:1", "http://127.0.0.1:1", ":"])
def test_an_address_that_is_none_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(SettingError, match=r"eosin\.http\.listener must be \[HOST:\]PORT"):
        load_config(assignments=[f"eosin.http.listener={text}"])


@pytest.mark.parametrize("text", ["0.0.0.0:8080", ":8080", "[::]:8080", "192.0.2.1:1", "broker:1"])
def test_an_address_that_others_reach_needs_a_token_or_public_metrics(text: str) -> None:
    with pytest.raises(SettingError, match=r"eosin\.http\.token\.file"):
        load_config(assignments=[f"eosin.http.listener={text}"])
    load_config(assignments=[f"eosin.http.listener={text}", "eosin.http.public.metrics=true"])
    load_config(assignments=[f"eosin.http.listener={text}", "eosin.http.token.file=token"])


@pytest.mark.parametrize("content", [None, b"", b"short", b"\xff\xfe\xff\xfe\xff\xfe\xff\xfe"])
async def test_a_token_file_that_cannot_be_used_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    config = BrokerConfig(
        listeners=(), eosin_durability="memory", eosin_http_listener="0", eosin_http_token_file=str(path)
    )
    with pytest.raises(StartError, match=r"eosin\.http\.token\.file"):
        await Node.alone(config).start()


async def test_a_stop_ends_a_long_answer_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    has_begun = asyncio.Event()

    async def never(accept: str) -> None:
        has_begun.set()
        await asyncio.Event().wait()

    async with observed_broker() as broker:
        assert broker.server.observability is not None
        monkeypatch.setattr(broker.server.observability.served.exposition, "expose", never)
        asked = asyncio.create_task(broker.get("metrics"))
        await asyncio.wait_for(has_begun.wait(), HANG_S)
    with contextlib.suppress(HttpError):
        assert (await asked).status == 503
    assert not [record for record in caplog.records if record.exc_info]


async def test_with_a_token_the_facts_are_told_to_who_has_it(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("correct-horse\n")
    async with observed_broker(eosin_http_token_file=str(tmp_path / "token")) as broker:
        assert (await broker.get("metrics")).status == 401
        assert (await broker.get("metrics", token="correct-horse")).status == 200
        assert (await broker.get("readyz")).status == 200


async def test_a_secured_broker_tells_users_of_its_machine_nothing_without_a_token() -> None:
    """Where every client must prove who it is, a local user without a proof sees no topics, ids and principals."""
    async with observed_broker(
        eosin_console_enable=True, authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:admin"
    ) as broker:
        for path in ("api/v1/stream", "api/v1/transactions/x", "api/v1/topics"):
            assert (await broker.get(path)).status == 403, path
        assert (await broker.get("readyz")).status == 200
        assert (await broker.get("metrics")).status == 200


WITHOUT_LIBRARIES = """
import sys
for name in ("prometheus_client", "starlette", "uvicorn"):
    sys.modules[name] = None
from eosin.cli.__main__ import main
sys.exit(main(["serve", "--durability", "memory", "--listen", "127.0.0.1:0", "--http", "0"]))
"""


def test_without_its_libraries_the_start_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_LIBRARIES], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 2
    named = "starlette, uvicorn and prometheus-client"
    assert done.stderr == f"eosin serve: eosin.http.listener needs {named}: pip install eosin\n"
