"""Links of a broker to other nodes: the certificate that it shows, and what happens when that is renewed (cluster.md
7.2, security.md 2.5)."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from waiting import HANG_S

from eosin.client.addresses import Address
from eosin.client.connection import Connection
from eosin.client.errors import AuthenticationFailed
from eosin.cluster.links.link import Link, open_links
from eosin.node.configuration import load_config
from eosin.runtime.clock import SystemClock
from eosin.settings.start_error import StartError

pytestmark = pytest.mark.process


class World:
    """A node that wants certificates, and a broker's key store."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority.root()
        self.ca = self.authority.write(folder / "ca.pem")
        self.path = folder / "broker.pem"
        self.node = self.authority.issue("node").write(folder / "node.pem")
        self.seen: asyncio.Queue[int] = asyncio.Queue()

    def renew(self) -> int:
        """Put another certificate in the place of the broker's; its serial number."""
        issued = self.authority.issue("broker")
        issued.write(self.path)
        return issued.certificate.serial_number

    def link(self, **more: str) -> Link:
        given = {
            "node.id": "3",
            "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:PLAINTEXT",
            "ssl.keystore.location": str(self.path),
            "ssl.truststore.location": self.ca,
            **more,
        }
        config = load_config(properties="".join(f"{name}={value}\n" for name, value in given.items())).config
        links = open_links(config, SystemClock())
        assert links.brokers is None
        assert isinstance(links.controllers, Link)
        return links.controllers

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Address]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.node)
        context.load_verify_locations(self.ca)
        context.verify_mode = ssl.CERT_REQUIRED

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            certificate: Any = writer.get_extra_info("ssl_object").getpeercert()
            self.seen.put_nowait(int(certificate["serialNumber"], 16))
            await reader.read()
            writer.close()

        server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
        try:
            yield Address("127.0.0.1", server.sockets[0].getsockname()[1])
        finally:
            server.close()

    async def shown(self) -> int:
        """The serial number of the certificate that the next connection shows."""
        async with asyncio.timeout(HANG_S):
            return await self.seen.get()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_a_renewed_certificate_is_shown_by_new_connections_and_open_ones_stay(world: World) -> None:
    first = world.renew()
    link = world.link()
    async with world.listening() as address, await Connection.open(address, security=link) as before:
        assert await world.shown() == first
        second = world.renew()
        await link.refresh()
        async with await Connection.open(address, security=link):
            assert await world.shown() == second
            assert before.is_open


async def test_a_store_that_cannot_be_used_leaves_the_one_before_in_place(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    first = world.renew()
    link = world.link()
    world.path.write_text("no certificate at all")
    with caplog.at_level(logging.ERROR):
        await link.refresh(forced=True)
    assert "the changed certificate cannot be used, and the old one stays" in caplog.text
    async with world.listening() as address, await Connection.open(address, security=link):
        assert await world.shown() == first


async def test_a_node_with_a_name_that_was_not_dialled_is_refused(world: World, tmp_path: Path) -> None:
    world.renew()
    world.node = world.authority.issue("node", names=("elsewhere.example",)).write(tmp_path / "elsewhere.pem")
    link = world.link()
    async with world.listening() as address:
        with pytest.raises(AuthenticationFailed, match="shows a certificate that is not trusted"):
            await Connection.open(address, security=link)
        unchecked = world.link(**{"ssl.endpoint.identification.algorithm": " "})
        async with await Connection.open(address, security=unchecked) as opened:
            assert opened.is_open


def test_a_store_that_is_not_there_ends_the_start_with_a_sentence(world: World) -> None:
    with pytest.raises(StartError, match=r"^the broker cannot connect to controllers at CONTROLLER: cannot read "):
        world.link()
