"""`OtherBroker` and `Peers`: connections to other brokers for requests between coordinators and partition leaders.

Always true: a broker is dialled when there is something to ask, at the address that the image gives it now; a
connection that is lost is forgotten with every request on it; a request that is given up takes its connection with it,
so that it does not arrive later (cluster.md 6.11); nothing is sent again here.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from eosin.client.addresses import Address
from eosin.client.errors import ClientError, ConnectionFailed, UnsupportedVersion
from eosin.client.peer import Dial, Peer
from eosin.protocol.keys import ApiKey
from eosin.protocol.types import Message

if TYPE_CHECKING:
    from eosin.cluster.quorum.rules.image import ImageDelta, RegisteredBroker

_LOG: Final = logging.getLogger("eosin.cluster.peers")


class PeerUnreachable(OSError):
    """Another broker did not answer. What was asked may have been done."""


class VersionedResponse(NamedTuple):
    """A response, and the version at which it was asked for."""

    response: Any
    version: int


class OtherBroker:
    """One other broker, which is dialled again whenever it is asked and not connected."""

    def __init__(
        self, node_id: int, *, address: Callable[[int], Address | None], dial: Dial, request_timeout_ms: int
    ) -> None:
        """`address` gives where a node is reached now, None while that is not known."""
        self.node_id = node_id
        self._address = address
        self._dial = dial
        self._timeout_ms = request_timeout_ms
        self._dialling = asyncio.Lock()
        self._at: Address | None = None
        self._peer: Peer | None = None
        self._asking: dict[asyncio.Timeout, str] = {}
        """The time limits of what is being asked, and why its answer is not waited for any more, once it is not."""
        self._is_reached = True

    async def request(self, key: ApiKey, message: Message, *, at_least: int = 0) -> VersionedResponse:
        """Send one request at the highest version that both sides know, at most `request.timeout.ms` in all. Raises
        PeerUnreachable, also when that version is below `at_least`."""
        limit = asyncio.timeout(self._timeout_ms / 1000)
        self._asking[limit] = ""
        peer: Peer | None = None
        try:
            async with limit:
                peer = await self._connected()
                version = peer.versions.pick(key)
                if version < at_least:
                    raise UnsupportedVersion(f"it serves version {version} at most")
                answer = VersionedResponse(await peer.request(key, message, version=version), version)
        except (ClientError, TimeoutError) as error:
            if peer is not None and not peer.is_open:
                await peer.close()  # to its end: the caller may send the same on another one
            why = self._asking[limit] or str(error) or f"nothing within {self._timeout_ms} ms"
            self._log_reached(is_reached=False, what=f"did not answer {key.name}: {why}")
            raise PeerUnreachable(f"broker {self.node_id} did not answer {key.name}: {why}") from error
        finally:
            del self._asking[limit]
        self._log_reached(is_reached=True, what="answers again")
        return answer

    def give_up(self, why: str) -> None:
        """Wait for no answer any more: whatever is being asked fails, with its connection. The next request dials
        again."""
        now = asyncio.get_running_loop().time()
        for limit in self._asking:
            if not limit.expired():
                self._asking[limit] = why
                limit.reschedule(now)
        self._at = None

    def _log_reached(self, *, is_reached: bool, what: str) -> None:
        """One line when it goes and one when it comes back, however many requests meet it in between."""
        if is_reached != self._is_reached:
            self._is_reached = is_reached
            _LOG.log(logging.INFO if is_reached else logging.WARNING, "broker %d %s", self.node_id, what)

    async def _connected(self) -> Peer:
        async with self._dialling:
            address = self._address(self.node_id)
            if address is None:
                raise ConnectionFailed(f"the cluster knows no address of broker {self.node_id}")
            peer = self._peer
            if peer is None or address != self._at or not peer.is_open:
                await self.close()
                peer = self._peer = await self._dial(address, timeout_ms=self._timeout_ms)
                self._at = address
            return peer

    async def close(self) -> None:
        """Hang up. The next request dials again."""
        peer, self._peer = self._peer, None
        if peer is not None:
            await peer.close()


class Peers:
    """Every other broker that was asked for."""

    def __init__(self, *, address: Callable[[int], Address | None], dial: Dial, request_timeout_ms: int) -> None:
        self._address = address
        self._dial = dial
        self._timeout_ms = request_timeout_ms
        self._peers: dict[int, OtherBroker] = {}

    def peer(self, node_id: int) -> OtherBroker:
        """The broker `node_id`; nothing is dialled yet."""
        peer = self._peers.get(node_id)
        if peer is None:
            peer = self._peers[node_id] = OtherBroker(
                node_id, address=self._address, dial=self._dial, request_timeout_ms=self._timeout_ms
            )
        return peer

    def is_known(self, node_id: int) -> bool:
        """True if the cluster tells the broker's address."""
        return self._address(node_id) is not None

    def apply(self, delta: "ImageDelta") -> None:
        """Wait for no broker that is fenced now or has begun anew: whatever it was asked, another one may decide."""
        if delta.brokers_changed:
            before, after = delta.before.brokers, delta.after.brokers
            for node_id, peer in self._peers.items():
                if is_another(before.get(node_id), after.get(node_id)):
                    peer.give_up("it is fenced, or has started again")

    async def close(self) -> None:
        """Hang up everywhere."""
        for peer in self._peers.values():
            await peer.close()


def is_another(before: "RegisteredBroker | None", after: "RegisteredBroker | None") -> bool:
    """True if a broker that was there is not the same any more, or may not lead any more."""
    if before is None or before.fenced:
        return False
    return after is None or after.fenced or after.epoch != before.epoch
