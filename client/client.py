"""A client of a cluster: finds brokers, leaders and coordinators, picks versions, and tries again where that may help.

Owns the connections, one per broker, and what is known about the cluster. Always true: what is known may be stale, and
a response that shows it makes the client forget it; nothing is tried again that a broker has refused for good.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, Self, TypeVar

from eosin.client.addresses import Address, parse_bootstrap
from eosin.client.connection import (
    CLIENT_ID,
    CONNECT_TIMEOUT_MS,
    MAX_RESPONSE_BYTES,
    REQUEST_TIMEOUT_MS,
    Connection,
    Security,
)
from eosin.client.errors import BrokerError, ClientError, ConnectionFailed, RequestTimedOut, check
from eosin.client.metadata import ClusterMetadata
from eosin.client.peer import Peer
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from eosin.protocol.types import Message

RETRY_TIMEOUT_MS: Final = 15_000
"""Time for which something is tried again before its last error is given to the caller."""
FIRST_BACKOFF_MS: Final = 20
LAST_BACKOFF_MS: Final = 500

_BOOTSTRAP: Final = -1
"""The node id of "any broker that is in the bootstrap list"."""
_STALE_METADATA: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
_STALE_COORDINATOR: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})

T = TypeVar("T")


class CoordinatorType(IntEnum):
    """The kind of name that a coordinator coordinates."""

    GROUP = 0
    TRANSACTION = 1


class Client:
    """A cluster, seen from outside. Connects when first needed; `async with` closes it."""

    def __init__(
        self,
        bootstrap: str | Sequence[Address],
        *,
        client_id: str = CLIENT_ID,
        versions: Mapping[ApiKey, int] | None = None,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        retry_timeout_ms: int = RETRY_TIMEOUT_MS,
        security: Security | None = None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        """`bootstrap` as in `bootstrap.servers`; `versions` pins APIs to one version; `security` is a
        `ConnectionSecurity` for brokers that ask for TLS or a login; of a larger response than `max_response_bytes`
        nothing is kept."""
        self._bootstrap = parse_bootstrap(bootstrap) if isinstance(bootstrap, str) else tuple(bootstrap)
        self._client_id = client_id
        self._pinned = dict(versions or {})
        self._connect_timeout_ms = connect_timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._retry_timeout_ms = retry_timeout_ms
        self._security = security
        self._max_response_bytes = max_response_bytes
        self._peers: dict[int, Peer] = {}
        self._locks: dict[int, asyncio.Lock] = {}
        self._metadata: ClusterMetadata | None = None
        self._coordinators: dict[tuple[CoordinatorType, str], int] = {}
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection. Requests on their way fail."""
        self._closed = True
        peers = list(self._peers.values())
        self._peers.clear()
        for peer in peers:
            await peer.close()

    def beside(self, *, max_response_bytes: int) -> "Client":
        """Another client of the same cluster, with connections of its own: what it reads delays no response here."""
        return Client(
            self._bootstrap,
            client_id=self._client_id,
            versions=self._pinned,
            connect_timeout_ms=self._connect_timeout_ms,
            request_timeout_ms=self._request_timeout_ms,
            retry_timeout_ms=self._retry_timeout_ms,
            security=self._security,
            max_response_bytes=max_response_bytes,
        )

    # --- requests

    async def request(
        self,
        key: ApiKey,
        message: Message,
        *,
        node: int | None = None,
        version: int | None = None,
        at_most: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        """Ask one broker, or any with `node` None, once. `version` is used unchecked; without it, the highest common
        one up to `at_most`. Raises a ClientError; error codes in the response are the caller's to look at."""
        peer = await self.peer(node)
        try:
            return await peer.request(key, message, version=version, at_most=at_most, timeout_ms=timeout_ms)
        except RequestTimedOut:
            # Answers come in order: everything behind a request that hangs would hang too.
            await peer.close()
            raise

    async def peer(self, node: int | None = None) -> Peer:
        """The connection to a broker by its id, or to any, opened if need be. Raises a ClientError."""
        if node is None:
            node = next((each for each, peer in self._peers.items() if peer.is_open), _BOOTSTRAP)
        async with self._locks.setdefault(node, asyncio.Lock()):
            if self._closed:
                raise ClientError("the client is closed")
            peer = self._peers.get(node)
            if peer is None or not peer.is_open:
                peer = self._peers[node] = await self._open(node)
            return peer

    async def _open(self, node: int) -> Peer:
        addresses = self._bootstrap
        if node != _BOOTSTRAP:
            address = (await self.metadata()).brokers.get(node)
            if address is None:
                raise ConnectionFailed(f"broker {node} is not known to the cluster")
            addresses = (address,)
        failures = []
        for address in addresses:
            try:
                return await self._connect(address)
            except (ConnectionFailed, RequestTimedOut) as error:
                failures.append(error)
        raise ConnectionFailed("; ".join(str(failure) for failure in failures)) from failures[-1]

    async def _connect(self, address: Address) -> Peer:
        connection = await Connection.open(
            address,
            client_id=self._client_id,
            connect_timeout_ms=self._connect_timeout_ms,
            request_timeout_ms=self._request_timeout_ms,
            security=self._security,
            max_response_bytes=self._max_response_bytes,
        )
        return await Peer.behind(connection, self._pinned)

    # --- what is known

    async def metadata(self, *topics: str) -> ClusterMetadata:
        """The cluster with these topics at least, from memory where it can be. A topic may come with its error."""
        known = self._metadata
        if known is None or any(name not in known.topics or known.topics[name].error for name in topics):
            names = {*topics, *(known.topics if known is not None else ())}
            known = self._metadata = await self.fetch_metadata(sorted(names))
        return known

    async def fetch_metadata(
        self,
        topics: Sequence[str] | None = None,
        *,
        allow_auto_topic_creation: bool = False,
        with_operations: bool = False,
    ) -> ClusterMetadata:
        """Ask a broker; None is every topic. What is known is not changed. `with_operations`: also what this client may
        do with each."""
        wanted = None if topics is None else tuple(MetadataRequestTopic(name=name) for name in topics)
        request = MetadataRequest(
            topics=wanted,
            allow_auto_topic_creation=allow_auto_topic_creation,
            include_topic_authorized_operations=with_operations,
        )
        response: MetadataResponse = await self.request(ApiKey.METADATA, request)
        check(response.error_code, "asking for the cluster's metadata")
        return ClusterMetadata.of(response)

    async def leader(self, partition: TopicPartition) -> int:
        """The node that leads a partition. Raises a ClientError, retriable where waiting may help."""
        return (await self.metadata(partition.topic)).leader(partition)

    async def coordinator(self, kind: CoordinatorType, name: str) -> int:
        """The node that coordinates a group or a transactional id. Raises a ClientError."""
        known = self._coordinators.get((kind, name))
        if known is not None:
            return known
        request = FindCoordinatorRequest(key=name, key_type=kind, coordinator_keys=(name,))
        response: FindCoordinatorResponse = await self.request(ApiKey.FIND_COORDINATOR, request)
        doing = f"looking for the coordinator of {kind.name.lower()} {name!r}"
        node = response.node_id
        check(response.error_code, doing, response.error_message)
        for each in response.coordinators:
            check(each.error_code, doing, each.error_message)
            node = each.node_id
        if node not in (await self.metadata()).brokers:
            self._metadata = None
            await self.metadata()
        self._coordinators[kind, name] = node
        return node

    async def call_coordinator(
        self, kind: CoordinatorType, name: str, key: ApiKey, message: Message, **how: Any
    ) -> Any:
        """`request` to the coordinator of a group or a transactional id."""
        return await self.request(key, message, node=await self.coordinator(kind, name), **how)

    async def transaction_version(self) -> int:
        """The cluster's `transaction.version` feature, of the first broker that answers. Raises a ClientError."""
        return (await self.retry(self.peer)).versions.transaction_version

    def forget(self) -> None:
        """Look everything up again when it is next needed."""
        self._metadata = None
        self._coordinators.clear()

    def forget_topics(self) -> None:
        """Look topics and the leaders of their partitions up again when they are next needed."""
        self._metadata = None

    # --- trying again

    async def retry(self, attempt: Callable[[], Awaitable[T]], *, timeout_ms: int | None = None) -> T:
        """`attempt` until it succeeds, fails for good, or `timeout_ms` have passed. It must be safe to repeat."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self._retry_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        backoff_ms = FIRST_BACKOFF_MS
        while True:
            try:
                return await attempt()
            except ClientError as error:
                if self._closed or not error.retriable or loop.time() + backoff_ms / 1000 > deadline:
                    raise
                self._learn_from(error)
            await asyncio.sleep(backoff_ms / 1000)
            backoff_ms = min(backoff_ms * 2, LAST_BACKOFF_MS)

    def _learn_from(self, error: ClientError) -> None:
        if not isinstance(error, BrokerError):
            self.forget()
        elif error.code in _STALE_METADATA:
            self._metadata = None
        elif error.code in _STALE_COORDINATOR:
            self._coordinators.clear()
