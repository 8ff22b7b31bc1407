"""`HttpHost`: uvicorn on the broker's own event loop, from a bound socket to a clean stop (console.md 4.1).

Always true: signals stay the broker's; nothing here ends the broker, whatever a peer of the listener does; and a stop
waits no longer than `STOP_SECONDS` for answers that are under way.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from eosin.observe.http.crowd import LONGEST_HEADERS, HttpConnections, Seldom, lacks_the_rest
from eosin.observe.http.guard import Application, Receive, Scope, Send
from eosin.observe.http.tls import TlsPort

if TYPE_CHECKING:
    from eosin.network.acceptor import BoundSocket

_LOG: Final = logging.getLogger(__name__)

MOST_CONNECTIONS: Final = 64
KEEP_ALIVE_SECONDS: Final = 30
HEADER_SECONDS = 10
"""The time in which a client must send its whole request: uvicorn itself waits for ever."""
CHECK_SECONDS: Final = 0.5
STOP_SECONDS: Final = 1
STOPPING: Final = 503


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers."""

    def __init__(self, config: uvicorn.Config, context: Callable[[], ssl.SSLContext] | None) -> None:
        super().__init__(config)
        self._context = context
        self.is_up = asyncio.Event()
        """Set once it answers, or never will."""

    async def startup(self, sockets: "list[BoundSocket] | None" = None) -> None:
        """Begin to answer."""
        try:
            if self._context is None:
                await super().startup(sockets=sockets)
            else:
                await self._begin_tls(self._context, sockets or [])
        finally:
            self.is_up.set()

    async def _begin_tls(self, context: Callable[[], ssl.SSLContext], sockets: "list[BoundSocket]") -> None:
        """uvicorn's own TLS would keep its first certificate."""
        config = self.config

        def make() -> asyncio.Protocol:
            protocol: Any = config.http_protocol_class
            above: asyncio.Protocol = protocol(config=config, server_state=self.server_state, app_state={}, _loop=None)
            return above

        port, loop = TlsPort(context, make), asyncio.get_running_loop()
        self.servers = [await loop.create_server(port.protocol, sock=each, backlog=config.backlog) for each in sockets]
        self.started = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: the broker stops this server itself."""
        yield


class HttpHost:
    """One HTTP listener."""

    def __init__(
        self, application: Application, bound: "BoundSocket", context: Callable[[], ssl.SSLContext] | None = None
    ) -> None:
        """`context` is asked for each connection; None speaks plain HTTP."""
        self._bound = bound
        self._application = application
        config = uvicorn.Config(
            self._respond,
            interface="asgi3",
            lifespan="off",
            access_log=False,
            log_config=None,
            ws="none",
            http=HttpConnections(MOST_CONNECTIONS).protocol(),  # type: ignore[arg-type]  # any callable will do
            h11_max_incomplete_event_size=LONGEST_HEADERS,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
            server_header=False,
            proxy_headers=False,
        )
        self._server = _Server(config, context)
        self._serving: asyncio.Task[Any] | None = None
        self._looking: asyncio.TimerHandle | None = None
        self._seen: dict[Any, float] = {}
        """Connections without a whole request, and since when."""

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A stop ends what takes longer than it may: that is no failure, of which uvicorn would log a traceback."""
        has_begun = False

        async def sent(message: MutableMapping[str, Any]) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._application(scope, receive, sent)
        except asyncio.CancelledError:
            if not self._server.should_exit:
                raise
            if not has_begun:
                await send({"type": "http.response.start", "status": STOPPING, "headers": []})
                await send({"type": "http.response.body", "body": b""})

    async def start(self) -> None:
        """Answer requests from now on."""
        loop = asyncio.get_running_loop()
        told = logging.getLogger("uvicorn.error")
        told.setLevel(logging.WARNING)  # it tells of each start and stop
        told.filters = [*(each for each in told.filters if not isinstance(each, Seldom)), Seldom(loop.time)]
        self._serving = loop.create_task(self._server.serve(sockets=[self._bound]))
        await self._server.is_up.wait()
        if self._serving.done():
            self._serving.result()
        self._check()

    def _check(self) -> None:
        """Close connections that ask nothing, or never the whole: a few dozen of them would keep all others out."""
        loop = asyncio.get_running_loop()
        now, seen = loop.time(), self._seen
        self._seen = {
            each: seen.get(each, now) for each in self._server.server_state.connections if lacks_the_rest(each)
        }
        for each, since in self._seen.items():
            if now - since >= HEADER_SECONDS:
                each.transport.close()
        self._looking = loop.call_later(CHECK_SECONDS, self._check)

    async def stop(self) -> None:
        """Answer what is under way, and close."""
        if self._serving is None:
            self._bound.close()
            return
        if self._looking is not None:
            self._looking.cancel()
        self._server.should_exit = True
        _, late = await asyncio.wait((self._serving,), timeout=STOP_SECONDS + 1)
        if late:
            self._server.force_exit = True
            self._serving.cancel()
            await asyncio.wait((self._serving,))
        elif not self._serving.cancelled() and (error := self._serving.exception()) is not None:
            _LOG.error("the HTTP listener has failed: %s", error)
