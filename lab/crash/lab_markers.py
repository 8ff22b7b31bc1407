"""`LabMarkers`: markers of transactions on their way, with the points at which rules hold them.

Always true: where no rule watches, a call passes as it is; where one does, markers are written one partition at a time,
in the order of the coordinator's list.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from eosin.coordinator.transactions.ports import MarkersForPartitions, MarkerTarget, MarkerTargets
from eosin.lab.disk.points import COMPLETE, MARKER, PREPARED, Moment, Points
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.storage.results.log_results import Marker

Answers = Mapping[tuple[int, TopicPartition], ErrorCode]
FindId = Callable[[int], str | None]
"""The transactional id of a producer id."""
Written = Callable[[Marker, Sequence[TopicPartition]], None]
"""Called with a marker and the partitions that have it now."""


class MarkerDelay:
    """The time for which markers are kept before they set out, but while the broker's clock jumps."""

    def __init__(self, after_ms: float) -> None:
        """`after_ms` is real time."""
        self._after_ms: Final = after_ms
        self._is_skipped = False
        self._waiting: Final[set[asyncio.Future[None]]] = set()

    async def passed(self) -> None:
        """Wait until markers may set out."""
        if not self._after_ms or self._is_skipped:
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(self._after_ms / 1000, _set, future)
        self._waiting.add(future)
        try:
            await future
        finally:
            timer.cancel()
            self._waiting.discard(future)

    @contextmanager
    def skipped(self) -> Iterator[None]:
        """Let all markers set out at once: a jump takes no real time."""
        self._is_skipped = True
        for each in self._waiting:
            _set(each)
        try:
            yield
        finally:
            self._is_skipped = False


class LabMarkers:
    """`MarkerTargets` around a broker's own."""

    def __init__(
        self,
        targets: MarkerTargets,
        points: Points,
        find_id: FindId,
        delay: MarkerDelay,
        written: Written | None = None,
    ) -> None:
        """Markers set out after `delay`."""
        self._targets: Final = targets
        self._points: Final = points
        self._find_id: Final = find_id
        self._delay: Final = delay
        self._written: Final = written
        self._wrapped: Final[dict[MarkerTarget, MarkerTarget]] = {}

    def target(self, partition: TopicPartition) -> MarkerTarget | ErrorCode:
        """The target that leads `partition`, with points on the way to it."""
        found = self._targets.target(partition)
        if isinstance(found, ErrorCode):
            return found
        if found not in self._wrapped:
            self._wrapped[found] = _HeldTarget(found, self._points, self._find_id, self._delay, self._written)
        return self._wrapped[found]


class _HeldTarget:
    """`MarkerTarget` with points."""

    def __init__(
        self,
        target: MarkerTarget,
        points: Points,
        find_id: FindId,
        delay: MarkerDelay,
        written: Written | None,
    ) -> None:
        self._target: Final = target
        self._written: Final = written
        self._points: Final = points
        self._find_id: Final = find_id
        self._delay: Final = delay
        self._begun: Final[dict[Marker, None]] = {}
        """Markers whose transaction has passed `prepared`, and has partitions left."""

    async def write_markers(self, markers: Sequence[MarkersForPartitions]) -> Answers:
        """Write each marker to each of its partitions, past the points."""
        await self._delay.passed()
        points = self._points
        if not (self._begun or points.watches(PREPARED) or points.watches(MARKER) or points.watches(COMPLETE)):
            return await self._reach(markers)
        answers: dict[tuple[int, TopicPartition], ErrorCode] = {}
        for each in markers:
            answers.update(await self._write(each))
        return answers

    async def _write(self, markers: MarkersForPartitions) -> Answers:
        marker = markers.marker
        if marker not in self._begun:
            self._begun[marker] = None
            await self._pass(PREPARED, marker, None)
        answers: dict[tuple[int, TopicPartition], ErrorCode] = {}
        for partition in markers.partitions:
            answers.update(await self._reach((MarkersForPartitions(marker, (partition,)),)))
            if answers.get((marker.producer_id, partition)) is ErrorCode.NONE:
                await self._pass(MARKER, marker, partition)
        if all(code is ErrorCode.NONE for code in answers.values()):
            self._begun.pop(marker, None)
            await self._pass(COMPLETE, marker, None)
        return answers

    async def _reach(self, markers: Sequence[MarkersForPartitions]) -> Answers:
        answers = await self._target.write_markers(markers)
        if self._written is not None:
            for each in markers:
                marker = each.marker
                done = [at for at in each.partitions if answers.get((marker.producer_id, at)) is ErrorCode.NONE]
                if done:
                    self._written(marker, done)
        return answers

    async def _pass(self, point: str, marker: Marker, partition: TopicPartition | None) -> None:
        if not self._points.watches(point):
            return
        waits = self._points.reached(
            Moment(
                point,
                None if partition is None else partition.topic,
                None if partition is None else partition.partition,
                self._find_id(marker.producer_id),
                marker.producer_id,
                marker.producer_epoch,
                marker.commit,
            )
        )
        if waits is not None:
            await waits


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
