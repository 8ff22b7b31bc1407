"""`Api` and `RequestContext`: how the broker serves a request, and what a handler sees of it beside its services.

A handler that may wait is an `async def handle`, one that never waits is a `def respond`; both return the response.
Requests of a connection begin in order and are answered in order; nothing else may be assumed about what runs between
two awaits.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.security.access import Access
from eosin.security.session import NOBODY, Session

if TYPE_CHECKING:
    from eosin.settings.broker import BrokerConfig


class ClientConnection(Protocol):
    """The connection of a request, as far as a handler may steer it."""

    number: int
    """Higher than that of every connection that was accepted before it."""

    @property
    def is_gone(self) -> bool:
        """True if it has ended."""

    @property
    def closed_ms(self) -> int:
        """The time at which it ended; -1 while it is open."""

    def pause_for(self, pause_ms: int) -> None:
        """Read nothing from it, and begin none of its requests, for so long."""

    def begin_turns(self) -> None:
        """Begin none of its requests until as many `end_turns`."""

    def end_turns(self) -> None:
        """Go on, unless there are turns of another request."""

    def fetch_waits(self, end_wait: Callable[[], None]) -> None:
        """A Fetch of it waits for records: end its wait when another request comes behind it."""

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Call back when it ends; at once, if it has ended."""


class Gate(Protocol):
    """Stands between a connection and its handlers until its peer is known (`SaslGate`)."""

    def opened(self) -> None:
        """The peer is connected, and unknown."""

    def admits(self, frame: memoryview) -> bool:
        """True if the connection shall begin this request as usual; otherwise the gate has dealt with it. Raises
        DecodeError and CloseConnection."""

    def closed(self) -> None:
        """The connection is gone."""


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
    is_large: bool = False
    """True if the request has thousands of elements or hundreds of kilobytes, so that even a look at each of its items
    takes turns."""
    api_key: int = -1
    """Of the request's API; -1 where no connection made the context."""

    @property
    def closed_ms(self) -> int:
        """The time at which its connection closed; -1 while it is open, and where there is none."""
        return -1 if self.connection is None else self.connection.closed_ms


Handler = Callable[[Any, RequestContext, Any], Coroutine[Any, Any, Any]]
"""(request, context, services) to a response, whatever the services are; None means that the request has no response
(Produce with acks=0).

It runs to its first wait at once, outside of a task: up to there, no `asyncio.timeout` and no `TaskGroup`."""

Responder = Callable[[Any, RequestContext, Any], Any]
"""The same for an API that never waits: it costs no coroutine (docs/adr/0011-handlers-are-functions-in-a-list.md)."""


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
    """The handler of an API that may wait."""
    respond: Responder | None = None
    """The handler of an API that never waits; an `Api` has one of the two."""
    advertised: range | None = None
    """The versions that ApiVersions announces if they differ from those that are served (Produce, storage.md section
    4)."""
    announced_to: "Callable[[BrokerConfig], int] | None" = None
    """The highest version that ApiVersions announces when that is a matter of settings (InitProducerId)."""
    access: Access | None = None
    """The rights that it asks for; every API of the registry says (security.md 4.8)."""

    def __post_init__(self) -> None:
        assert (self.handle is None) != (self.respond is None), f"{self.key.name} needs one handler"

    async def response(self, request: Any, context: RequestContext, services: Any) -> Any:
        """Handle a request, of an API that waits or of one that does not."""
        if self.respond is not None:
            return self.respond(request, context, services)
        assert self.handle is not None
        return await self.handle(request, context, services)

    def announced(self, config: "BrokerConfig") -> range:
        """The versions that ApiVersions announces under these settings."""
        versions = self.advertised or self.versions
        return versions if self.announced_to is None else range(versions.start, self.announced_to(config) + 1)
