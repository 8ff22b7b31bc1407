"""The output of a runner: the number of partitions of each topic, which decides where a key goes.

Always true: the number does not change while a transaction is open; added partitions are found within
`metadata.max.age.ms` and used from the next transaction on, without a pause.
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
    """The partition counts of the topics that are written to. Call `refresh` between transactions."""

    def __init__(
        self, writing: Client, reading: Client, created: Collection[str], *, max_age_ms: int, clock: Clock
    ) -> None:
        """`reading` must give up after one request timeout. The topics in `created` are known to exist."""
        self.counts: Final[dict[str, int]] = {}
        """The number of partitions of each topic that was written to."""
        self._writing = writing
        self._reading = reading
        self._created = created
        self._lookup = PeriodicLookup(
            "looking for new partitions of output topics", self._count_all, every_ms=max_age_ms, clock=clock
        )

    async def ensure_counted(self, topics: Collection[str]) -> None:
        """Add the number of each topic to `counts`. Raises MissingTopic or a ClientError."""
        for topic in topics:
            if topic not in self.counts:
                self.counts[topic] = await self._count(topic)

    async def _count(self, topic: str) -> int:
        async def attempt() -> int:
            try:
                return len((await self._writing.metadata(topic)).topic(topic).partitions)
            except BrokerError as error:
                # Not all brokers know a new topic at once.
                if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and topic not in self._created:
                    raise MissingTopic(
                        f"output topic {topic} does not exist: create it, or name it in outputs"
                    ) from error
                raise

        return await self._writing.retry(attempt)

    def refresh(self) -> None:
        """Take over new counts, and look for them again when it is time. Only while no transaction is open."""
        found = self._lookup.poll()
        changed = {topic: count for topic, count in (found or {}).items() if count != self.counts[topic]}
        for topic, count in changed.items():
            log.info("topic %s has %s partitions now, it had %s", topic, count, self.counts[topic])
        if changed:
            self.counts.update(changed)
            self._writing.forget()  # its metadata has no leaders of the new partitions

    async def _count_all(self) -> Counter[str]:
        topics = list(self.counts)
        if not topics:
            return Counter()
        return Counter(each.topic for each in await topic_partitions(self._reading, topics))

    async def close(self) -> None:
        """Cancel the lookup in flight."""
        await self._lookup.close()
