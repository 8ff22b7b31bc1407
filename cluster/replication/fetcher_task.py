"""`FetcherTask`: one fetcher's connection to its leader: sends what `Fetcher` says, at the versions that the cluster
has agreed on, and gives it the answers.

Always true: one request is on its way at a time; a lost connection is dialled again after a pause; when `stop` returns,
no answer is handed on any more.
"""

import asyncio
import logging
from typing import Any, Final, Protocol

from eosin.client.addresses import Address
from eosin.client.connection import CONNECT_TIMEOUT_MS, Security
from eosin.client.errors import ClientError
from eosin.client.peer import NOT_ASKED, LinkDialer, Peer
from eosin.cluster.replication.fetcher import Fetch, Fetcher, SendListOffsets, Wait
from eosin.protocol.keys import ApiKey
from eosin.protocol.types import Message
from eosin.runtime.clock import Clock

_LOG: Final = logging.getLogger("eosin.cluster.replication")

SOCKET_TIMEOUT_MS: Final = 30_000
"""`replica.socket.timeout.ms`."""
_FETCH_18_FROM: Final = 27
_LIST_OFFSETS_11_FROM: Final = 29


def fetch_version(metadata_version: int) -> int:
    """The version of Fetch between brokers at a level of `metadata.version` (cluster.md 1.7)."""
    return 18 if metadata_version >= _FETCH_18_FROM else 17


def list_offsets_version(metadata_version: int) -> int:
    """The version of ListOffsets between brokers at a level of `metadata.version` (cluster.md 1.7)."""
    return 11 if metadata_version >= _LIST_OFFSETS_11_FROM else 10


class Dialer(Protocol):
    """Reaches leaders (cluster.md 7.1)."""

    async def __call__(self, address: Address, *, client_id: str) -> Peer:
        """Connect, or raise a ClientError. The leader need not tell its versions."""


async def dial_leader(address: Address, *, client_id: str, security: Security | None = None) -> Peer:
    """`Dialer` by TCP; `security` is TLS and a login, None leaves the connection plain."""
    link = LinkDialer(client_id, security)
    connection = await link.connect(address, timeout_ms=SOCKET_TIMEOUT_MS, connect_timeout_ms=CONNECT_TIMEOUT_MS)
    return Peer(connection, NOT_ASKED)


class FollowingBroker(Protocol):
    """This broker, as far as its leaders are told."""

    @property
    def broker_epoch(self) -> int:
        """The epoch of its registration now: it stands in each fetch."""

    @property
    def metadata_version(self) -> int:
        """The finalized level of `metadata.version`."""


class FetcherTask:
    """Runs one `Fetcher`."""

    def __init__(
        self, fetcher: Fetcher, address: Address, *, client_id: str, broker: FollowingBroker, dial: Dialer, clock: Clock
    ) -> None:
        """Nothing happens before `start`. `client_id` is `broker-N-fetcher-i`."""
        self.fetcher = fetcher
        self.address = address
        self._client_id = client_id
        self._broker = broker
        self._dial = dial
        self._clock = clock
        self._leader: Peer | None = None
        self._woken: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_cut_off = False
        """True if the log has a line already that says that the leader cannot be reached."""

    def start(self) -> None:
        """Begin to fetch. Harmless when started already."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=self._client_id)
            self._task.add_done_callback(self._ended)

    def wake(self) -> None:
        """Something has changed for the fetcher."""
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def stop(self) -> None:
        """Fetch no more, and close the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self._hang_up()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.critical("%s has ended, its partitions are not followed any more", self._client_id, exc_info=error)

    async def _run(self) -> None:
        while True:
            step = self.fetcher.next_step(self._clock.elapsed_ms(), broker_epoch=self._broker.broker_epoch)
            try:
                match step:
                    case Wait():
                        await self._wait(step.until_ms)
                    case Fetch():
                        version = fetch_version(self._broker.metadata_version)
                        response = await self._request(ApiKey.FETCH, step.request, version)
                        self.fetcher.fetched(response, self._clock.elapsed_ms())
                        if response.responses:
                            await asyncio.sleep(0)  # a busy loop takes its time, and the next response brings more
                    case SendListOffsets():
                        version = list_offsets_version(self._broker.metadata_version)
                        response = await self._request(ApiKey.LIST_OFFSETS, step.request, version)
                        self.fetcher.offsets_listed(response)
                self._reached(isinstance(step, Wait))
            except ClientError as error:
                await self._lost(error)

    async def _request(self, key: ApiKey, message: Message, version: int) -> Any:
        if self._leader is None:
            self._leader = await self._dial(self.address, client_id=self._client_id)
        return await self._leader.request(key, message, version=version, timeout_ms=SOCKET_TIMEOUT_MS)

    async def _wait(self, until_ms: int | None) -> None:
        self._woken = asyncio.get_running_loop().create_future()
        timer = None
        if until_ms is not None:
            timer = self._clock.call_later(max(0, until_ms - self._clock.elapsed_ms()), self.wake)
        try:
            await self._woken
        finally:
            self._woken = None
            if timer is not None:
                timer.cancel()

    def _reached(self, is_wait: bool) -> None:
        if self._is_cut_off and not is_wait:
            self._is_cut_off = False
            _LOG.info("%s: the leader at %s answers again", self._client_id, self.address)

    async def _lost(self, error: ClientError) -> None:
        self.fetcher.connection_lost(self._clock.elapsed_ms())
        await self._hang_up()
        if not self._is_cut_off:
            self._is_cut_off = True
            _LOG.warning("%s cannot fetch from the leader at %s: %s", self._client_id, self.address, error)

    async def _hang_up(self) -> None:
        leader, self._leader = self._leader, None
        if leader is not None:
            await leader.close()
