"""The topic that a pipeline writes to, as it is at the begin of each batch.

Always true: no batch begins with the partitions of an earlier one, since rows for a partition that is gone would wait
for it until the time of the batch is up.
"""

import logging
from typing import Final

from eosin.client.client import Client
from eosin.pipeline.common.errors import MissingTopic
from eosin.pipeline.sink.batch_limits import BatchLimits
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ZERO_UUID
from eosin.runtime.clock import Clock

_ATTEMPTS: Final = 10
_PAUSE_MS: Final = 100

log = logging.getLogger(__name__)


class OutputTopic:
    """One topic; or none, where each row names its own: then only what the client knows of topics is forgotten."""

    def __init__(self, client: Client, name: str | None, limits: BatchLimits, clock: Clock, *, beside: str) -> None:
        """`limits` of the topic are forgotten with it. Topic `beside`, the marker's, is looked up in the same request,
        and need not exist."""
        self._client = client
        self._name = name
        self._beside = beside
        self._limits = limits
        self._clock = clock
        self._id = ZERO_UUID
        self._partitions = 0

    async def refresh(self) -> None:
        """Get the topic's present partitions; warn of a topic that was created anew. Raises MissingTopic or a
        ClientError."""
        self._client.forget_topics()
        if self._name is None:
            return
        topic_id, partitions = await self._found(self._name)
        if topic_id != self._id != ZERO_UUID:
            self._limits.forget(self._name)
            log.warning(
                "topic %s was deleted and created anew, with %d partitions in place of %d: the rows of earlier batches"
                " are gone with the old one, and keys may be in other partitions",
                self._name,
                partitions,
                self._partitions,
            )
        self._id, self._partitions = topic_id, partitions

    async def _found(self, name: str) -> tuple[bytes, int]:
        """The id and the number of partitions."""
        for attempt in range(_ATTEMPTS):
            metadata = await self._client.retry(lambda: self._client.metadata(name, self._beside))
            if metadata.topics[name].error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                topic = metadata.topic(name)
                return topic.topic_id, len(topic.partitions)
            if not self._partitions:
                break  # it has never been there
            if attempt + 1 < _ATTEMPTS:  # a broker that has just started, or a topic that is being created anew
                await self._clock.sleep(_PAUSE_MS)
        raise MissingTopic(f"topic {name} does not exist" + (" any more" if self._partitions else ""))
