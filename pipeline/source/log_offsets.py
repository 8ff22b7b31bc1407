"""The first and last offsets of partitions, and how far one micro-batch may go.

Owns the lookups that a source makes before it reads. Always true: for read_committed an end is the last stable offset,
so every record below it is decided; and a plan never goes backwards.
"""

import asyncio
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence

from eosin.client.client import Client
from eosin.client.consumer import EARLIEST, LATEST, Consumer
from eosin.pipeline.common.errors import MissingOffsets, MissingTopic
from eosin.pipeline.common.topic_partitions import FoundPartitions, find_partitions
from eosin.pipeline.source.options import EARLIEST as EARLIEST_POSITION
from eosin.pipeline.source.options import EARLIEST_NUMBER, LATEST_NUMBER, Position, SourceOptions, Timestamps
from eosin.pipeline.source.options import LATEST as LATEST_POSITION
from eosin.protocol.names import TopicPartition


class LogOffsets:
    """The present offsets of the topics that a source subscribes to."""

    def __init__(self, client: Client, options: SourceOptions) -> None:
        self._client = client
        self._options = options
        self._consumer = Consumer(client, isolation=options.isolation)

    async def partitions(self) -> FoundPartitions:
        """All present partitions, and the ids of the topics. Raises MissingTopic."""
        options = self._options
        if options.pattern is not None:
            return await self._matching(options.pattern)
        found = await find_partitions(self._client, options.topics)
        if not options.assigned:
            return found
        missing = set(options.assigned) - set(found.partitions)
        if missing:
            raise MissingTopic(f"partition {', '.join(map(str, sorted(missing)))} does not exist")
        return FoundPartitions(list(options.assigned), found.topic_ids)

    async def _matching(self, pattern: str) -> FoundPartitions:
        everything = await self._client.retry(self._client.fetch_metadata)
        names = [name for name, topic in everything.topics.items() if not topic.is_internal]
        matching = sorted(name for name in names if re.fullmatch(pattern, name))
        return await find_partitions(self._client, matching) if matching else FoundPartitions([], {})

    async def positions(
        self, partitions: Iterable[TopicPartition], wanted: Position, *, others: str = EARLIEST_POSITION
    ) -> dict[TopicPartition, int]:
        """The offsets that a position means. Partitions that it does not name are at `others`, earliest or latest."""
        wanted_partitions = list(partitions)
        if wanted == LATEST_POSITION:
            return await self.latest(wanted_partitions)
        found = await (self.earliest if others == EARLIEST_POSITION else self.latest)(wanted_partitions)
        if isinstance(wanted, Timestamps):
            return found | await self._at_times(wanted_partitions, wanted)
        if isinstance(wanted, Mapping):
            for number, lookup in ((EARLIEST_NUMBER, self.earliest), (LATEST_NUMBER, self.latest)):
                found |= await lookup(each for each in wanted_partitions if wanted.get(each) == number)
            found |= {each: offset for each, offset in wanted.items() if each in found and offset >= 0}
        return found

    async def _at_times(self, partitions: list[TopicPartition], wanted: Timestamps) -> dict[TopicPartition, int]:
        """The first offset from a time on, in each partition that has a time. Raises MissingOffsets."""
        times = {each: wanted.each.get(each, wanted.everywhere) for each in partitions}
        timed = {each: time for each, time in times.items() if time is not None}
        answers = await asyncio.gather(*(self._consumer.list_offset(each, time) for each, time in timed.items()))
        found = {each: answer.offset for each, answer in zip(timed, answers, strict=True)}
        later = [each for each, offset in found.items() if offset < 0]
        if later and wanted.is_strict:
            raise MissingOffsets(
                f"{later[0]} has no record from timestamp {timed[later[0]]} on: choose an earlier one, or set"
                " startingOffsetsByTimestampStrategy to latest"
            )
        ends = await self.latest(found)
        # A reader of committed records finds no record beyond its end yet.
        return {each: ends[each] if offset < 0 else min(offset, ends[each]) for each, offset in found.items()}

    async def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return await self._list(partitions, EARLIEST)

    async def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The end of each partition for this reader: its last stable offset, or its high watermark."""
        return await self._list(partitions, LATEST)

    async def _list(self, partitions: Iterable[TopicPartition], what: int) -> dict[TopicPartition, int]:
        wanted = list(partitions)
        answers = await asyncio.gather(*(self._consumer.list_offset(each, what) for each in wanted))
        return {partition: answer.offset for partition, answer in zip(wanted, answers, strict=True)}


def divided(sizes: Sequence[int], *, at_least: int | None, at_most: int | None) -> list[int]:
    """The number of pieces of each range of offsets, for `at_least` pieces in all where that is possible, and at most
    `at_most` offsets in each. Larger ranges get more pieces; every range keeps one."""
    pieces = [1 if at_most is None else max(1, -(-size // at_most)) for size in sizes]
    total = sum(sizes)
    if at_least is None or not total or sum(pieces) >= at_least:
        return pieces
    shares = [max(1, round(size / total * at_least)) for size in sizes]
    return [min(size, max(share, piece)) or 1 for size, share, piece in zip(sizes, shares, pieces, strict=True)]


def cut(start: int, end: int, pieces: int) -> list[tuple[int, int]]:
    """A range of offsets in pieces of about the same size, in order."""
    borders = [start + (end - start) * number // pieces for number in range(pieces + 1)]
    return list(itertools.pairwise(borders))


def limited(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], max_rows: int | None
) -> dict[TopicPartition, int]:
    """The end of the next batch in each partition, if all together take at most `max_rows` offsets. Each partition gets
    a share in proportion to its lag, so that none starves. Both mappings have the same partitions; no end is before
    `start`."""
    waiting = {partition: max(0, latest[partition] - offset) for partition, offset in start.items()}
    total = sum(waiting.values())
    if max_rows is None or total <= max_rows:
        return {partition: offset + waiting[partition] for partition, offset in start.items()}
    shares = {partition: max_rows * lag // total for partition, lag in waiting.items()}
    left = max_rows - sum(shares.values())
    # The offsets that rounding left over go to the partitions that lost most by it.
    for partition in sorted(waiting, key=lambda each: (-(max_rows * waiting[each] % total), each)):
        if not left:
            break
        if shares[partition] < waiting[partition]:
            shares[partition] += 1
            left -= 1
    return {partition: offset + shares[partition] for partition, offset in start.items()}
