"""`StreamsTopics`: creates the internal topics of streams groups, which their members miss (streams-groups.md 3).

Always true: of one topic one creation is under way, whoever asks for it; one that has failed is not tried again for two
heartbeat intervals, and every answer tells of it meanwhile.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from eosin.coordinator.groups.streams.topology.topology import InternalTopic
from eosin.protocol.errors import ErrorCode
from eosin.runtime.clock import Clock

if TYPE_CHECKING:
    from eosin.model.cluster import Cluster
    from eosin.network.api import RequestContext

MOST_FAILURES: Final = 10_000
"""Failures that are remembered; beyond, the oldest is forgotten, and tried again sooner."""
MOST_TOLD: Final = 3
"""Failures that one answer tells of."""
_INTERVALS: Final = 2


class StreamsTopics:
    """The creations that are under way, and those that have failed."""

    def __init__(self, cluster: "Cluster", clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._creating: dict[str, asyncio.Task[str | None]] = {}
        self._failures: dict[str, tuple[float, str]] = {}
        """Until when, and why."""

    async def create(
        self, topics: Sequence[InternalTopic], context: "RequestContext", *, heartbeat_interval_ms: int
    ) -> str:
        """Create these topics in the name of a member's client, as far as they are not there, and wait for it, a
        heartbeat interval at most: who is not answered cannot say that it lives. Returns what has failed of late, or is
        still under way, as sentences; empty if all are there."""
        waited: list[asyncio.Task[str | None]] = []
        for topic in topics:
            failure = self._failures.get(topic.name)
            if failure is not None and self._clock.elapsed_ms() < failure[0]:
                continue
            self._failures.pop(topic.name, None)
            waited.append(self._creation(topic, context, heartbeat_interval_ms))
        if waited:
            await self._wait(waited, most_ms=heartbeat_interval_ms)
        under_way = sum(not each.done() for each in waited)
        told = [failure[1] for topic in topics if (failure := self._failures.get(topic.name)) is not None]
        more = [f"{len(told) - MOST_TOLD} more have failed."] if len(told) > MOST_TOLD else []
        if under_way:
            more.append(f"{under_way} are still being created.")
        return " ".join(told[:MOST_TOLD] + more)

    async def _wait(self, creations: "Sequence[asyncio.Task[str | None]]", *, most_ms: int) -> None:
        """Wait until all have ended, or for so long; they go on."""
        ends: tuple[asyncio.Future[Any], ...] = (
            asyncio.ensure_future(asyncio.wait(creations)),
            asyncio.ensure_future(self._clock.sleep(most_ms)),
        )
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in ends:
                each.cancel()

    def _creation(
        self, topic: InternalTopic, context: "RequestContext", heartbeat_interval_ms: int
    ) -> "asyncio.Task[str | None]":
        task = self._creating.get(topic.name)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._create(topic, context))
            self._creating[topic.name] = task
            task.add_done_callback(lambda done: self._ended(topic.name, done, _INTERVALS * heartbeat_interval_ms))
        return task

    async def _create(self, topic: InternalTopic, context: "RequestContext") -> str | None:
        """Create a topic; the reason why it could not be."""
        outcome = await self._cluster.create_for_client(
            topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor or -1,
            configs=dict(topic.configs),
            client_host=context.client_host,
            principal=context.session.principal,
        )
        if outcome.error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            return None
        return f"{topic.name} could not be created: {outcome.message or outcome.error.name}."

    def _ended(self, name: str, task: "asyncio.Task[str | None]", forgotten_ms: int) -> None:
        self._creating.pop(name, None)
        if task.cancelled():
            return
        error = task.exception()
        problem = task.result() if error is None else f"{name} could not be created: {type(error).__name__}."
        if problem is not None:
            if len(self._failures) >= MOST_FAILURES:
                del self._failures[next(iter(self._failures))]
            self._failures[name] = self._clock.elapsed_ms() + forgotten_ms, problem
