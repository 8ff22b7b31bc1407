"""Where the partitions of a source end, asked anew for every micro-batch, and around those that do not answer.

Always true: a partition that has not answered is left out of the batch, not waited for; its timer says how long that
may go on (KIP-572); and the end that it told last is kept, so that its lag stays to be seen.
"""

import functools
from collections.abc import Iterable

from eosin.client.client import Client
from eosin.client.consumer import LATEST, Consumer, Isolation
from eosin.pipeline.common.fan_out import PATIENCE_MS, FanOut
from eosin.pipeline.common.task_timeouts import TaskTimeouts
from eosin.protocol.names import TopicPartition


class EndOffsets:
    """The ends of one source."""

    def __init__(
        self, client: Client, isolation: Isolation, timeouts: TaskTimeouts, *, patience_ms: int = PATIENCE_MS
    ) -> None:
        """`client` must give up after one request's time: what is repeated here is the round."""
        self.known: dict[TopicPartition, int] = {}
        """What each partition said last."""
        self._consumer = Consumer(client, isolation=isolation)
        self._rounds: FanOut[int] = FanOut(timeouts, patience_ms=patience_ms)

    async def ask(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The ends of those that have answered in time. Raises the timeout of one whose time is up."""
        by_task = {str(each): each for each in partitions}
        questions = {task: functools.partial(self._end, each) for task, each in by_task.items()}
        answers = {by_task[task]: end for task, end in (await self._rounds.ask(questions)).items()}
        self.known = {each: end for each, end in self.known.items() if str(each) in by_task} | answers
        return answers

    async def _end(self, partition: TopicPartition) -> int:
        return (await self._consumer.list_offset(partition, LATEST)).offset

    async def close(self) -> None:
        """Take back the questions that are on their way."""
        await self._rounds.close()
