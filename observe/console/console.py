"""`Console`: the routes of the live console, and what stands behind them (console.md 5 and 6).

Reading only, but for `Actions`, where they are allowed. Always true: the page loads nothing from anywhere else, runs no
script and no style but its own files, and is shown in no frame of another page.
"""

from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from eosin.broker.services import Services
from eosin.network.api import Api
from eosin.observe.console.connection_survey import ConnectionSurvey
from eosin.observe.console.explanations import BrokerExplainer
from eosin.observe.console.feed import Feed
from eosin.observe.console.history import BrokerHistory
from eosin.observe.console.log_routes import LogRoutes
from eosin.observe.console.rounds import Known, Rounds
from eosin.observe.console.sessions import Sessions
from eosin.observe.console.streams import Streams, tables_of
from eosin.observe.console.topic_view import TopicView
from eosin.observe.console.worker_threads import WorkerThreads
from eosin.observe.http.knowledge import Knowledge
from eosin.observe.recorder.recorder import FlightRecorder
from eosin.observe.survey.group_positions import GroupPositions
from eosin.observe.survey.survey import Survey
from eosin.runtime.version import VERSION

if TYPE_CHECKING:
    from eosin.network.connection import ServerConnection

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
JSON: Final = "application/json"
LONGEST_NAME: Final = 1000
KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
PAGE: Final = "index.html"


class Console:
    """One broker's console."""

    def __init__(
        self,
        services: Services,
        survey: Survey,
        knowledge: Knowledge,
        recorder: FlightRecorder | None,
        feed: Feed | None,
        history: BrokerHistory,
        sessions: Sessions,
        *,
        connections: "Callable[[], list[ServerConnection]]",
        apis: Callable[[], Mapping[int, Api]],
    ) -> None:
        """`connections`: those that are open, oldest first; `apis`: what they are served."""
        config, cluster = services.config, services.cluster
        known = Known(
            VERSION, cluster.node_id, cluster.cluster_id, config.durability, config.eosin_console_actions_enable
        )
        positions = GroupPositions(services)
        rounds = Rounds(services, survey, positions, recorder, feed, history, known)
        self.streams = Streams(rounds, feed, services.clock, run=f"{services.clock.now_ms():x}")
        self._answers = BrokerExplainer(services, knowledge, rounds, positions)
        self._topics = TopicView(services, rounds, positions)
        self.work = WorkerThreads()
        self._connections = ConnectionSurvey(connections, services.clock)
        self._logs = LogRoutes(services, rounds, self.work)
        self._actions = None
        if config.eosin_console_actions_enable:
            from eosin.observe.console.actions import Actions
            from eosin.observe.console.own_requests import OwnRequests

            self._actions = Actions(services, OwnRequests(apis, services), recorder)
        self._sessions = sessions
        self._files = static_files()

    def routes(self) -> list[Route]:
        """The routes beside health, metrics and facts."""
        return [
            Route("/", self._page),
            Route("/static/{name:path}", self._file),
            Route("/api/v1/stream", self._stream),
            Route("/api/v1/session", self._session, methods=["POST"]),
            Route(
                "/api/v1/explain/transactions/{name:path}",
                self._lookup(self._answers.transaction, "it was never used, has expired, or has another coordinator"),
            ),
            Route(
                "/api/v1/explain/partitions/{name:path}",
                self._lookup(self._answers.partition, "there is none, or this broker has no replica of it"),
            ),
            Route(
                "/api/v1/explain/groups/{name:path}",
                self._lookup(
                    self._answers.group, "it was never used, its offsets have expired, or it has another coordinator"
                ),
            ),
            Route("/api/v1/topics/{name:path}", self._lookup(self._topics.describe)),
            Route("/api/v1/connections", self._all_connections),
            Route("/api/v1/openapi.json", self._openapi),
            *self._logs.routes(),
            *(() if self._actions is None else self._actions.routes()),
        ]

    async def stop(self) -> None:
        """End every stream."""
        self.work.stop()
        await self.streams.stop()

    async def _page(self, request: Request) -> Response:
        return _served(self._files[PAGE])

    async def _file(self, request: Request) -> Response:
        found = self._files.get(request.path_params["name"])
        return Response(status_code=404) if found is None else _served(found)

    async def _stream(self, request: Request) -> Response:
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        asked = request.query_params
        last_id = request.headers.get("last-event-id", asked.get("last", ""))
        frames = self.streams.frames(last_id, tables_of(asked.get("watch", "")), once="once" in asked)
        return StreamingResponse(frames, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def _session(self, request: Request) -> Response:
        """The guard has seen the token: a cookie stands for it from now on."""
        return Response(b"{}\n", media_type=JSON, headers={"set-cookie": self._sessions.begin()})

    async def _all_connections(self, request: Request) -> Response:
        text = request.query_params.get("contains", "")[:LONGEST_NAME]
        found = await self._connections.find(text)
        return Response(msgspec.json.encode(found) + b"\n", media_type=JSON)

    async def _openapi(self, request: Request) -> Response:
        from eosin.observe.console.openapi import description  # rarely asked for

        return Response(description(has_actions=self._actions is not None), media_type=JSON)

    def _lookup(
        self, ask: Callable[[str], Awaitable[msgspec.Struct | None]], otherwise: str = ""
    ) -> Callable[[Request], Awaitable[Response]]:
        """`otherwise`: why there may be nothing of a name."""

        async def respond(request: Request) -> Response:
            name = request.path_params["name"]
            found = await ask(name) if len(name) <= LONGEST_NAME else None
            if found is None:
                why = f": {otherwise}" if otherwise else ""
                unknown = {"error": f"this broker knows no {name[:LONGEST_NAME]!r}{why}"}
                return Response(msgspec.json.encode(unknown) + b"\n", status_code=404, media_type=JSON)
            return Response(msgspec.json.encode(found) + b"\n", media_type=JSON)

        return respond


class StaticFile(NamedTuple):
    """A file of the page."""

    body: bytes
    kind: str


def static_files() -> dict[str, StaticFile]:
    """The files of the page by their paths below `/static/`: a few dozen KB, read once when a console begins. Only what
    is in the folder by a name that was listed then is ever served."""
    return dict(_below(files("eosin.observe.console") / "static", ""))


def _below(folder: Traversable, path: str) -> list[tuple[str, StaticFile]]:
    found = []
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        suffix = "." + each.name.rpartition(".")[2]
        if each.is_dir():
            found += _below(each, f"{path}{each.name}/")
        elif suffix in KINDS:
            found.append((f"{path}{each.name}", StaticFile(each.read_bytes(), KINDS[suffix])))
    return found


def _served(file: StaticFile) -> Response:
    return Response(file.body, headers={"content-type": file.kind, "content-security-policy": POLICY})
