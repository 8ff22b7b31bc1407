"""Connections that are held until the broker is told their clients' address, over HTTP."""

import asyncio
from pathlib import Path

import pytest
from observed_broker import ObservedBroker, observed_broker
from waiting import HANG_S
from wire import Wire

from eosin.client.errors import ConnectionFailed
from eosin.protocol.schemas.metadata import MetadataRequest
from eosin.settings.broker import STANDARD_AUTHORIZER
from eosin.settings.start_error import StartError

pytestmark = pytest.mark.process

LATER = {"eosin_advertise_later": ("*",)}


async def put(broker: ObservedBroker, body: str, *headers: str) -> tuple[int, str]:
    """The status and the answer to a request that tells an address."""
    host, _, port = broker.http.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = ["PUT /api/v1/advertise HTTP/1.1", f"Host: {broker.http}", "Connection: close", *headers]
    writer.write("\r\n".join([*head, f"Content-Length: {len(body)}", "", body]).encode())
    answer = (await asyncio.wait_for(reader.read(), HANG_S)).decode()
    writer.close()
    return int(answer.split()[1]), answer.partition("\r\n\r\n")[2]


JSON = "Content-Type: application/json"


async def test_a_client_that_is_too_early_waits_and_is_told_the_right_address() -> None:
    async with observed_broker(**LATER) as broker:
        # It is connected, and ready to be told: only its clients wait.
        early = await Wire.open(broker.address)
        asked = asyncio.ensure_future(early.ask(MetadataRequest(topics=None), 9))
        assert (await broker.get("readyz")).status == 200
        assert not asked.done()
        assert not broker.server.host.connections
        status, told = await put(broker, '{"address": "localhost:32789"}', JSON)
        assert (status, told) == (200, '{"address":"localhost:32789","listener":"PLAINTEXT"}\n')
        metadata = await asyncio.wait_for(asked, HANG_S)
        assert [(each.host, each.port) for each in metadata.brokers] == [("localhost", 32789)]
        await early.close()


async def test_a_broker_stops_while_clients_still_wait() -> None:
    async with observed_broker(**LATER) as broker:
        early = await Wire.open(broker.address)
        asked = asyncio.ensure_future(early.ask(MetadataRequest(topics=None), 9))
        await broker.get("readyz")
    with pytest.raises(ConnectionFailed):
        await asyncio.wait_for(asked, HANG_S)
    await early.close()


async def test_a_page_of_another_site_cannot_tell_an_address() -> None:
    async with observed_broker(**LATER) as broker:
        assert (await put(broker, '{"address": "evil:1"}', "Content-Type: text/plain"))[0] == 415
        assert (await put(broker, '{"address": "evil:1"}', JSON, "Origin: http://evil"))[0] == 403
        assert not broker.server.host.connections


async def test_a_broker_that_holds_nobody_has_no_such_path() -> None:
    async with observed_broker() as broker:
        assert (await put(broker, '{"address": "localhost:1"}', JSON))[0] == 404


async def test_with_a_token_nobody_else_tells_an_address(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("0123456789")
    async with observed_broker(**LATER, eosin_http_token_file=str(tmp_path / "token")) as broker:
        assert (await put(broker, '{"address": "localhost:1"}', JSON))[0] == 401
        assert (await put(broker, '{"address": "localhost:1"}', JSON, "Authorization: Bearer 0123456789"))[0] == 200


async def test_a_listener_that_not_everybody_may_use_needs_a_token_to_be_told() -> None:
    with pytest.raises(StartError, match=r"needs eosin\.http\.token\.file: not everybody may use PLAINTEXT"):
        async with observed_broker(**LATER, authorizer_class_name=STANDARD_AUTHORIZER):
            pass
