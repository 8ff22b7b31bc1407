"""`InsideFacts`: what `explain` tells of a broker of the lab: Kafka's APIs, and its recorder without HTTP."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import unquote

from eosin.client.client import Client
from eosin.node.running import RunningNode
from eosin.observe.explain.cluster_facts import ClusterFacts
from eosin.observe.http.knowledge import Knowledge
from eosin.observe.survey.survey import Survey

T = TypeVar("T")

_TIMEOUT_MS = 10_000


class InsideFacts(ClusterFacts):
    """The facts of one broker, from inside."""

    def __init__(self, client: Client, node: RunningNode) -> None:
        super().__init__(client, http=None, token=None, timeout_ms=_TIMEOUT_MS)
        seen = node.observability
        recorder, groups = (None, None) if seen is None else (seen.recorder, seen.groups)
        self._knowledge = knowledge = Knowledge(
            node.services,
            Survey(node.services),
            recorder,
            groups,
            node.host.loop_watch,
            lambda: node.host.connections,
        )
        self._by_kind: dict[str, Callable[[str], Awaitable[object]]] = {
            "transactions": knowledge.transaction,
            "partitions": knowledge.partition,
            "producers": knowledge.producer,
            "groups": knowledge.group,
            "brokers": knowledge.broker,
        }

    async def _over_http(self, path: str, kind: type[T], node_id: int | None) -> T | None:
        """The same answer as over HTTP, from the object behind it."""
        await asyncio.sleep(0)
        if path == "brokers/troubles":
            troubles = await self._knowledge.troubles()
            return troubles if isinstance(troubles, kind) else None
        what, _, name = path.partition("/")
        found = await self._by_kind[what](unquote(name))
        return found if isinstance(found, kind) else None
