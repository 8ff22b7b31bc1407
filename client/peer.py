"""`Peer`: a node that was reached: one connection to it, and the versions to speak there; `LinkDialer` reaches nodes.

Always true: the versions are those that the node told on this very connection, and it was asked once; a node that does
not tell them is hung up on. Nothing here dials again or asks twice: whoever has a peer does.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol, Self

from eosin.client.addresses import Address
from eosin.client.connection import CLIENT_ID, Connection, Security
from eosin.client.versions import Versions, negotiate
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.api_versions import ApiVersionsResponse
from eosin.protocol.types import Message

NOT_ASKED: Final = Versions(ApiVersionsResponse())
"""The versions of a node to which each request goes at a version that is agreed on otherwise."""


class PeerConnection(Protocol):
    """The connection below a peer: `Connection` is one, and tests have others."""

    @property
    def is_open(self) -> bool:
        """True if requests can be sent."""

    async def request(self, key: ApiKey, message: Message, *, version: int, timeout_ms: int | None = None) -> Any:
        """Send one request and wait for its response. Raises a ClientError."""

    async def close(self) -> None:
        """Close it. Harmless when already closed."""


class Peer:
    """A connection, and the versions to speak on it."""

    __slots__ = ("connection", "versions")

    def __init__(self, connection: PeerConnection, versions: Versions) -> None:
        self.connection: Final = connection
        self.versions: Final = versions

    @classmethod
    async def behind(cls, connection: Connection, pinned: Mapping[ApiKey, int] | None = None) -> Self:
        """The node at the other end of a connection, asked for its versions; the connection is closed if it does not
        tell them. `pinned` APIs have one version. Raises a ClientError."""
        try:
            return cls(connection, await negotiate(connection, pinned))
        except BaseException:
            await connection.close()
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def is_open(self) -> bool:
        """True if requests can be sent."""
        return self.connection.is_open

    async def request(
        self,
        key: ApiKey,
        message: Message,
        *,
        version: int | None = None,
        at_most: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        """Send one request and wait for its response, at most `timeout_ms`. `version` is used unchecked; without it,
        the highest common one up to `at_most`. Raises a ClientError."""
        chosen = self.versions.pick(key, at_most=at_most) if version is None else version
        return await self.connection.request(key, message, version=chosen, timeout_ms=timeout_ms)

    async def close(self) -> None:
        """Hang up; requests on their way fail. Harmless when that was done already."""
        await self.connection.close()


class Dial(Protocol):
    """Reaches nodes: `LinkDialer` does it by TCP, tests do it otherwise."""

    async def __call__(self, address: Address, *, timeout_ms: int) -> Peer:
        """Connect, and learn the versions of the node. Raises a ClientError."""


class LinkDialer:
    """Reaches other nodes of a cluster by links: a request that is given up never takes effect later (cluster.md 6.11).

    The time limit of a dial is also that of the requests, and of the system's patience with a silent node.
    """

    def __init__(self, client_id: str = CLIENT_ID, security: Security | None = None) -> None:
        """`security` is TLS and a login; None leaves connections plain."""
        self._client_id: Final = client_id
        self._security: Final = security

    async def __call__(self, address: Address, *, timeout_ms: int) -> Peer:
        """Connect, and learn the versions of the node. Raises a ClientError."""
        return await Peer.behind(await self.connect(address, timeout_ms=timeout_ms))

    async def connect(self, address: Address, *, timeout_ms: int, connect_timeout_ms: int | None = None) -> Connection:
        """Connect, and ask for nothing. Raises a ClientError."""
        return await Connection.open(
            address,
            client_id=self._client_id,
            connect_timeout_ms=timeout_ms if connect_timeout_ms is None else connect_timeout_ms,
            request_timeout_ms=timeout_ms,
            security=self._security,
            link_timeout_ms=timeout_ms,
        )
