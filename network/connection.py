"""One client's connection: bytes become frames, frames become exchanges, responses leave in order.

Always true:
- Requests begin in the order in which they came, and responses leave in that order; at most `max_in_flight` requests
  are in between. Requests for one transaction also run in order (`TransactionOrder`).
- A bad request ends the connection of its peer, and nothing else. If the same peer repeats it, the connection is closed
  only after a delay. The log has one line for each peer and reason, then counts.
- When a client is gone, only its writes go on. An idle connection holds no memory for the socket.
- Nothing piles up. At the limit of requests in flight, or when the client does not read its responses, the connection
  begins no request and does not read its socket. Only one Fetch or ShareFetch at a time is in flight (`FetchInFlight`).
  After `max_frames_per_turn` requests, or `TURN_MS`, other connections get a turn of the event loop.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from eosin.model.close_connection import CloseConnection
from eosin.model.principals import Principal
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, Gate, RequestContext
from eosin.network.exchange import Exchange, exchange_of
from eosin.network.fetch_in_flight import FETCH_BYTES, FetchInFlight, is_fetch
from eosin.network.hang_up import has_hung_up, unacknowledged_bytes
from eosin.network.host import ConnectionHost
from eosin.network.link import ClientLink
from eosin.network.pause import HELD
from eosin.network.response_queue import ResponseQueue
from eosin.network.stalls import note_stall
from eosin.network.transaction_order import TransactionOrder
from eosin.protocol.keys import ApiKey
from eosin.protocol.types import DecodeError
from eosin.protocol.wire.frame_memory import FrameMemory
from eosin.protocol.wire.frames import FrameError
from eosin.runtime.clock import NS_PER_MS, Timer, stopwatch_ns
from eosin.runtime.logging_format import fields
from eosin.security.session import NOBODY, Session

log = logging.getLogger(__name__)

TURN_MS: Final = 2
"""Time for which one connection begins requests in one turn of the event loop, but for the last of them."""
TURN_NS: Final = TURN_MS * NS_PER_MS
_API_VERSIONS: Final = ApiKey.API_VERSIONS
NewGate = Callable[["ServerConnection"], Gate]


class ServerConnection(asyncio.BufferedProtocol):
    """The protocol object of one client's transport."""

    __slots__ = (
        "_active",
        "_begin_later",
        "_close_when_sent",
        "_closing",
        "_decoder",
        "_ends",
        "_exchanges",
        "_fetch",
        "_flush_later",
        "_frames",
        "_gate",
        "_host",
        "_in_turns",
        "_link",
        "_loop",
        "_order",
        "_pause",
        "_reading",
        "_responses",
        "_transport",
        "_write_blocked",
        "closed_ms",
        "contexts",
        "idle_rounds",
        "listener",
        "number",
        "peer",
        "session",
        "software",
    )

    def __init__(
        self, host: ConnectionHost, listener: str, loop: asyncio.AbstractEventLoop, *, new_gate: NewGate | None = None
    ) -> None:
        """`new_gate`: for listeners with SASL."""
        self.listener = listener
        host.accepted += 1
        self.number = host.accepted
        self.peer = "?"
        """HOST:PORT of the client."""
        self.session = NOBODY
        """The client's identity; change it by `adopt` only."""
        self.software = ("", "")
        """The client library's name and version, as in its ApiVersions request; empty before (KIP-511)."""
        self.idle_rounds = 0
        """Number of times in a row that the server has found `is_idle` true."""
        self._host = host
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._decoder = host.new_decoder(self)
        # Lists, although they are queues: an empty deque has 620 bytes, in each of thousands of idle connections.
        self._frames: list[memoryview] = []
        """Received, not begun yet; at most the frames of one buffer."""
        self._exchanges: list[Exchange] = []
        """Begun, without a response yet, in order; at most `max_in_flight`."""
        self._order = TransactionOrder()
        self._responses = ResponseQueue(host, loop, self)
        self._fetch = FetchInFlight(host.response_memory)
        self._close_when_sent = False
        self._ends = False
        """True if the last of `_exchanges` is the last of the connection."""
        self._gate = None if new_gate is None else new_gate(self)
        self.closed_ms = -1
        self.contexts: dict[int, RequestContext] = {}
        """Requests of one API and version share their context: by both in one number."""
        self._begin_later: asyncio.Handle | None = None
        self._flush_later: asyncio.Handle | None = None
        self._active = False
        self._pause: Timer | None = None
        """Until it fires, a hook or the gate keeps the connection from being read."""
        self._in_turns = 0  # requests of many items: while they are worked on, no other one begins
        self._reading = True
        self._write_blocked = False
        self._closing = False
        self._link: ClientLink | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The client is connected."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self._host.write_buffer_bytes)
        address = transport.get_extra_info("peername") or ("?", 0)
        self.peer = f"{address[0]}:{address[1]}"
        self.adopt(Session(listener=self.listener, host=address[0], authorizer=self._host.authorizer))
        self._host.opened(self)
        if self._gate is not None:
            self._gate.opened()
        if self._host.hooks is not None:
            self._host.hooks.connected(self.linked())

    def get_buffer(self, sizehint: int) -> memoryview:
        """The memory for the next bytes."""
        return self._decoder.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """`nbytes` came."""
        self._active = True
        if self._host.loop_watch.is_resting:
            self._host.loop_watch.wake()
        try:
            self._frames += self._decoder.received(nbytes)
        except FrameError as error:
            self.refuse_peer("bytes that are no frames", str(error))
            return
        except CloseConnection:
            self.close()
            return
        if self._decoder.is_waiting:
            self._steer_reading()
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
        if self._responses.is_streaming:
            self._active = True
            self._responses.go_on()
            return
        self._write_blocked = False
        self._schedule_begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone. Its requests go on, without responses. After them no cycle holds it (ADR 58)."""
        self._closing = True
        self.closed_ms = self._host.clock.now_ms()
        self._transport = None
        self._host.connections.pop(self, None)
        for handle in (self._begin_later, self._flush_later, self._pause):
            if handle is not None:
                handle.cancel()
        if self._gate is not None:
            self._gate.closed()
            self._gate = None
        self._host.refused_peers.lost(self)
        self._fetch.drop()
        self._responses.drop()
        self._decoder.drop_large()
        if not self._exchanges:
            self._decoder.release()
        for each in (self._frames, self._exchanges, self.contexts):
            each.clear()
        if self._link is not None:
            self._link.lost(self._host.hooks)
            self._link = None

    @property
    def frame_owner(self) -> Principal | str:
        """On whose account they are held: its user, or the group of its address."""
        return self.session.owner

    def frame_admitted(self) -> None:
        """There is memory for what comes next of the large frame that has begun."""
        self._decoder.go_on()
        self._steer_reading()

    def give_way(self) -> None:
        """Others wait for the memory of its large frame, which comes too slowly."""
        self._host.refusals.closing(self, "others wait for the memory of a request that the client does not end")
        self.abort()

    def may_write(self) -> bool:
        """True if its user may write to any topic. Raises CloseConnection when that cannot be told."""
        return self.session.may_any(Operation.WRITE, ResourceType.TOPIC, quiet=True)

    def linked(self) -> ClientLink:
        """The connection as hooks see it."""
        if self._link is None:
            self._link = ClientLink(self, self._responses, self._transport)
        return self._link

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

    def adopt(self, session: Session) -> None:
        """The client is this one from the next request on. No context carries the session before (security.md 1.2)."""
        self.session = session
        self.contexts.clear()
        self._decoder.belongs_to()

    def limit_frames(self, max_bytes: int, memory: FrameMemory) -> None:
        """Larger frames end the connection; those beyond a buffer take this memory."""
        self._decoder.max_frame_bytes = max_bytes
        self._decoder.belongs_to(memory)

    def hold(self) -> None:
        """Begin no request until `release`."""
        self._pause = HELD

    def release(self) -> None:
        """Go on after `hold`, or after a pause."""
        self._pause = None
        self._schedule_begin()

    def begin_turns(self) -> None:
        """Begin no request until the turns of this one have ended."""
        self._in_turns += 1

    def end_turns(self) -> None:
        """Go on, unless there are turns of another one."""
        self._in_turns -= 1
        self._schedule_begin()

    def pause_for(self, pause_ms: int) -> None:
        """Read and begin nothing for so long; what is held stays so until its release."""
        if self._pause is HELD or self._transport is None:
            return
        if self._pause is not None:
            self._pause.cancel()
        self._pause = self._host.clock.call_later(pause_ms, self.release)
        self._steer_reading()

    def fetch_waits(self, end_wait: Callable[[], None]) -> None:
        """A Fetch waits for records; `end_wait` ends that."""
        self._fetch.may_end(end_wait)

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Call back when it ends; at once, if it has ended."""
        self.linked().on_lost(callback)

    def end_after_responses(self) -> None:
        """Begin nothing more, and close when the requests in flight have their responses."""
        self._ends = True
        self.stop_beginning()
        self._loop.call_soon(self._end)  # not now: the caller may be about to answer

    def _end(self) -> None:
        if self._ends and not self._exchanges:
            self.close()

    @property
    def waits_for_records(self) -> bool:
        """True if nothing is in flight but a Fetch that waits, or nothing at all."""
        return not self._exchanges or (self._fetch.task is not None and len(self._exchanges) == 1)

    @property
    def may_be_closed(self) -> bool:
        """True if it may be closed without a loss: no request is under way but a Fetch that waits, and no answer."""
        transport = self._transport
        if transport is None or self._closing or self._pause or self._in_turns or not self.waits_for_records:
            return False
        return not (self._frames or self._decoder.begun_bytes or transport.get_write_buffer_size())

    @property
    def is_gone(self) -> bool:
        """True if its socket is closed."""
        return self._transport is None

    @property
    def transport(self) -> asyncio.Transport | None:
        """The way of its bytes: a socket's, or a layer of TLS; None once its socket is closed."""
        return self._transport

    @property
    def has_received(self) -> bool:
        """True if a byte came."""
        return bool(self._decoder.finished or self._decoder.begun_bytes)

    @property
    def is_closing(self) -> bool:
        """True if none of its requests begins any more."""
        return self._closing

    @property
    def requests(self) -> int:
        """Number of requests that came."""
        return self._decoder.finished

    @property
    def in_flight(self) -> int:
        """Requests begun, without a response yet."""
        return len(self._exchanges)

    @property
    def client_id(self) -> str | None:
        """The client id in its requests; None before its first request after the login."""
        return next((each.client_id for each in reversed(self.contexts.values())), None)

    @property
    def begun(self) -> "list[tuple[ApiKey, int]]":
        """The API of each request in flight, in order, and its beginning by `stopwatch_ns`, 0 where that is unknown."""
        return [(each.api.key, each.begun_ns) for each in self._exchanges]

    def is_idle(self) -> bool:
        """True if nothing came since the last call, and no request is in flight."""
        idle = not self._active and not self._exchanges and not self._frames
        self._active = False
        return idle

    def check_for_end(self) -> None:
        """End the wait of a Fetch whose client is gone, and any wait that follows: nothing is read meanwhile from the
        socket, which would tell. Requests without a response run all the same."""
        if not self._reading and self._transport is not None:
            self._fetch.check_for_end(self._transport)

    def end_if_gone(self) -> None:
        """End it if its client has closed. The socket does not tell, since nothing is read from it any more."""
        if self._transport is not None and has_hung_up(self._transport):
            self.abort()

    def unread(self) -> object | None:
        """The unread part of its responses, as a value that changes with each byte; None for nothing."""
        transport = self._transport
        if transport is None or not (waiting := transport.get_write_buffer_size()):
            return None
        return waiting, self._responses.left, unacknowledged_bytes(transport)

    def unfinished(self) -> tuple[int, int] | None:
        """The frame that the client has begun: how many were complete before it, and how many bytes of it came. None
        between two frames, and while nothing is read."""
        begun = self._decoder.begun_bytes
        return (self._decoder.finished, begun) if begun and self._reading else None

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
            if self._responses.is_streaming:
                self._close_when_sent = True
            else:
                self._transport.close()

    def close_idle(self) -> None:
        """Close, but do not wait for a client that reads none of its responses either."""
        (self.abort if self._write_blocked else self.close)()

    def abort(self) -> None:
        """Close now, and drop what is unsent."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    def _begin_requests(self) -> None:
        """Begin as many requests as this turn of the loop allows, and send the ready responses in one piece."""
        self._begin_later = None
        frames = self._frames
        turn = self._host.max_frames_per_turn
        elapsed_ns = self._host.elapsed_ns
        began_ns = elapsed_ns()
        while frames and turn and self._may_begin():
            turn -= 1
            frame = frames.pop(0)
            self._begin(frame)
            took_ns = elapsed_ns() - began_ns
            if took_ns >= TURN_NS:
                note_stall(self._host, self, frame, took_ns)
                turn = 0
            del frame  # nothing views it any more, so its memory can be released
        self._flush()
        if self._decoder.complete is not None and not (frames and (self._write_blocked or self._pause)):
            self._decoder.begun()
        if frames:
            if self._may_begin():
                self._schedule_begin()
            self._steer_reading()
            return
        if not self._exchanges or (self._fetch.task is not None and len(self._exchanges) == 1):
            self._decoder.release()  # nothing of a Fetch views its frame
        if not self._reading:
            self._steer_reading()

    def _may_begin(self) -> bool:
        host = self._host
        return (
            not self._closing
            and not self._write_blocked
            and self._pause is None
            and not self._in_turns
            and (not self._exchanges or len(self._exchanges) < host.max_in_flight)
            and self._responses.ready_bytes <= host.write_buffer_bytes
            and not (self._fetch.has_begun and self._frames and self._frames[0][:2] in FETCH_BYTES)
        )

    def _schedule_begin(self) -> None:
        if self._begin_later is None and not self._closing:
            self._begin_later = self._loop.call_soon(self._begin_requests)

    def _steer_reading(self) -> None:
        """Read the socket only while its requests may begin."""
        is_held = self._pause or self._in_turns
        wanted = not (self._frames or self._write_blocked or self._closing or is_held or self._decoder.is_waiting)
        if wanted is self._reading or self._transport is None or self._transport.is_closing():
            return
        self._reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _begin(self, frame: memoryview) -> None:
        """Decode one request and run its handler up to its first wait."""
        try:
            if self._gate is not None and not self._gate.admits(frame):
                return
            exchange = exchange_of(frame, self, self._host)
            if exchange is not None:
                self.begin_exchange(exchange, len(frame))
        except DecodeError as error:
            self.refuse_peer("a malformed request", str(error))
        except CloseConnection:
            self.close()

    def begin_exchange(self, exchange: Exchange, size_bytes: int) -> None:
        """Begin a request of so many bytes. Raises CloseConnection, and DecodeError for what is decoded late."""
        host = self._host
        if host.hooks is not None:
            exchange.observe(self.linked(), size_bytes, host.clock)
        if host.stats is not None:
            exchange.begun_ns = stopwatch_ns()
        if self._order.unanswered:
            begin = partial(exchange.handle, host.services, host.hooks)
            waiting = self._order.queued(exchange.api.key, exchange.request, begin)
        else:
            waiting = exchange.handle(host.services, host.hooks)
        if exchange.api.key is _API_VERSIONS:
            self._keep_software(exchange.context)
        if waiting is None and not self._exchanges:
            self._queue(exchange)
        elif waiting is None:
            self._append(exchange)
        else:
            self._wait(exchange, waiting)

    def respond(self, exchange: Exchange) -> None:
        """The exchange has its response, and is the last that came."""
        (self._append if self._exchanges else self._queue)(exchange)

    def context(self, api: Api, version: int, client_id: str | None) -> RequestContext:
        """The context of such requests from now on."""
        session = self.session.asking(api.key.name, client_id)
        client = (client_id, "/" + session.host, self.listener, *self.software)
        context = RequestContext(version, *client, session, self.peer, self, False, api.key)
        self.contexts[api.key << 16 | version] = context
        return context

    def _keep_software(self, context: RequestContext) -> None:
        software = (context.client_software_name, context.client_software_version)
        if software != self.software:
            self.software = software
            self.contexts.clear()

    def _wait(self, exchange: Exchange, future: "asyncio.Future[Any]") -> None:
        """Keep a place for the response of a request that waits."""
        self._order.add(exchange.api.key, exchange.request, future)
        self._append(exchange)
        self._host.running[future] = exchange.api.key
        future.add_done_callback(partial(self._finished, exchange))
        if is_fetch(exchange.api.key):
            self._fetch.wait(future)

    def _finished(self, exchange: Exchange, future: "asyncio.Future[Any]") -> None:
        host = self._host
        del host.running[future]
        if host.loop_watch.is_looking:
            host.loop_watch.ended, host.loop_watch.ended_api = exchange.context, exchange.api.key
        if future is self._fetch.task:
            self._fetch.task = None
        try:
            exchange.finish(future)
        except CloseConnection:
            self.close()
        except asyncio.CancelledError:
            if self._fetch.has_hung_up:
                exchange.answer = []
            else:
                self.close()
        exchanges = self._exchanges
        while exchanges and exchanges[0].answer is not None:
            if is_fetch(exchanges[0].api.key):
                self._fetch.leave()
            self._queue(exchanges.pop(0))
        if self._fetch.has_begun and is_fetch(exchange.api.key):
            self._fetch.hold(exchange.held_bytes)
        if self._frames:
            self._schedule_begin()  # which sends the responses too
        elif not exchanges:
            self._flush()
            self._end()
            if self._transport is not None:  # of a client that is gone, others may still be under way
                self._decoder.release()
        elif self._flush_later is None:
            # More responses may follow in this turn of the loop: one write for all of them.
            self._flush_later = self._loop.call_soon(self._flush)

    def _append(self, exchange: Exchange) -> None:
        """Keep a place in the order of responses."""
        self._exchanges.append(exchange)
        if is_fetch(exchange.api.key):
            self._fetch.begin(exchange.held_bytes)
        else:
            self._fetch.make_way()

    def _queue(self, exchange: Exchange) -> None:
        """Send a response that is the next in order."""
        buffers = exchange.answer
        assert buffers is not None
        if exchange.observed is not None:
            if (hooks := self._host.hooks) is not None:  # they may have been taken away meanwhile
                exchange.report(hooks, self._host.clock.elapsed_ms())
            if exchange.observed.pause_ms > 0:
                self.pause_for(exchange.observed.pause_ms)
        self._responses.add(buffers)
        if exchange.begun_ns and (stats := self._host.stats) is not None:
            stats.record(exchange.api.key, exchange.context.api_version, stopwatch_ns() - exchange.begun_ns)

    def _flush(self) -> None:
        """Hand the responses to the transport in one piece."""
        if self._flush_later is not None:
            self._flush_later.cancel()
            self._flush_later = None
        transport = self._transport
        if transport is None or not self._responses.ready_bytes or (self._closing and transport.is_closing()):
            return
        if not self._responses.send(transport):
            self._write_blocked = True

    def refuse_peer(self, reason: str, detail: str = "") -> None:
        """Close the connection of a peer whose request cannot be served; `RefusedPeers` closes some of them later."""
        if self._host.refused_peers.hold(self, reason, detail):
            self.stop_beginning()
            self._flush()
        else:
            self.close()
