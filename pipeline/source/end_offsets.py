"""The end offsets of a source's partitions, looked up for every micro-batch.

Always true: a partition that does not answer in time is left out of the batch; its timer limits how long that may go on
(KIP-572); and its last known end is kept, so that its lag stays visible.
"""

import functools
from collections.abc import Iterable

from eosin.client.client import Client
from eosin.client.consumer import LATEST, Consumer
from eosin.pipeline.common.fan_out import PATIENCE_MS, FanOut
from eosin.pipeline.common.task_timeouts import TaskTimeouts
from eosin.protocol.names import IsolationLevel, TopicPartition


class EndOffsets:
    """The end offsets of one source."""

    def __init__(
        self, client: Client, isolation: IsolationLevel, timeouts: TaskTimeouts, *, patience_ms: int = PATIENCE_MS
    ) -> None:
        """`client` must give up after one request timeout, since the whole round is repeated here."""
        self.known: dict[TopicPartition, int] = {}
        """The last known end of each partition."""
        self._consumer = Consumer(client, isolation=isolation)
        self._rounds: FanOut[int] = FanOut(timeouts, patience_ms=patience_ms)

    async def fetch(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The ends of the partitions that answer in time. Raises the timeout of a partition whose time is up."""
        by_task = {str(each): each for each in partitions}
        questions = {task: functools.partial(self._end, each) for task, each in by_task.items()}
        answers = {by_task[task]: end for task, end in (await self._rounds.run(questions)).items()}
        self.known = {each: end for each, end in self.known.items() if str(each) in by_task} | answers
        return answers

    async def _end(self, partition: TopicPartition) -> int:
        return (await self._consumer.list_offset(partition, LATEST)).offset

    async def close(self) -> None:
        """Cancel the questions in flight."""
        await self._rounds.close()
