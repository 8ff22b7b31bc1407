"""The output of a runner: how many partitions each topic has, which says where a key goes.

Always true: a topic has one number of partitions for as long as a transaction is open; partitions that are added are
used within `metadata.max.age.ms` and the transaction that is open then, without a pause.
"""

import logging
from collections import Counter
from collections.abc import Collection
from typing import Final

from eosin.client.client import Client
from eosin.client.errors import BrokerError
from eosin.pipeline.common.errors import MissingTopic
from eosin.pipeline.common.periodic_lookup import PeriodicLookup
from eosin.pipeline.common.topic_partitions import topic_partitions
from eosin.protocol.errors import ErrorCode
from eosin.runtime.clock import Clock

log = logging.getLogger(__name__)


class OutputPartitions:
    """Counts the partitions of topics as they are written to. Call `refresh` between transactions."""

    def __init__(
        self, writing: Client, reading: Client, created: Collection[str], *, max_age_ms: int, clock: Clock
    ) -> None:
        """`reading` must give up after one request's time. The topics in `created` are known to exist."""
        self.counts: Final[dict[str, int]] = {}
        """The topics that were written to, and how many partitions each has."""
        self._writing = writing
        self._reading = reading
        self._created = created
        self._looks = PeriodicLookup(
            "looking for new partitions of output topics", self._look, every_ms=max_age_ms, clock=clock
        )

    async def know(self, topics: Collection[str]) -> None:
        """Have the number of each topic in `counts`. Raises MissingTopic or a ClientError."""
        for topic in topics:
            if topic not in self.counts:
                self.counts[topic] = await self._count(topic)

    async def _count(self, topic: str) -> int:
        async def attempt() -> int:
            try:
                return len((await self._writing.metadata(topic)).topic(topic).partitions)
            except BrokerError as error:
                # A topic that was created may take a moment to be known to all brokers.
                if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and topic not in self._created:
                    raise MissingTopic(
                        f"output topic {topic} does not exist: create it, or name it in outputs"
                    ) from error
                raise

        return await self._writing.retry(attempt)

    def refresh(self) -> None:
        """Begin to look if it is time, or take in what was found. For when no transaction is open."""
        found = self._looks.answer()
        changed = {topic: count for topic, count in (found or {}).items() if count != self.counts[topic]}
        for topic, count in changed.items():
            log.info("topic %s has %s partitions now, and had %s", topic, count, self.counts[topic])
        if changed:
            self.counts.update(changed)
            self._writing.forget()  # it knows no leaders of the new ones

    async def _look(self) -> Counter[str]:
        topics = list(self.counts)
        if not topics:
            return Counter()
        return Counter(each.topic for each in await topic_partitions(self._reading, topics))

    async def close(self) -> None:
        """Take back the look that is on its way."""
        await self._looks.close()
