"""`Api`, `RequestContext` and `Services`: everything that a handler sees.

A handler that may wait is an `async def handle`, one that never waits is a `def respond`; both return the response.
Requests of a connection begin in order and are answered in order; nothing else may be assumed about what runs between
two awaits.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from eosin.broker.fetching.gone import GonePartitions
from eosin.broker.fetching.response_memory import ResponseMemory
from eosin.broker.producing.large_batches import LargeBatches
from eosin.broker.transactions.coordinator_connections import CoordinatorConnections
from eosin.broker.unserved_groups import UnservedGroups
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.runtime.chance import Chance
from eosin.runtime.clock import Clock
from eosin.runtime.round_robin import RoundRobin
from eosin.security.access import Access
from eosin.security.session import NOBODY, Authorizer, Session

if TYPE_CHECKING:
    from eosin.broker.config.store_reloads import ReloadStores
    from eosin.broker.fetching.sessions import FetchSessions
    from eosin.broker.partitions import Partitions
    from eosin.broker.security.group_shares import GroupShares
    from eosin.broker.security.new_producers import NewProducers
    from eosin.cluster.metadata.acl_entries import AclEntries
    from eosin.cluster.metadata.answers import MetadataAnswers
    from eosin.cluster.replication.led_partitions import LedPartitions
    from eosin.coordinator.groups.coordinator import GroupCoordinator
    from eosin.coordinator.transactions.coordinator import TransactionCoordinator
    from eosin.model.cluster import Cluster
    from eosin.observe.metrics.stats import TrafficStats
    from eosin.observe.recorder.recorder import FlightRecorder
    from eosin.settings.broker import BrokerConfig


class ClientConnection(Protocol):
    """The connection of a request, as far as a handler may steer it."""

    number: int
    """Higher than that of every connection that was accepted before it."""

    @property
    def is_gone(self) -> bool:
        """Whether it has ended."""

    def pause_for(self, pause_ms: int) -> None:
        """Read nothing from it, and begin none of its requests, for so long."""

    def hold(self) -> None:
        """Begin none of its requests until `release`."""

    def release(self) -> None:
        """Go on after `hold`."""

    def fetch_waits(self, end_wait: Callable[[], None]) -> None:
        """A Fetch of it waits for records: end its wait when another request comes behind it."""


@dataclass(slots=True)
class RequestContext:
    """A request's version, client and listener."""

    api_version: int
    client_id: str | None
    client_host: str
    """The peer's address in Java's form, with a leading slash: `/127.0.0.1`."""
    listener: str
    """Name of the listener that the request came in on; responses carry the addresses advertised for it."""
    client_software_name: str = ""
    client_software_version: str = ""
    session: Session = NOBODY
    """The peer, and what it may do: `context.session.may(...)`."""
    peer: str = "?"
    """HOST:PORT of the client."""
    connection: ClientConnection | None = field(default=None, repr=False, compare=False)
    """None where no connection made the context."""


@dataclass(slots=True)
class Services:
    """The owners of the broker's state. Handlers call these, and never the objects behind them."""

    config: "BrokerConfig"
    clock: Clock
    chance: Chance
    cluster: "Cluster"
    partitions: "Partitions"
    fetch_sessions: "FetchSessions"
    transactions: "TransactionCoordinator"
    groups: "GroupCoordinator"
    metadata_answers: "MetadataAnswers"
    unserved_groups: UnservedGroups = field(init=False)
    large_batches: LargeBatches = field(init=False)
    timestamp_searches: RoundRobin = field(default_factory=RoundRobin)
    """Whose turn it is to look for a record by its timestamp."""
    gone_partitions: GonePartitions = field(init=False)
    response_memory: ResponseMemory = field(default_factory=ResponseMemory)
    coordinator_connections: CoordinatorConnections = field(default_factory=CoordinatorConnections)
    recorder: "FlightRecorder | None" = None
    """Remembers what happened to transactional ids, where somebody wants to know."""
    traffic: "TrafficStats | None" = None
    """Counts what is written and read, where somebody wants to know."""
    led_partitions: "LedPartitions | None" = None
    """In a cluster of several machines: what followers and acks=all depend on. None for a broker that is alone."""
    authorizer: Authorizer | None = None
    """What sessions are made with; None where every peer may do everything."""
    group_shares: "GroupShares | None" = None
    """Limits the memory of groups by user; None without such a limit."""
    new_producers: "NewProducers | None" = None
    """Limits the transactional ids and producers that clients may add."""
    acls: "AclEntries | None" = None
    """What the authorizer decides by; None without one."""
    reload_stores: "ReloadStores | None" = None
    """Loads the key store and the trust store of a listener again; None without TLS."""

    def __post_init__(self) -> None:
        self.unserved_groups = UnservedGroups(self.clock)
        self.large_batches = LargeBatches(self.clock)
        self.gone_partitions = GonePartitions(self.clock)


Handler = Callable[[Any, RequestContext, Services], Coroutine[Any, Any, Any]]
"""(request, context, services) to a response; None means that the request has no response (Produce with acks=0).

It runs to its first wait at once, outside of a task: up to there, no `asyncio.timeout` and no `TaskGroup`."""

Responder = Callable[[Any, RequestContext, Services], Any]
"""The same for an API that never waits: it costs no coroutine (docs/adr/0011-handlers-are-functions-in-a-list.md)."""


class CloseConnection(Exception):
    """Raised by a handler to close the connection, where no response can carry the error (Produce with acks=0,
    storage.md 19): the client then looks for the leader again. It is the reply to a peer, not a fault of the broker."""


Refuse = Callable[[Any, RequestContext, ErrorCode], Any]
"""(request, context, error) to the response that carries `error` where this API's body has room for it."""


@dataclass(frozen=True, slots=True)
class Api:
    """One API as the broker serves it."""

    key: ApiKey
    versions: range
    """Served versions."""
    refuse: Refuse
    handle: Handler | None = None
    """Where the API may wait."""
    respond: Responder | None = None
    """Where it never does; an `Api` has one of the two."""
    advertised: range | None = None
    """What ApiVersions announces when that differs from what is served (Produce, storage.md section 4)."""
    announced_to: "Callable[[BrokerConfig], int] | None" = None
    """The highest version that ApiVersions announces when that is a matter of settings (InitProducerId)."""
    access: Access | None = None
    """The rights that it asks for; every API of the registry says (security.md 4.8)."""

    def __post_init__(self) -> None:
        assert (self.handle is None) != (self.respond is None), f"{self.key.name} needs one handler"

    async def response(self, request: Any, context: RequestContext, services: Services) -> Any:
        """Handle a request, of an API that waits or of one that does not."""
        if self.respond is not None:
            return self.respond(request, context, services)
        assert self.handle is not None
        return await self.handle(request, context, services)

    def announced(self, config: "BrokerConfig") -> range:
        """What ApiVersions announces under these settings."""
        versions = self.advertised or self.versions
        return versions if self.announced_to is None else range(versions.start, self.announced_to(config) + 1)
