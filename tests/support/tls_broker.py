"""A broker in this process with listeners of TLS, and clients that are a socket and a context."""

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from certificates import Authority, Issued, pem
from local_broker import running
from waiting import HANG_S, until

from eosin.network.connection import ServerConnection
from eosin.node.configuration import load_config
from eosin.node.running import RunningNode

API_VERSIONS = b"\0\x12\0\0\0\0\0\7\0\1c"
"""ApiVersions v0 with correlation id 7."""


def framed(request: bytes = API_VERSIONS) -> bytes:
    return len(request).to_bytes(4, "big") + request


@dataclass(slots=True)
class TlsClient:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, request: bytes = API_VERSIONS) -> bytes:
        """The response to one request. Raises IncompleteReadError when the connection ends instead."""
        self.writer.write(framed(request))
        size = await self.reader.readexactly(4)
        return await self.reader.readexactly(int.from_bytes(size, "big"))

    async def ended(self) -> bytes:
        """Read until the broker has closed the connection."""
        try:
            return await asyncio.wait_for(self.reader.read(), HANG_S)
        except (ConnectionError, ssl.SSLError):
            return b""

    def close(self) -> None:
        self.writer.transport.abort()


@dataclass(slots=True)
class TlsBroker:
    """A running broker, and what its clients trust."""

    server: RunningNode
    authority: Authority
    clients: list[TlsClient] = field(default_factory=list)

    def port(self, listener: int = 0) -> int:
        return int(self.server.addresses[listener].rpartition(":")[2])

    def context(self, certificate: Issued | None = None) -> ssl.SSLContext:
        """The context of a client that trusts the authority, and shows a certificate if it has one."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=pem_text(self.authority))
        if certificate is not None:
            load_into(context, certificate)
        return context

    async def connect(self, context: ssl.SSLContext | None = None, *, listener: int = 0) -> TlsClient:
        """A client whose side of the handshake is done."""
        reader, writer = await asyncio.open_connection(
            "localhost", self.port(listener), ssl=context or self.context(), family=2
        )
        self.clients.append(TlsClient(reader, writer))
        return self.clients[-1]

    async def connect_plain(self, listener: int = 0) -> TlsClient:
        """A client that is connected and has said nothing."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port(listener))
        self.clients.append(TlsClient(reader, writer))
        return self.clients[-1]

    @property
    def connections(self) -> list[ServerConnection]:
        return list(self.server.host.connections)

    async def quiet(self) -> None:
        """Wait until every client is gone and nothing is counted any more."""
        for client in self.clients:
            client.close()
        host = self.server.host
        await until(lambda: not host.connections and not host.layers and not host.arriving)


@asynccontextmanager
async def tls_broker(
    authority: Authority, *settings: str, listeners: str = "SSL://127.0.0.1:0"
) -> AsyncIterator[TlsBroker]:
    """A broker in memory with `settings` as `name=value`."""
    config = load_config(flags={"eosin.durability": "memory"}, assignments=[f"listeners={listeners}", *settings]).config
    async with running(config) as server:
        broker = TlsBroker(server, authority)
        try:
            yield broker
        finally:
            for client in broker.clients:
                client.close()


def pem_text(authority: Authority) -> str:
    return pem(authority.certificate).decode()


def load_into(context: ssl.SSLContext, certificate: Issued) -> None:
    """Have a client show a certificate."""
    with tempfile.TemporaryDirectory() as directory:
        context.load_cert_chain(certificate.write(Path(directory, "client.pem")))
