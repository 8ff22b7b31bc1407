"""`ConnectionHost`: what the connections of one broker share, and what the server sees of them."""

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from eosin.network.api import Api
from eosin.network.large_requests import LargeRequests
from eosin.network.places import Places
from eosin.network.refusal_log import RefusalLog, RefusedPeers
from eosin.network.request_hooks import RequestHooks
from eosin.network.response_memory import ResponseMemory
from eosin.protocol.keys import ApiKey
from eosin.protocol.wire.codec import decode_request
from eosin.protocol.wire.frames import FrameDecoder, SpareBuffers
from eosin.runtime.background import Rest
from eosin.runtime.clock import Clock, elapsed_ns
from eosin.runtime.loop_watch import LoopWatch
from eosin.security.session import EVERYBODY_MAY, Authorizer

if TYPE_CHECKING:
    from eosin.network.connection import ServerConnection
    from eosin.network.limits import ConnectionLimits
    from eosin.network.request_stats import RequestStats


class Handshaking(Protocol):
    """A connection whose TLS handshake is not done (`TlsLayer`)."""

    @property
    def address(self) -> str:
        """The address of the peer."""

    @property
    def listener(self) -> str:
        """The name of the listener that it came in on."""

    def abort(self) -> None:
        """Close it at once."""


@dataclass(slots=True)
class ConnectionHost:
    """The shared state of one broker's connections, and the server's view of them."""

    services: Any
    """The services that handlers get: nothing in this room uses them."""
    clock: Clock
    apis: Mapping[int, Api]
    max_frame_bytes: int
    decode_request: Callable[..., Any] = decode_request
    """Decodes a request for its handler, from its key, version, frame and the start of its body; in a thread also with
    the function to call after each millisecond."""
    max_control_bytes: int = 2**31 - 1
    """Of requests other than Produce."""
    max_in_flight: int = 64
    max_frames_per_turn: int = 32
    write_buffer_bytes: int = 1_048_576
    max_connections: int = 2**31 - 1
    why_full: str = ""
    """The limit behind `max_connections`, and the way for an operator to raise it."""
    limits: "ConnectionLimits | None" = None
    """Finer limits; None where the settings have none."""
    refusals: RefusalLog = field(default_factory=RefusalLog)
    refused_delay_ms: int = 0
    """A peer that repeats a refused request is closed only after this."""
    max_refused: int = 100
    """Connections that are kept open for that delay at a time."""
    spare_buffers: SpareBuffers = field(default_factory=SpareBuffers)
    connections_changed: Callable[[int], None] = lambda _: None
    """Called with the number of connections when it has grown."""
    hooks: RequestHooks | None = None
    connection_delay_ms: Callable[[str], int] | None = None
    """Time for which a new connection from this address is held before it is closed, 0 if it is welcome; None if no
    quota limits connections (security.md 5.7)."""
    stats: "RequestStats | None" = None
    """Counts requests, where somebody wants to know."""
    authorizer: Authorizer = EVERYBODY_MAY
    """The authorizer of `services`."""
    response_memory: ResponseMemory = field(default_factory=ResponseMemory)
    connections: "dict[ServerConnection, None]" = field(default_factory=dict)
    """Open connections, oldest first."""
    layers: "dict[Handshaking, None]" = field(default_factory=dict)
    """Connections whose TLS handshake is not done, below those in `connections`."""
    accepted: int = 0
    """Connections so far."""
    arriving: int = 0
    """Connections that are accepted and not in `connections` yet."""
    places: Places = field(init=False)
    """Makes room when there is none."""
    refused: int = 0
    """Connections of refused peers that are not closed yet."""
    refused_peers: RefusedPeers = field(init=False)
    """Closes those of peers that repeat themselves."""
    running: "dict[asyncio.Future[Any], ApiKey]" = field(default_factory=dict)
    """Requests that wait, also those of clients that are gone: a lost client undoes nothing."""

    without_clients: Rest = field(init=False)
    """The time in which there is no connection to look at."""
    loop_watch: LoopWatch = field(init=False)
    """Is told what keeps the event loop."""
    elapsed_ns: Callable[[], int] = field(init=False)
    """Reads the clock."""
    large_requests: LargeRequests = field(init=False)
    """Begins what takes long to decode."""

    def __post_init__(self) -> None:
        self.places = Places(self)
        self.refused_peers = RefusedPeers(self)
        self.without_clients = Rest(lambda: 0 if self.connections else math.inf)
        self.loop_watch = LoopWatch(self.clock)
        self.elapsed_ns = elapsed_ns(self.clock)
        self.large_requests = LargeRequests(self)

    def opened(self, connection: "ServerConnection") -> None:
        """A client is connected."""
        self.connections[connection] = None
        self.without_clients.end()

    @property
    def used_places(self) -> int:
        """Connections, with those whose TLS handshake is not done and those that arrive."""
        return len(self.connections) + len(self.layers) + self.arriving

    def new_decoder(self, connection: "ServerConnection") -> FrameDecoder:
        """For the frames of one connection."""
        return FrameDecoder(
            self.max_frame_bytes,
            spare=self.spare_buffers,
            max_control_bytes=self.max_control_bytes,
            sender=connection,
        )
