"""`Deletions`: topics that are gone and whose logs are still being put away, a few per turn of the event loop."""

import logging
from collections.abc import Callable, Iterator
from typing import Final

from eosin.runtime.clock import Clock
from eosin.runtime.turns import TurnQueue
from eosin.storage.log.partition_log import PartitionLog

_LOG: Final = logging.getLogger("eosin.storage")

LOGS_PER_TURN: Final = 25
"""Each takes some system calls."""


class Deletions:
    """The deletions of one data directory. A topic is in it from `begin` until the last of its logs is put away."""

    __slots__ = ("_logs_of", "_put_away", "_queue", "_topics")

    def __init__(
        self, clock: Clock, logs_of: Callable[[str], list[PartitionLog]], put_away: Callable[[PartitionLog], None]
    ) -> None:
        """`logs_of` a topic; `put_away` stops serving a log and renames its files; it may raise OSError."""
        self._logs_of = logs_of
        self._queue = TurnQueue(clock, steps_per_turn=LOGS_PER_TURN)
        self._put_away = put_away
        self._topics: set[str] = set()

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics

    def begin(self, topic: str) -> None:
        """Put the logs of `topic` away, for which nobody may ask any more: some now, many in turns with everybody else.
        When one cannot be put away, the rest is left to the next start, which knows that the topic is gone."""
        logs = self._logs_of(topic)
        if logs:
            self._topics.add(topic)
            self._queue.add(self._delete(topic, logs))

    def _delete(self, topic: str, logs: list[PartitionLog]) -> Iterator[None]:
        try:
            for log in logs:
                self._put_away(log)
                yield
        except OSError as error:
            _LOG.error("could not delete all of topic %s: what is left goes at the next start: %s", topic, error)
        finally:
            self._topics.discard(topic)

    async def finished(self) -> None:
        """Wait until no topic is left."""
        await self._queue.finished()

    def finish(self) -> None:
        """Put away what is left, now. Blocks."""
        self._queue.finish()
