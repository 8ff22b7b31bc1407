"""`Console`: the routes of the live console, and what stands behind them (console.md 5 and 6).

Always true: it reads only, but for `Actions`, where they are allowed.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from eosin.broker.services import Services
from eosin.network.api import Api
from eosin.observe.console.connection_survey import ConnectionSurvey
from eosin.observe.console.explanations import BrokerExplainer
from eosin.observe.console.feed import Feed
from eosin.observe.console.history import BrokerHistory
from eosin.observe.console.log_routes import LogRoutes
from eosin.observe.console.page_routes import JSON, LONGEST_NAME, PageRoutes, json_body, refused
from eosin.observe.console.rounds import Known, Rounds
from eosin.observe.console.sessions import Sessions
from eosin.observe.console.streams import Streams
from eosin.observe.console.topic_view import TopicView
from eosin.observe.console.worker_threads import WorkerThreads
from eosin.observe.http.knowledge import Knowledge
from eosin.observe.recorder.recorder import FlightRecorder
from eosin.observe.survey.group_positions import GroupPositions
from eosin.observe.survey.survey import Survey
from eosin.runtime.version import VERSION

if TYPE_CHECKING:
    from eosin.network.connection import ServerConnection


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
        self.streams = Streams(rounds, feed, services.wire_clock, run=f"{services.clock.now_ms():x}")
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
        self._page = PageRoutes(self.streams, sessions)

    def routes(self) -> list[Route]:
        """The routes beside health, metrics and facts."""
        return [
            *self._page.routes(),
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
                return refused(f"this broker knows no {name[:LONGEST_NAME]!r}{why}", status=404)
            return json_body(found)

        return respond
