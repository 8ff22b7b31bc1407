"""`ControllerChannel`: one connection to whichever controller is active now, for one purpose (cluster.md 2.1, 2.2).

Always true: one request is on its way at a time, in the order in which they were asked; every new connection starts
with ApiVersions, and a request leaves at the highest version that both sides know; a request that a controller refuses
as not the active one, or whose connection is lost, stays first in the queue until another controller has answered it or
its time is over. A request that timed out takes its connection with it, so that a late response meets no other request.

Purposes have channels of their own: a heartbeat behind anything else is how a broker gets fenced.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from eosin.client.addresses import Address
from eosin.client.connection import Security
from eosin.client.errors import (
    AuthenticationFailed,
    BrokerError,
    ConnectionFailed,
    ProtocolViolation,
    RequestTimedOut,
)
from eosin.client.peer import LinkDialer, Peer
from eosin.client.versions import Versions
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.types import Message
from eosin.runtime.clock import Clock

_LOG: Final = logging.getLogger(__name__)

RETRY_MS: Final = 100
"""Between two looks for an active controller, and after an attempt that failed (cluster.md 2.1)."""
REFUSED_RETRY_MS: Final = 1000
"""Before a certificate or a login that one side has refused is tried again: a certificate is renewed, a user made."""
SOCKET_TIMEOUT_MS: Final = 30_000
"""`controller.socket.timeout.ms`: a connection that is silent for so long with a request on its way is given up."""


class ControllerAddress(Protocol):
    """The active controller as the metadata follower knows it."""

    @property
    def node_id(self) -> int:
        """Its node id."""

    @property
    def epoch(self) -> int:
        """The raft epoch in which it leads."""

    @property
    def host(self) -> str:
        """Its host on the controller listener."""

    @property
    def port(self) -> int:
        """Its port there."""


class ControllerUnavailable(OSError):
    """No active controller answered in time. The request may have been carried out, or may yet be."""


class ControllerChannel:
    """A connection to the active controller that follows it wherever it goes."""

    def __init__(
        self,
        find_leader: Callable[[], ControllerAddress | None],
        *,
        clock: Clock,
        client_id: str,
        security: Security | None = None,
        why_unknown: Callable[[], str] = str,
        socket_timeout_ms: int = SOCKET_TIMEOUT_MS,
    ) -> None:
        """`find_leader` tells the active controller, None while it is unknown; nothing is dialled before a request.
        `security` is TLS and a login; None leaves connections plain. `why_unknown` may say why there is no active
        controller."""
        self._why_unknown = why_unknown
        self._find_leader = find_leader
        self._clock = clock
        self._dial = LinkDialer(client_id, security)
        self._socket_timeout_ms = socket_timeout_ms
        self._turn = asyncio.Lock()
        self._peer: Peer | None = None
        self._leader: tuple[int, str, int] | None = None
        """Id and address of the controller that is connected."""
        self._versions: Versions | None = None
        self._last_complaint = ""

    def served(self, key: ApiKey) -> tuple[int, int] | None:
        """The versions of an API that the controller asked last serves; None when it has no such API, or when none was
        asked yet."""
        return None if self._versions is None else self._versions.served(key)

    @property
    def features(self) -> Mapping[str, int]:
        """The finalized features of the cluster, as the controller that was asked last told them when the connection to
        it was opened; empty when none was asked yet."""
        return {} if self._versions is None else self._versions.features

    async def request(
        self, key: ApiKey, message: Message, *, timeout_ms: int | None = None, at_most: int | None = None
    ) -> Any:
        """The active controller's response, which is not NOT_CONTROLLER at any level.

        Waits its turn, and for a controller, `timeout_ms` in all; None waits for ever. `at_most` limits the version.
        Raises ControllerUnavailable when the time is over, and UnsupportedVersion when both sides share no version.
        """
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000), self._turn:
                while True:
                    response = await self._attempt(key, message, at_most)
                    if response is not None:
                        self._last_complaint = ""
                        return response
                    await self._clock.sleep(RETRY_MS)
        except TimeoutError:
            why = self._last_complaint or "the active controller is silent, or busy with earlier requests"
            raise ControllerUnavailable(f"{key.name} had no answer in {timeout_ms} ms: {why}") from None

    async def close(self) -> None:
        """Close the connection; a request on its way fails. A later request opens another."""
        await self._hang_up()

    async def _attempt(self, key: ApiKey, message: Message, at_most: int | None) -> Any:
        """The response; None when the request has to be tried again."""
        leader = self._find_leader()
        if leader is None:
            why = self._why_unknown()
            self._complain(f"the active controller is unknown{': ' if why else ''}{why}")
            await self._hang_up()
            return None
        try:
            peer = await self._connected(leader)
            response = await peer.request(key, message, at_most=at_most, timeout_ms=self._socket_timeout_ms)
        except AuthenticationFailed as error:
            self._complain(str(error), logging.WARNING)
            await self._hang_up()
            await self._clock.sleep(REFUSED_RETRY_MS)
            return None
        except (BrokerError, ConnectionFailed, ProtocolViolation, RequestTimedOut) as error:
            self._complain(str(error))
            await self._hang_up()
            return None
        except BaseException:  # given up half way: a response that comes later must not meet the next request
            await self._hang_up()
            raise
        if is_not_controller(response):
            self._complain(f"controller {leader.node_id} is not the active one any more")
            await self._hang_up()
            return None
        return response

    async def _connected(self, leader: ControllerAddress) -> Peer:
        wanted = (leader.node_id, leader.host, leader.port)
        peer = self._peer
        if peer is None or not peer.is_open or self._leader != wanted:
            await self._hang_up()
            address = Address(leader.host, leader.port)
            peer = self._peer = await self._dial(address, timeout_ms=self._socket_timeout_ms)
            self._versions = peer.versions
            self._leader = wanted
        return peer

    async def _hang_up(self) -> None:
        peer, self._peer, self._leader = self._peer, None, None
        if peer is not None:
            await peer.close()

    def _complain(self, sentence: str, level: int = logging.DEBUG) -> None:
        """Log why there is no answer, once until there is one."""
        if sentence != self._last_complaint:
            self._last_complaint = sentence
            _LOG.log(level, "no answer from a controller: %s", sentence)


def is_not_controller(response: Message) -> bool:
    """True if an error code at any level of a response is NOT_CONTROLLER."""
    if getattr(response, "error_code", ErrorCode.NONE) == ErrorCode.NOT_CONTROLLER:
        return True
    for name in response.__struct_fields__:
        value = getattr(response, name)
        if isinstance(value, tuple) and any(isinstance(each, Message) and is_not_controller(each) for each in value):
            return True
    return False
