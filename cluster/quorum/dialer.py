"""Connections to controllers for the metadata follower: a port, so that tests and simulations need no sockets."""

from typing import Any, Final, Protocol

from eosin.client.addresses import Address
from eosin.client.connection import Connection, Security
from eosin.client.versions import Versions, negotiate
from eosin.protocol.keys import ApiKey
from eosin.protocol.types import Message


class ControllerConnection(Protocol):
    """A connection that is ready for requests."""

    async def request(self, key: ApiKey, message: Message, *, timeout_ms: int) -> Any:
        """The answer at the highest version that both sides know. Raises a ClientError."""

    async def close(self) -> None:
        """Close; harmless when it is closed already."""


class DialController(Protocol):
    """Opens connections to controllers (cluster.md 7.1)."""

    async def __call__(self, address: Address, *, timeout_ms: int) -> ControllerConnection:
        """Connect, and learn the versions of the peer. Raises a ClientError."""


class ControllerDialer:
    """Connections by TCP."""

    def __init__(self, client_id: str, security: Security | None = None) -> None:
        """`security` is TLS and a login; None leaves connections plain."""
        self._client_id: Final = client_id
        self._security: Final = security

    async def __call__(self, address: Address, *, timeout_ms: int) -> ControllerConnection:
        connection = await Connection.open(
            address,
            client_id=self._client_id,
            connect_timeout_ms=timeout_ms,
            request_timeout_ms=timeout_ms,
            max_in_flight=1,
            security=self._security,
            link_timeout_ms=timeout_ms,
        )
        try:
            return _Negotiated(connection, await negotiate(connection))
        except BaseException:
            await connection.close()
            raise


class _Negotiated:
    """A connection and what its peer serves."""

    def __init__(self, connection: Connection, versions: Versions) -> None:
        self._connection = connection
        self._versions = versions

    async def request(self, key: ApiKey, message: Message, *, timeout_ms: int) -> Any:
        return await self._connection.request(key, message, version=self._versions.pick(key), timeout_ms=timeout_ms)

    async def close(self) -> None:
        await self._connection.close()
