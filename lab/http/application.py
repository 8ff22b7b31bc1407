"""The control API as an ASGI application that needs no socket: from a request to its answer.

Always true: every answer but a stream of events is JSON, and one that is no success has the shape of `ErrorAnswer`;
an error of ours is in the log, and its answer tells no more than that.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote

import msgspec

from eosin.lab.common.errors import EosinAssertion, LabError
from eosin.lab.history.occurrences import Occurrence
from eosin.lab.http import broker_paths, data_paths, fault_paths, judging_paths, node_paths, scenario_paths
from eosin.lab.http.endpoint import ControlPath
from eosin.lab.http.failures import (
    BAD_REQUEST,
    BROKER_DOWN,
    INTERNAL,
    NOT_FOUND,
    TOO_LARGE,
    WRONG_METHOD,
    ControlFailure,
    failure_of,
)
from eosin.lab.http.hosts import Lab
from eosin.lab.http.openapi import BatchAnswer, BatchRequest, document
from eosin.lab.http.values import NOT_READY, Ready
from eosin.lab.operations import Operations
from eosin.observe.http.guard import Receive, Scope, Send

if TYPE_CHECKING:
    from eosin.lab.http.broker_http import BrokerHttp

BASE: Final = "/lab/v1"
READY: Final = "/readyz"
MOST_BYTES: Final = 64 * 1024 * 1024
"""Of a request: a snapshot may come in one."""
ENDPOINTS: Final = (
    *broker_paths.ENDPOINTS,
    *fault_paths.ENDPOINTS,
    *data_paths.ENDPOINTS,
    *judging_paths.ENDPOINTS,
    *node_paths.ENDPOINTS,
    *scenario_paths.ENDPOINTS,
)
BATCH: Final = "/batch"
DOCUMENT: Final = "/openapi.json"
HISTORY: Final = "/history"
_STREAM: Final = "text/event-stream"
_WAIT_MS: Final = 500
_LOG: Final = logging.getLogger(__name__)


class ControlApplication:
    """All paths of one lab."""

    def __init__(self, lab: Lab, of_the_broker: "BrokerHttp | None" = None) -> None:
        """`of_the_broker` has the paths of the broker itself."""
        self._lab: Final = lab
        self._of_the_broker: Final = of_the_broker
        self._is_closing: Final = asyncio.Event()

    def close(self) -> None:
        """End the streams of events."""
        self._is_closing.set()
        if self._of_the_broker is not None:
            self._of_the_broker.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        method, path = str(scope["method"]), str(scope.get("raw_path", b"").decode("latin-1") or scope["path"])
        query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True))
        headers = dict(scope.get("headers", ()))
        if self._of_the_broker is not None and self._of_the_broker.has(path):
            await self._of_the_broker(scope, receive, send)
            return
        try:
            body = await _body(receive)
            if path == READY:
                await _send_json(send, 200 if self._lab.is_up else NOT_READY, {"ready": self._lab.is_up})
                return
            own = _within(path)
            if own == HISTORY and method == "GET" and headers.get(b"accept", b"").startswith(_STREAM.encode()):
                await self._stream(query, receive, send)
                return
            status, answer = await self._result(method, own, query, body)
        except ControlFailure as failure:
            status, answer = failure.status, failure.body
        await _send_json(send, status, answer)

    async def _result(self, method: str, path: str, query: Mapping[str, str], body: bytes) -> tuple[int, Any]:
        """The status and the body of an answer. Raises ControlFailure."""
        if path == DOCUMENT and method == "GET":
            return 200, document(ENDPOINTS, BASE)
        if path == BATCH and method == "POST":
            return 200, await self._batch(body)
        return await respond(self._lab, method, path, query, body)

    async def _batch(self, body: bytes) -> list[BatchAnswer]:
        """Carry out several requests in one turn of the broker's loop. Raises ControlFailure."""
        try:
            wanted = msgspec.json.decode(body, type=list[BatchRequest])
        except msgspec.DecodeError as wrong:
            raise ControlFailure(BAD_REQUEST, f'a batch is [{{"method", "path", "body"}}, ...]: {wrong}') from None
        for each in wanted:
            endpoint, _ = _found(each.method, each.path.partition("?")[0])
            if not endpoint.in_batch:
                raise ControlFailure(
                    BAD_REQUEST, f"{each.method} {each.path} takes its time, and is in no batch", field="path"
                )

        async def carry_out(lab: Lab) -> list[BatchAnswer]:
            return [await _one(lab, each) for each in wanted]

        return await self._lab.in_one_turn(carry_out)

    async def _stream(self, query: dict[str, str], receive: Receive, send: Send) -> None:
        """Send each event as it comes, until the client goes. Raises ControlFailure before the first."""
        try:
            wanted = msgspec.convert(query, judging_paths.HistoryQuery, strict=False)
            events = await judging_paths.history(self._lab, wanted)
        except (LabError, msgspec.ValidationError) as error:
            raise ControlFailure(BAD_REQUEST, str(error)) from None
        headers = [(b"content-type", _STREAM.encode()), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        ends = [asyncio.ensure_future(receive()), asyncio.ensure_future(self._is_closing.wait())]
        last = wanted.since
        try:
            while not any(each.done() for each in ends):
                lines = [b"id: %d\ndata: %s\n\n" % (each.number, msgspec.json.encode(each)) for each in events]
                await send({"type": "http.response.body", "body": b"".join(lines) or b": \n\n", "more_body": True})
                last = max([last, *(each.number for each in events)])
                events = await self._next_events(msgspec.structs.replace(wanted, since=last))
            await send({"type": "http.response.body", "body": b""})
        finally:
            for each in ends:
                each.cancel()

    async def _next_events(self, wanted: judging_paths.HistoryQuery) -> list[Occurrence]:
        """The events that come next, or none after a while, or from a broker that does not run."""
        try:
            await self._lab.broker.call(Operations.next_event, wanted.since, _WAIT_MS)
            return await judging_paths.history(self._lab, wanted)
        except LabError:
            await asyncio.sleep(_WAIT_MS / 1000)
            return []


async def _one(lab: Lab, wanted: BatchRequest) -> BatchAnswer:
    path, _, text = wanted.path.partition("?")
    body = b"" if wanted.body is None else msgspec.json.encode(wanted.body)
    try:
        status, answer = await respond(lab, wanted.method, path, dict(parse_qsl(text)), body)
    except ControlFailure as failure:
        status, answer = failure.status, failure.body
    return BatchAnswer(status, answer)


async def respond(lab: Lab, method: str, path: str, query: Mapping[str, str], body: bytes) -> tuple[int, Any]:
    """Carry out a request; the status and the body of its answer. Raises ControlFailure."""
    endpoint, names = _found(method, path)
    try:
        answer = await endpoint.carry_out(lab, names, query, body)
    except (LabError, EosinAssertion) as error:
        is_up = lab.is_up or BROKER_DOWN not in endpoint.errors
        raise failure_of(error, names=names, is_up=is_up) from None
    except ControlFailure:
        raise
    except Exception:  # noqa: BLE001  # it is in the log, and the next request is another one
        _LOG.exception("%s %s failed", method, path)
        raise ControlFailure(INTERNAL, "an error of the lab itself: its log tells more") from None
    return NOT_READY if answer == Ready(False) else endpoint.status, answer


def _found(method: str, path: str) -> tuple[ControlPath, dict[str, str]]:
    """The endpoint of a request, and the names in its path. Raises ControlFailure."""
    parts = [unquote(each) for each in path.strip("/").split("/") if each]
    allowed = []
    for each in ENDPOINTS:
        names = each.match(parts)
        if names is not None:
            if each.method == method:
                return each, names
            allowed.append(each.method)
    if allowed:
        raise ControlFailure(WRONG_METHOD, f"{path} takes {' or '.join(allowed)}, not {method}")
    raise ControlFailure(NOT_FOUND, f"there is no {path} here; {BASE}{DOCUMENT} has all paths")


def _within(path: str) -> str:
    """A path below the base. Raises ControlFailure."""
    if path != BASE and not path.startswith(f"{BASE}/"):
        raise ControlFailure(NOT_FOUND, f"the control API is below {BASE}; {BASE}{DOCUMENT} has all paths")
    return path.removeprefix(BASE) or "/"


async def _body(receive: Receive) -> bytes:
    """The body of a request. Raises ControlFailure for one that is too large."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return bytes(body)
        body += message.get("body", b"")
        if len(body) > MOST_BYTES:
            raise ControlFailure(TOO_LARGE, f"a request has up to {MOST_BYTES} bytes")
        if not message.get("more_body"):
            return bytes(body)


async def _send_json(send: Send, status: int, answer: Any) -> None:
    body = msgspec.json.encode(answer) + b"\n"
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
