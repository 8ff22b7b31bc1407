"""One client's connection: bytes become frames, frames become exchanges, responses leave in order.

Always true:
- Requests begin in the order in which they came, and responses leave in that order; at most `max_in_flight` requests
  are in between. Requests for one transaction also run in order (`TransactionOrder`).
- A bad request ends the connection of its peer, and nothing else. If the same peer repeats it, the connection is closed
  only after a delay. The log has one line for each peer and reason, then counts.
- When a client is gone, only its writes go on. An idle connection holds no memory for the socket.
- Nothing piles up. At the limit of requests in flight, or when the client does not read its responses, the connection
  begins no request and does not read its socket. Fetch responses are large, so only one at a time waits for its turn,
  and `AnswerStream` sends it as the socket takes it, from its file where it can. After `max_frames_per_turn` requests,
  other connections get a turn of the event loop.
"""

import asyncio
import logging
import select
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

from eosin.broker.answer_stream import AnswerStream
from eosin.broker.api import Api, CloseConnection, RequestContext, Services
from eosin.broker.exchange import Exchange
from eosin.broker.fetching.response_memory import ResponseMemory
from eosin.broker.handlers import api_versions
from eosin.broker.logging_format import fields
from eosin.broker.refusals import Refusals
from eosin.broker.request_hooks import ObservedRequest, RequestHooks
from eosin.broker.transactions.order import TransactionOrder
from eosin.protocol.codec import Buffer, decode_request, decode_request_header, encode_response
from eosin.protocol.frames import FrameDecoder, FrameError, SpareBuffers
from eosin.protocol.keys import ApiKey
from eosin.protocol.types import DecodeError
from eosin.runtime.clock import Timer
from eosin.storage.log.file_range import as_range

log = logging.getLogger(__name__)

_PEER_HAS_CLOSED: Final[int] = getattr(select, "POLLRDHUP", 0)
"""The poll event for a client that sends no more, though something is unread; 0 where the system has none."""

_API_VERSIONS: Final = ApiKey.API_VERSIONS
_FETCH: Final = ApiKey.FETCH
_FETCH_BYTES: Final = ApiKey.FETCH.to_bytes(2, "big")


@dataclass(slots=True)
class ConnectionHost:
    """What the connections of one broker share, and what the server sees of them."""

    services: Services
    apis: Mapping[int, Api]
    max_frame_bytes: int
    decode_request: Callable[[int, int, memoryview, int], Any] = decode_request
    """What the handler of an API gets, by its key, version, frame and where the body starts."""
    max_in_flight: int = 64
    max_frames_per_turn: int = 32
    write_buffer_bytes: int = 1_048_576
    max_connections: int = 2**31 - 1
    why_full: str = ""
    """What limits `max_connections`, and how an operator raises it."""
    refusals: Refusals = field(default_factory=Refusals)
    refused_delay_ms: int = 0
    """A peer that repeats a refused request is closed only after this."""
    max_refused: int = 100
    """Connections that are kept open for that delay at a time."""
    spare_buffers: SpareBuffers = field(default_factory=SpareBuffers)
    connections_changed: Callable[[int], None] = lambda _: None
    """Called with the number of connections when it has grown."""
    hooks: RequestHooks | None = None
    response_memory: ResponseMemory = field(default_factory=ResponseMemory)
    connections: "dict[Connection, None]" = field(default_factory=dict)
    """Open connections, oldest first."""
    arriving: int = 0
    """Connections that are accepted and not in `connections` yet."""
    refused: int = 0
    """Connections of refused peers that are not closed yet."""
    running: "dict[asyncio.Future[Any], ApiKey]" = field(default_factory=dict)
    """Requests that wait, also those of clients that are gone: a lost client undoes nothing."""


