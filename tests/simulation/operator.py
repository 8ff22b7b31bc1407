"""The operator of a run: creates topics, and deletes one while producers write to it."""

import asyncio
import random
from collections.abc import Mapping

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from eosin.protocol.schemas.delete_topics import DeleteTopicsRequest
from simulation.client import Session, World
from simulation.history import Deletion
from simulation.plan import TOPICS, Plan
from simulation.values import COMPACTED, DELETED, RETAINED

PATIENCE_MS = 10_000
DONE = {
    ErrorCode.TOPIC_ALREADY_EXISTS: ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.NONE,
}
"""What an operator hears whose earlier attempt was carried out."""


class Operator:
    """One of them."""

    def __init__(
        self, world: World, plan: Plan, *, replicas: int = 1, min_isr: int = 1, timeout_ms: float | None = None
    ) -> None:
        """`timeout_ms`: how long it waits for an answer; None: as long as others."""
        self.has: set[str] = set()
        """The topics that it has heard were created, and did not ask to delete since."""
        self._replicas = replicas
        self._min_isr = min_isr
        self._world = world
        self._plan = plan
        self._chance = random.Random(f"{world.seed}/operator")
        # A request that comes late would do again what has been undone, and no protocol keeps it from that.
        self._session = Session(world, "operator", punctual=frozenset({"control"}), timeout_ms=timeout_ms)

    async def create_topics(self) -> None:
        """All that the plan wants."""
        plan = self._plan
        settings = {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0",
            "delete.retention.ms": str(plan.seed % 3 * 100),
        }
        topics = [self._topic(name, partitions=2) for name in TOPICS]
        topics.append(self._topic(COMPACTED.topic, settings=settings))
        if plan.retains:
            size = {"internal.segment.bytes": "300", "retention.bytes": "300", "file.delete.delay.ms": "200"}
            topics.append(self._topic(RETAINED.topic, settings=size))
        if plan.deletions:
            topics.append(self._topic(DELETED.topic))
        await self._create(*topics)

    def _topic(self, name: str, *, partitions: int = 1, settings: Mapping[str, str] | None = None) -> CreatableTopic:
        configs = {"internal.segment.bytes": str(self._plan.segment_bytes), **(settings or {})}
        if self._min_isr > 1:
            configs["min.insync.replicas"] = str(self._min_isr)
        return CreatableTopic(
            name,
            partitions,
            self._replicas,
            configs=tuple(CreatableTopicConfig(key, value) for key, value in configs.items()),
        )

    async def _create(self, *topics: CreatableTopic) -> None:
        request = CreateTopicsRequest(topics, PATIENCE_MS)
        await self._session.insist(
            ApiKey.CREATE_TOPICS,
            5,
            request,
            lambda response: _first([topic.error_code for topic in response.topics]),
            lane="control",
        )
        self.has.update(topic.name for topic in topics)

    async def delete_topics(self) -> None:
        """As often as planned: delete a topic, and create it again some time later."""
        history = self._world.history
        for _ in range(self._plan.deletions):
            await asyncio.sleep(self._chance.choice((0.02, 0.2, 1.0)) * self._chance.random())
            deletion = Deletion(DELETED, history.moment())
            history.deletions.append(deletion)
            self.has.discard(DELETED.topic)
            await self._session.insist(
                ApiKey.DELETE_TOPICS,
                5,
                DeleteTopicsRequest(topic_names=(DELETED.topic,), timeout_ms=PATIENCE_MS),
                lambda response: _first([topic.error_code for topic in response.responses]),
                lane="control",
            )
            deletion.answered = history.moment()
            await asyncio.sleep(self._chance.choice((0.0, 0.02, 0.3)) * self._chance.random())
            await self._create(self._topic(DELETED.topic))


def _first(codes: list[int]) -> ErrorCode:
    """The first error that says that something is left to do."""
    errors = [ErrorCode(code) for code in codes]
    return next((error for error in errors if DONE.get(error, error)), ErrorCode.NONE)
