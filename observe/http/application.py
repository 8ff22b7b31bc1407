"""The paths of the HTTP listener, as an ASGI application that needs no socket (console.md 4.1)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from eosin.observe.http.advertising import MOST_BYTES, PATH, Advertising, NotAdvertised
from eosin.observe.http.health import Health
from eosin.observe.http.knowledge import Knowledge

if TYPE_CHECKING:
    from eosin.observe.metrics.exposition import MetricsExposition

JSON: Final = "application/json"
NOT_FOUND: Final = 404
NOT_READY: Final = 503
TOO_LARGE: Final = 413


def advertising_route(advertising: Advertising) -> Route:
    """The path by which listeners are told the address for their clients."""

    async def advertise(request: Request) -> Response:
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > MOST_BYTES:
                return json_response({"error": f"this takes up to {MOST_BYTES} bytes"}, status=TOO_LARGE)
        try:
            return json_response(advertising.tell(body))
        except NotAdvertised as refused:
            return json_response({"error": str(refused)}, status=refused.status)

    return Route(PATH, advertise, methods=["PUT"])


def application(
    health: Health, knowledge: Knowledge, exposition: "MetricsExposition", others: Sequence[Route] = ()
) -> Starlette:
    """All paths. `others`: those of the console, and others that not every broker has."""

    async def livez(request: Request) -> Response:
        return Response(b"ok\n", media_type="text/plain")

    async def readyz(request: Request) -> Response:
        reasons = health.reasons()
        return json_response({"ready": not reasons, **reasons}, status=NOT_READY if reasons else 200)

    async def metrics(request: Request) -> Response:
        pieces, kind = await exposition.expose(request.headers.get("accept", ""))
        size = sum(len(piece) for piece in pieces)
        return StreamingResponse(in_turns(pieces), headers={"content-type": kind, "content-length": str(size)})

    def by_name(ask: Callable[[str], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            found = await ask(request.path_params["name"])
            if found is None:
                return json_response({"error": f"there is no {request.path_params['name']!r} here"}, status=NOT_FOUND)
            return json_response(found)

        return respond

    async def troubles(request: Request) -> Response:
        return json_response(await knowledge.troubles())

    return Starlette(
        routes=[
            Route("/livez", livez),
            Route("/readyz", readyz),
            Route("/metrics", metrics),
            *others,  # before those that take every name
            Route("/api/v1/transactions/{name:path}", by_name(knowledge.transaction)),
            Route("/api/v1/partitions/{name:path}", by_name(knowledge.partition)),
            Route("/api/v1/groups/{name:path}", by_name(knowledge.group)),
            Route("/api/v1/share-groups/{name:path}", by_name(knowledge.share_group)),
            Route("/api/v1/producers/{name:path}", by_name(knowledge.producer)),
            Route("/api/v1/brokers/troubles", troubles),
            Route("/api/v1/brokers/{name:path}", by_name(knowledge.broker)),
        ],
    )


async def in_turns(pieces: Sequence[bytes]) -> AsyncIterator[bytes]:
    """A long answer piece by piece: sending a few MB at once would hold the event loop for many ms."""
    for piece in pieces:
        yield piece
        await asyncio.sleep(0)


def json_response(value: Any, *, status: int = 200) -> Response:
    """A value as JSON."""
    return Response(msgspec.json.encode(value) + b"\n", status_code=status, media_type=JSON)
