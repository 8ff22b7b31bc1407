"""The driver that a pipeline has already: a second one must not take the pipeline over from one that works.

Always true: only what is sure stops a start. Whoever was killed leaves one batch at most that is committed after its
end, so a driver is at work if two batches are committed while somebody watches. And a start waits only where the last
batches came so quickly that the next one could be expected.
"""

import contextlib
import itertools
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from eosin.client.client import Client
from eosin.client.consumer import EARLIEST, LATEST, Consumer
from eosin.client.errors import ClientError
from eosin.pipeline.common.errors import PipelineAtWork
from eosin.pipeline.common.progress_marker import ProgressMarker
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.runtime.clock import Clock

MOST_WATCHED_MS: Final = 10_000
"""A start waits no longer than this for a next batch of another driver."""
_SIGNS: Final = 2
_OVERDUE: Final = 1.5
"""A batch that has not come after so many times the time between the last ones is not expected any more."""
_LEAST_WATCHED_MS: Final = 300
_RECORDS: Final = 100
"""The records of the progress topic to read: its last ones, of all pipelines in it."""
_POLL_MS: Final = 50


@dataclass(frozen=True, slots=True)
class _LastBatches:
    last: ProgressMarker | None
    between_ms: int | None
    """The time between the last batches, None if fewer than two are known."""


async def refuse_before_planning(
    client: Client, pipeline: str, topic: str, runs: Collection[str], clock: Clock
) -> None:
    """`refuse_beside_another` before Spark plans a batch, which the other driver could not plan then. The topic need
    not exist, and brokers need not be there: a start waits for neither."""
    with contextlib.suppress(ClientError, TimeoutError):
        if not (await client.fetch_metadata([topic])).topics[topic].error:
            await refuse_beside_another(client, pipeline, topic, runs, clock)


async def refuse_beside_another(client: Client, pipeline: str, topic: str, runs: Collection[str], clock: Clock) -> None:
    """Raise PipelineAtWork if another run of the query, or another driver, commits batches of the pipeline now. `runs`
    are the ids of our own runs; the marker of a batch names the run that wrote it. `topic` holds the markers."""
    reading = _Markers(client, pipeline, topic)
    seen = await reading.read()
    first = last = seen.last
    for _ in range(_SIGNS):
        if last is None or not last.run or last.run in runs:
            return
        found = await _next(reading, last, seen.between_ms, clock)
        if found is None:
            return
        last = found
    assert first is not None
    assert last is not None
    raise PipelineAtWork(
        f"pipeline {pipeline!r} is at work in another driver, which has committed batch {last.batch} after batch"
        f" {first.batch} while this one was starting: stop that one first, or give this one a pipeline and a checkpoint"
        " of its own"
    )


async def _next(
    reading: "_Markers", last: ProgressMarker, between_ms: int | None, clock: Clock
) -> ProgressMarker | None:
    """The next marker after the last one, None if none came in the time in which it could be expected."""
    if between_ms is None:
        return None
    age_ms = max(0, clock.now_ms() - last.committed_ms)
    watched_ms = min(max(int(between_ms * _OVERDUE), _LEAST_WATCHED_MS) - age_ms, MOST_WATCHED_MS)
    end_ms = clock.elapsed_ms() + watched_ms
    while clock.elapsed_ms() < end_ms:
        await clock.sleep(_POLL_MS)
        found = (await reading.read()).last
        if found is not None and (found.query, found.batch) != (last.query, last.batch):
            return found
    return None


class _Markers:
    """The last committed markers of a pipeline, without waiting for transactions that are undecided."""

    def __init__(self, client: Client, pipeline: str, topic: str) -> None:
        self._client = client
        self._key = pipeline.encode()
        self._partition = TopicPartition(topic, 0)

    async def read(self) -> _LastBatches:
        consumer = Consumer(self._client, isolation=IsolationLevel.READ_COMMITTED)
        end = (await consumer.list_offset(self._partition, LATEST)).offset
        begin = (await consumer.list_offset(self._partition, EARLIEST)).offset
        consumer.assign({self._partition: max(begin, end - _RECORDS)})
        found: list[ProgressMarker] = []
        while consumer.position(self._partition) < end:
            records = [each.record for each in await consumer.poll(0) if each.record.key == self._key]
            found += [ProgressMarker.parse(each.value or b"", committed_ms=each.timestamp) for each in records]
        times = [each.committed_ms for each in found[-3:]]
        between = max((later - earlier for earlier, later in itertools.pairwise(times)), default=None)
        return _LastBatches(found[-1] if found else None, between)
