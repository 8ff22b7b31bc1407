"""`ClusterConsole`: the console's pages over any Kafka cluster, as far as Kafka's protocol tells (console.md 5).

Always true: it reads only; an answer that a broker refuses is a sentence on the page.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from eosin.client.client import Client
from eosin.client.errors import ClientError
from eosin.observe.console.cluster_answers import ClusterAnswers
from eosin.observe.console.cluster_records import ClusterRecords
from eosin.observe.console.cluster_rounds import SHORTEST_MS, ClusterRounds
from eosin.observe.console.page_routes import LONGEST_NAME, PageRoutes, json_body, refused
from eosin.observe.console.sessions import Sessions
from eosin.observe.console.streams import Streams
from eosin.observe.explain.cluster_facts import ClusterFacts
from eosin.runtime.clock import Clock

ONLY_EOSIN: Final = (
    "the console of another cluster has no such page: only a broker with `eosin serve --console` knows it"
)


class ClusterConsole:
    """One cluster's console."""

    def __init__(
        self, client: Client, facts: ClusterFacts, sessions: Sessions, clock: Clock, *, bootstrap: str
    ) -> None:
        """`bootstrap`: the address that the page names the cluster by."""
        self._facts = facts
        rounds = ClusterRounds(client, clock, bootstrap=bootstrap)
        self.streams: Final = Streams(rounds, None, clock, run=f"{clock.now_ms():x}", shortest_ms=SHORTEST_MS)
        self._records = ClusterRecords(client, rounds.transactions.owner, clock)
        self._answers = ClusterAnswers(client, rounds, facts)
        self._page = PageRoutes(self.streams, sessions)

    def application(self) -> Starlette:
        """All paths."""
        answers = self._answers
        return Starlette(
            routes=[
                *self._page.routes(),
                Route("/api/v1/explain/transactions/{name:path}", self._lookup(answers.transaction)),
                Route("/api/v1/explain/partitions/{name:path}", self._lookup(answers.partition)),
                Route("/api/v1/explain/groups/{name:path}", self._lookup(answers.group)),
                Route("/api/v1/topics/{name:path}", self._lookup(answers.topic)),
                Route("/api/v1/partitions/{name}/records", self._records.respond),
                Route("/api/v1/{rest:path}", _absent),
            ]
        )

    async def stop(self) -> None:
        """End every stream."""
        await self.streams.stop()
        await self._records.stop()

    def _lookup(
        self, ask: Callable[[str], Awaitable[msgspec.Struct | None]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            name = request.path_params["name"]
            try:
                found = await ask(name) if len(name) <= LONGEST_NAME else None
            except ClientError as error:
                return refused(str(error), status=502)
            finally:
                self._facts.complaints.clear()
            if found is None:
                return refused(f"this cluster knows no {name[:LONGEST_NAME]!r}", status=404)
            return json_body(found)

        return respond


async def _absent(request: Request) -> Response:
    return refused(ONLY_EOSIN, status=404)
