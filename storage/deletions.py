"""`Deletions`: how logs stop being served: deleted topics, strays, and the files that stay for running reads.

A deleted log leaves the table at once and its directory gets another name; the renamed directory is removed after
`file.delete.delay.ms`. Always true: a topic is in here from `begin` until the last of its logs is renamed; a large
topic takes several turns of the event loop.
"""

import logging
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from eosin.protocol.names import TopicPartition
from eosin.runtime.clock import Clock
from eosin.runtime.turns import TurnQueue
from eosin.storage.checkpoints.checkpoint_saver import CheckpointSaver
from eosin.storage.checkpoints.recovery_points import OffsetCheckpoints
from eosin.storage.disk.data_directory import DELETED, STRAY, DataDirectory
from eosin.storage.disk.delayed_delete import DelayedDelete
from eosin.storage.disk.space import WritePurpose
from eosin.storage.log.context import LogContext
from eosin.storage.log.log_table import LogTable
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.truncations import Truncations

_LOG: Final = logging.getLogger("eosin.storage")

LOGS_PER_TURN: Final = 25
"""Each takes some system calls."""


class Deletions:
    """The deletions of one data directory."""

    __slots__ = (
        "_checkpoints",
        "_clock",
        "_context",
        "_delayed",
        "_directory",
        "_left",
        "_logs",
        "_queue",
        "_saver",
        "_topics",
        "_truncations",
    )

    def __init__(
        self,
        context: LogContext,
        directory: DataDirectory,
        logs: LogTable,
        *,
        clock: Clock,
        delayed: DelayedDelete,
        checkpoints: OffsetCheckpoints,
        saver: CheckpointSaver,
        truncations: Truncations,
    ) -> None:
        """`delayed` removes the renamed directories later."""
        self._context = context
        self._directory = directory
        self._logs = logs
        self._clock = clock
        self._delayed = delayed
        self._checkpoints = checkpoints
        self._saver = saver
        self._truncations = truncations
        self._queue = TurnQueue(clock, steps_per_turn=LOGS_PER_TURN)
        self._topics: set[str] = set()
        self._left: dict[TopicPartition, tuple[str, int]] = {}
        """Partitions whose directory could not be renamed when their log went: why it went, and the delay in ms until
        its files do."""

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics

    def begin(self, topic: str) -> None:
        """Delete the logs of `topic`, which has no metadata any more: some now, the others in later turns of the
        event loop. After an error the rest is left to the next start, which knows that the topic is gone."""
        logs = self._logs.of_topic(topic)
        if logs:
            self._topics.add(topic)
            self._queue.add(self._delete_in_turns(topic, logs))

    def _delete_in_turns(self, topic: str, logs: list[PartitionLog]) -> Iterator[None]:
        try:
            logs.reverse()
            while logs:  # nothing here holds one that is retired: to free 10,000 at once takes long
                self._retire(logs.pop(), DELETED)
                yield
        except OSError as error:
            _LOG.error("topic %s could not be deleted in full, the next start deletes the rest: %s", topic, error)
        finally:
            self._topics.discard(topic)

    async def finished(self) -> None:
        """Wait until no topic is left."""
        await self._queue.finished()

    def finish(self) -> None:
        """Delete what is left, now. Blocks."""
        self._queue.finish()

    def delete_now(self, topic: str) -> None:
        """Delete every log of a topic. What the checkpoint files hold of them goes with the next save. Raises
        OSError."""
        for log in self._logs.of_topic(topic):
            self._retire(log, DELETED)

    def delete(self, logs: Iterable[PartitionLog]) -> None:
        """Delete these logs now, of whatever topics: replicas that live on other brokers from now on. Raises
        OSError."""
        for log in logs:
            self._retire(log, DELETED)

    def set_aside(self, logs: Iterable[PartitionLog]) -> None:
        """Stop serving these logs; their files stay, under another name. Raises OSError."""
        for log in logs:
            self._retire(log, STRAY)

    def set_aside_strays(self, known: Collection[TopicPartition]) -> list[TopicPartition]:
        """Set aside the logs of partitions that are not in `known`, and return their names. Raises OSError."""
        self._checkpoints.forget_vanished(known)
        strays = [log for partition, log in self._logs.by_partition.items() if partition not in known]
        self.set_aside(strays)
        return [log.topic_partition for log in strays]

    def make_way(self, partition: TopicPartition) -> None:
        """Rename what an older log of a partition has left in its place, if that failed when the log went. Raises
        OSError: a new log may write nothing beside it, or the next start takes both for one."""
        left = self._left.get(partition)
        if left is not None:
            self._rename(partition, *left)

    def _retire(self, log: PartitionLog, reason: str) -> None:
        self._logs.remove(log)
        log.retire()
        self._saver.forget(log)
        self._truncations.cancel(log)
        self._context.flusher.forget(log)
        log.release_files()
        self._rename(log.topic_partition, reason, log.config.file_delete_delay_ms)

    def _rename(self, partition: TopicPartition, reason: str, delay_ms: int) -> None:
        space, chance = self._context.space, self._context.chance
        self._left[partition] = reason, delay_ms
        renamed = space.attempt(WritePurpose.VITAL, self._directory.retire, partition, reason, chance)
        del self._left[partition]
        if renamed is not None and reason == DELETED:
            self._delayed.add_tree(renamed, due_ms=self._clock.elapsed_ms() + delay_ms)
        self._checkpoints.forget(partition)