class Connection(asyncio.BufferedProtocol):
    """The protocol object of one client's transport."""

    __slots__ = (
        "_active",
        "_begin_later",
        "_close_when_sent",
        "_closing",
        "_contexts",
        "_decoder",
        "_exchanges",
        "_fetching",
        "_flush_later",
        "_frames",
        "_has_hung_up",
        "_host",
        "_loop",
        "_order",
        "_out",
        "_out_bytes",
        "_pause",
        "_reading",
        "_refusal",
        "_stream",
        "_streams_next",
        "_transport",
        "_waiting_bytes",
        "_waiting_fetch",
        "_write_blocked",
        "idle_rounds",
        "listener",
        "peer",
        "software",
    )

    def __init__(self, host: ConnectionHost, listener: str, loop: asyncio.AbstractEventLoop) -> None:
        self.listener = listener
        self.peer = "?"
        """HOST:PORT of the client."""
        self.software = ("", "")
        """The client library's name and version, as in its ApiVersions request; empty before (KIP-511)."""
        self.idle_rounds = 0
        """How often in a row the server has found `is_idle` true."""
        self._host = host
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._decoder = FrameDecoder(host.max_frame_bytes, spare=host.spare_buffers)
        # Lists, although they are queues: an empty deque has 620 bytes, in each of thousands of idle connections.
        self._frames: list[memoryview] = []
        """Received, not begun yet; at most the frames of one buffer."""
        self._exchanges: list[Exchange] = []
        """Begun, without a response yet, in order; at most `max_in_flight`."""
        self._order = TransactionOrder()
        self._out: list[Buffer] = []
        """Responses of this turn of the loop, not handed to the transport yet."""
        self._out_bytes = 0
        self._stream: AnswerStream | None = None
        """Made for the first large response."""
        self._streams_next = False
        """Whether a large response is in `_out`."""
        self._waiting_bytes = 0
        """Memory of a Fetch response that waits for the responses before it."""
        self._close_when_sent = False
        self._contexts: dict[int, RequestContext] = {}
        """Requests of one API and version share their context: by both in one number."""
        self._begin_later: asyncio.Handle | None = None
        self._flush_later: asyncio.Handle | None = None
        self._active = False
        self._fetching = False
        """Whether a Fetch is among `_exchanges`."""
        self._waiting_fetch: asyncio.Future[Any] | None = None
        """The task of a Fetch that waits."""
        self._has_hung_up = False
        """Whether the client is gone, though the socket still holds some of its bytes."""
        self._refusal: asyncio.TimerHandle | None = None
        """Closes the connection of a refused peer."""
        self._pause: Timer | None = None
        """Until it fires, a hook keeps the connection from being read."""
        self._reading = True
        self._write_blocked = False
        self._closing = False

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The client is connected."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self._host.write_buffer_bytes)
        address = transport.get_extra_info("peername") or ("?", 0)
        self.peer = f"{address[0]}:{address[1]}"
        self._host.connections[self] = None

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return self._decoder.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """`nbytes` came."""
        self._active = True
        try:
            self._frames += self._decoder.received(nbytes)
        except FrameError as error:
            self._refuse_peer("bytes that are no frames", str(error))
            return
        if self._frames and self._begin_later is None:
            self._begin_requests()

    def eof_received(self) -> bool:
        """The client sends no more. As in Kafka, that is its end."""
        return False

    def pause_writing(self) -> None:
        """The client does not read its responses."""
        self._write_blocked = True
        self._steer_reading()

    def resume_writing(self) -> None:
        """The client reads again."""
        if self._stream is not None and self._stream.is_busy:
            self._active = True
            self._stream.go_on()
            return
        self._write_blocked = False
        self._schedule_begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone. Its requests go on, and their responses are dropped."""
        self._closing = True
        self._transport = None
        self._host.connections.pop(self, None)
        for handle in (self._begin_later, self._flush_later, self._pause):
            if handle is not None:
                handle.cancel()
        if self._refusal is not None:
            self._end_refusal()
        if self._waiting_fetch is not None:
            self._waiting_fetch.cancel()
        if not self._exchanges:
            self._decoder.release()
        self._frames.clear()
        self._exchanges.clear()
        self._out.clear()
        self._count_waiting(0)
        if self._stream is not None:
            self._stream.drop()

    # Called by the stream

    def stream_ended(self) -> None:
        """The client has taken the large responses."""
        self._write_blocked = False
        if self._close_when_sent and self._transport is not None:
            self._transport.close()
        self._schedule_begin()

    def stream_failed(self, error: OSError) -> None:
        """The rest of a response cannot be read, and its size is sent already."""
        log.error("closing a connection in the middle of an answer: %s", error, extra=fields(peer=self.peer))
        self.abort()

    # Called by the server

    @property
    def in_flight(self) -> int:
        """Requests begun, without a response yet."""
        return len(self._exchanges)

    def is_idle(self) -> bool:
        """Whether nothing came since the last call, and no request is in flight."""
        idle = not self._active and not self._exchanges and not self._frames
        self._active = False
        return idle

    def look_for_end(self) -> None:
        """End the wait of a Fetch whose client is gone, and any wait that follows.

        The socket does not tell, since nothing is read from it while a Fetch waits before other requests. Requests
        without a response run all the same."""
        if self._reading or self._waiting_fetch is None or self._transport is None or not _PEER_HAS_CLOSED:
            return
        socket = self._transport.get_extra_info("socket")
        if socket is None or socket.fileno() < 0:
            return
        poll = select.poll()
        poll.register(socket.fileno(), _PEER_HAS_CLOSED)
        if poll.poll(0):
            self._has_hung_up = True
            self._waiting_fetch.cancel()

    def stop_beginning(self) -> None:
        """Begin no more requests. Those in flight still get their responses."""
        self._closing = True
        self._frames.clear()
        self._steer_reading()

    def close(self) -> None:
        """Send the responses that are ready, and close."""
        self._closing = True
        self._frames.clear()
        if self._transport is not None:
            self._flush()
            if self._stream is not None and self._stream.is_busy:
                self._close_when_sent = True
            else:
                self._transport.close()

    def close_idle(self) -> None:
        """Close, but do not wait for a client that reads none of its responses either."""
        if self._write_blocked:
            self.abort()
        else:
            self.close()

    def abort(self) -> None:
        """Close now, and drop what is unsent."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    # Begin

    def _begin_requests(self) -> None:
        """Begin as many requests as this turn of the loop allows, and send the ready responses in one piece."""
        frames = self._frames
        turn = self._host.max_frames_per_turn
        while frames and turn and self._may_begin():
            turn -= 1
            self._begin(frames.pop(0))
        self._flush()
        if not frames:
            if not self._exchanges or (self._waiting_fetch is not None and len(self._exchanges) == 1):
                self._decoder.release()  # nothing of a Fetch views its frame
        elif self._may_begin():
            self._schedule_begin()
        if frames or not self._reading:
            self._steer_reading()

    def _may_begin(self) -> bool:
        host = self._host
        return (
            not self._closing
            and not self._write_blocked
            and self._pause is None
            and len(self._exchanges) < host.max_in_flight
            and self._out_bytes <= host.write_buffer_bytes
            and not (self._fetching and self._frames and self._frames[0][:2] == _FETCH_BYTES)
        )

    def _schedule_begin(self) -> None:
        if self._begin_later is None and not self._closing:
            self._begin_later = self._loop.call_soon(self._begin_again)

    def _begin_again(self) -> None:
        self._begin_later = None
        self._begin_requests()

    def _steer_reading(self) -> None:
        """Read the socket only while its requests may begin."""
        wanted = not self._frames and not self._write_blocked and not self._closing and self._pause is None
        if wanted is self._reading or self._transport is None or self._transport.is_closing():
            return
        self._reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _begin(self, frame: memoryview) -> None:
        """Decode one request and run its handler up to its first wait."""
        host = self._host
        try:
            exchange = self._decode(frame)
            if exchange is None:
                return
            if host.hooks is not None:
                self._observe(exchange, len(frame))
            if self._order.unanswered:
                begin = partial(exchange.handle, host.services, host.hooks)
                waiting = self._order.queued(exchange.api.key, exchange.request, begin)
            else:
                waiting = exchange.handle(host.services, host.hooks)
        except DecodeError as error:
            self._refuse_peer("a malformed request", str(error))
            return
        except CloseConnection:
            self.close()
            return
        if exchange.api.key is _API_VERSIONS:
            self._keep_software(exchange.context)
        if waiting is None and not self._exchanges:
            self._queue(exchange)
        elif waiting is None:
            self._append(exchange)
        else:
            self._wait(exchange, waiting)

    def _decode(self, frame: memoryview) -> Exchange | None:
        """The exchange for a frame; None for a frame that begins none and has been dealt with."""
        header = decode_request_header(frame)
        version = header.api_version
        api = self._host.apis.get(header.api_key)
        if api is None:
            self._refuse_peer("a request with an unknown api key", str(header.api_key))
            return None
        if version in api.versions:
            request = self._host.decode_request(api.key, version, frame, header.body_offset)
            context = self._contexts.get(api.key << 16 | version)
            if context is None or context.client_id != header.client_id:
                context = self._context(api, version, header.client_id)
            return Exchange(api, context, header.correlation_id, request)
        if api.key is not _API_VERSIONS:
            self._refuse_peer("a request in a version that is not served", f"{version} of {api.key.name}")
            return None
        exchange = Exchange(api, self._context(api, 0, header.client_id), header.correlation_id, None)
        exchange.answer = encode_response(api.key, 0, header.correlation_id, api_versions.unsupported_version())
        (self._append if self._exchanges else self._queue)(exchange)
        return None

    def _context(self, api: Api, version: int, client_id: str | None) -> RequestContext:
        host = "/" + self.peer.rpartition(":")[0]
        context = RequestContext(version, client_id, host, self.listener, *self.software)
        self._contexts[api.key << 16 | version] = context
        return context

    def _keep_software(self, context: RequestContext) -> None:
        software = (context.client_software_name, context.client_software_version)
        if software != self.software:
            self.software = software
            self._contexts.clear()

    # Respond

    def _wait(self, exchange: Exchange, future: "asyncio.Future[Any]") -> None:
        """Keep a place for the response of a request that waits."""
        self._order.add(exchange.api.key, exchange.request, future)
        self._append(exchange)
        self._host.running[future] = exchange.api.key
        future.add_done_callback(partial(self._finished, exchange))
        if exchange.api.key is _FETCH:
            self._waiting_fetch = future
            if self._has_hung_up:
                future.cancel()

    def _finished(self, exchange: Exchange, future: "asyncio.Future[Any]") -> None:
        del self._host.running[future]
        if future is self._waiting_fetch:
            self._waiting_fetch = None
        try:
            exchange.finish(future)
        except CloseConnection:
            self.close()
        except asyncio.CancelledError:
            if self._has_hung_up:
                exchange.answer = []
            else:
                self.close()
        exchanges = self._exchanges
        while exchanges and exchanges[0].answer is not None:
            if exchanges[0].api.key is _FETCH:
                self._fetching = False
                self._count_waiting(0)
            self._queue(exchanges.pop(0))
        if self._fetching and exchange.api.key is _FETCH:
            self._count_waiting(_memory_of(exchange))
        if self._frames:
            self._schedule_begin()  # which sends the responses too
        elif not exchanges:
            self._flush()
            if self._transport is not None:  # of a client that is gone, others may still be under way
                self._decoder.release()
        elif self._flush_later is None:
            # More responses may follow in this turn of the loop: one write for all of them.
            self._flush_later = self._loop.call_soon(self._flush)

    def _append(self, exchange: Exchange) -> None:
        """Keep a place in the order of responses."""
        self._exchanges.append(exchange)
        if exchange.api.key is _FETCH:
            self._fetching = True
            self._count_waiting(_memory_of(exchange))

    def _count_waiting(self, held_bytes: int) -> None:
        self._host.response_memory.held_bytes += held_bytes - self._waiting_bytes
        self._waiting_bytes = held_bytes

    def _queue(self, exchange: Exchange) -> None:
        """Send a response that is the next in order."""
        buffers = exchange.answer
        assert buffers is not None
        if len(buffers) == 1:
            size = len(buffers[0])
        else:
            size = sum(map(len, buffers))
            self._streams_next = self._streams_next or bool(buffers)
        self._out += buffers
        self._out_bytes += size
        if exchange.observed is not None:
            self._answered(exchange, exchange.observed, size)

    def _observe(self, exchange: Exchange, size_bytes: int) -> None:
        exchange.observed = ObservedRequest(
            exchange.api,
            exchange.context,
            exchange.request,
            peer=self.peer,
            size_bytes=size_bytes,
            begun_ms=self._host.services.clock.elapsed_ms(),
        )

    def _answered(self, exchange: Exchange, observed: ObservedRequest, size_bytes: int) -> None:
        host = self._host
        clock = host.services.clock
        assert host.hooks is not None
        exchange.answered(host.hooks, size_bytes, clock.elapsed_ms())
        if observed.pause_ms > 0:
            if self._pause is not None:
                self._pause.cancel()
            self._pause = clock.call_later(observed.pause_ms, self._end_pause)
            self._steer_reading()

    def _end_pause(self) -> None:
        self._pause = None
        self._schedule_begin()

    def _flush(self) -> None:
        """Hand the responses to the transport in one piece."""
        if self._flush_later is not None:
            self._flush_later.cancel()
            self._flush_later = None
        out = self._out
        if not out or self._transport is None:
            return
        self._out = []
        self._out_bytes = 0
        if self._closing and self._transport.is_closing():
            return
        if self._streams_next or (self._stream is not None and self._stream.is_busy):
            self._send_stream(out)
        elif len(out) == 1:
            self._transport.write(out[0])
        else:
            self._transport.writelines(out)

    def _send_stream(self, out: list[Buffer]) -> None:
        """Send responses of which one is large, or which follow a large one that is not sent yet."""
        assert self._transport is not None
        self._streams_next = False
        if self._stream is None:
            host = self._host
            self._stream = AnswerStream(
                self._transport,
                self._loop,
                host.response_memory,
                self,
                write_buffer_bytes=host.write_buffer_bytes,
            )
        if not self._stream.send(out):
            self._write_blocked = True

    def _refuse_peer(self, reason: str, detail: str = "") -> None:
        """Close the connection of a peer whose request cannot be served. A peer that repeats it would reconnect at
        once, so its connection is closed only after a delay, unless too many wait so already."""
        host = self._host
        again = host.refusals.note(
            self.peer.rpartition(":")[0], reason, peer=self.peer, listener=self.listener, detail=detail
        )
        if not again or not host.refused_delay_ms or host.refused >= host.max_refused or self._transport is None:
            self.close()
            return
        self.stop_beginning()
        self._flush()
        host.refused += 1
        self._refusal = self._loop.call_later(host.refused_delay_ms / 1000, self._end_refusal)

    def _end_refusal(self) -> None:
        if self._refusal is not None:
            self._refusal.cancel()
            self._refusal = None
            self._host.refused -= 1
            self.close()


def _memory_of(exchange: Exchange) -> int:
    """Bytes that a response holds in memory; 0 while it is not known."""
    return sum(len(buffer) for buffer in exchange.answer or () if as_range(buffer) is None)
