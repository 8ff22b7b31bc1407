"""`BrokerHttp`: the metrics and the console of the lab's broker, beside its control API.

Always true: their code runs in the broker's own event loop and sees one life of it; a request that a crash interrupts
ends with it, and between two lives the answer is that the broker does not run.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import Future
from typing import Any, Final, ParamSpec, TypeVar

from eosin.lab.broker import ThreadedBroker
from eosin.lab.common.errors import LabError
from eosin.node.observability import MountedHttp
from eosin.observe.http.guard import METRICS, PAGE, STATIC, Receive, Scope, Send

P = ParamSpec("P")
T = TypeVar("T")

_ALIVE: Final = "/livez"
_FACTS: Final = "/api/v1/"
_NOT_READY: Final = 503


class BrokerHttp:
    """An ASGI application for these paths."""

    def __init__(self, held: ThreadedBroker, mounted: MountedHttp) -> None:
        """`mounted` has the paths of the broker's present life."""
        self._held: Final = held
        self._mounted: Final = mounted
        self._under_way: Final[set[Future[None]]] = set()
        self._is_closing = False

    @staticmethod
    def has(path: str) -> bool:
        """True for a path of these."""
        return path in (PAGE, METRICS, _ALIVE) or path.startswith((STATIC, _FACTS))

    def close(self) -> None:
        """End what is under way: the streams of pages have no end of their own."""
        self._is_closing = True
        for each in list(self._under_way):
            each.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        loop = asyncio.get_running_loop()
        begun: list[bool] = []
        """For an answer that has begun, whether it says how long it is."""
        future: Future[None] | None = None
        is_over = False

        async def sent(message: MutableMapping[str, Any]) -> None:
            if is_over:  # it was on its way between the two loops
                return
            if message["type"] == "http.response.start":
                begun.append(any(name == b"content-length" for name, _ in message.get("headers", ())))
            await send(message)

        work = self._respond(dict(scope), _in_loop(loop, receive), _in_loop(loop, sent))
        try:
            future = self._held.thread.submit(work)
            self._under_way.add(future)
            await asyncio.wrap_future(future)
        except LabError as refused:
            is_over = True
            await _end(send, begun, str(refused))
        except asyncio.CancelledError:
            is_over = True
            if not self._is_closing:
                raise
            await _end(send, begun, "the lab ends")
        finally:
            if future is not None:
                self._under_way.discard(future)

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """In the broker's event loop. Raises LabError."""
        application = self._mounted.application
        if application is None or not self._held.broker.is_up:
            raise LabError("the broker does not run")
        await application(scope, receive, send)


def _in_loop(loop: asyncio.AbstractEventLoop, call: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """A function that is called in another event loop, and awaited in this one."""

    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return await call(*args, **kwargs)

    async def called(*args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(*args, **kwargs), loop))

    return called


async def _end(send: Send, begun: list[bool], why: str) -> None:
    """End an answer that its broker does not end."""
    if not begun:
        body = json.dumps({"error": why}).encode() + b"\n"
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": _NOT_READY, "headers": headers})
        await send({"type": "http.response.body", "body": body})
    elif not begun[0]:  # a stream, whose reader comes again
        await send({"type": "http.response.body", "body": b""})
