"""`Cleaner`: keeps compacted logs small, one log at a time, in the background.

Each round it ends the active segments that hold too much, and compacts logs until none is worth it (storage.md 14.1).
The broker's own logs are looked at every round, the others only every `log.cleaner.backoff.ms`; what `request` named is
compacted whether or not it is worth it. Always true: at most one compaction runs; a round that is cancelled leaves none
half-way, since the work is a task of its own, which `close` waits for; a log that cannot be compacted, because it is
damaged, is left alone until the next start.
"""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from eosin.protocol.names import INTERNAL_TOPICS, METADATA_TOPIC, TopicPartition
from eosin.protocol.records.batch import CorruptRecords
from eosin.runtime.background import Rest
from eosin.runtime.clock import Clock
from eosin.runtime.turns import in_turns
from eosin.storage.compaction.choice import (
    Cleanable,
    cleanable,
    first_to_compact,
    first_uncompacted_offset,
    is_internal,
    should_roll,
)
from eosin.storage.compaction.job import CleanJob
from eosin.storage.compaction.pace import Abandoned, Pace
from eosin.storage.log.config import LONG_MAX

if TYPE_CHECKING:
    from eosin.storage.log.log_table import LogTable
    from eosin.storage.log.partition_log import PartitionLog

_LOG: Final = logging.getLogger("eosin.storage")

_OWN_TOPICS: Final = (*sorted(INTERNAL_TOPICS), METADATA_TOPIC)
ROUND_MS: Final = 1000
"""Between two looks at the broker's own logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerConfig:
    """The broker's settings for compaction (`log.cleaner.*`)."""

    enable: bool = True
    backoff_ms: int = 15_000
    dedupe_buffer_bytes: int = 128 * 1024 * 1024
    io_max_bytes_per_second: float = sys.float_info.max


class Compacted:
    """Totals of the compactions since the start."""

    __slots__ = ("bytes_after", "bytes_before", "failed", "times", "took_ms")

    def __init__(self) -> None:
        self.times = 0
        self.failed = 0
        self.took_ms = 0
        self.bytes_before = 0
        """Of the logs that were compacted, and after it."""
        self.bytes_after = 0


class Cleaner:
    """The compaction of one data directory's logs."""

    def __init__(
        self,
        config: CleanerConfig,
        *,
        logs: "LogTable",
        clock: Clock,
        save: Callable[[], Awaitable[None]],
        quiet: "Callable[[PartitionLog], Awaitable[None]]",
        pace_clock: Clock | None = None,
    ) -> None:
        """`save` remembers how far each log is compacted. `quiet` waits until no checkpoint works on a log. The pace is
        kept on `pace_clock`, by default `clock`."""
        self._config = config
        self._logs = logs
        self._clock = clock
        self._save_offsets = save
        self._quiet = quiet
        self._pace = Pace(pace_clock or clock, bytes_per_second=config.io_max_bytes_per_second)
        self._next_look_ms = 0
        self._left_alone: dict[PartitionLog, int] = {}
        self._asked: dict[TopicPartition, int] = {}
        """Logs of the broker's own that hold what must not stay, and up to where."""
        self._work: asyncio.Task[None] | None = None
        self.compacted = Compacted()
        self.rest = Rest(self._nothing_to_do_ms)
        """The time in which `round` need not be called."""

    @property
    def interval_ms(self) -> int:
        """The interval at which `round` should be called."""
        return min(ROUND_MS, max(1, self._config.backoff_ms))

    def request(self, partition: TopicPartition, offset: int) -> None:
        """Compact one of the broker's own logs up to `offset` as soon as what lies below is on the disk."""
        self._asked[partition] = max(offset, self._asked.get(partition, 0))
        self.rest.end()

    def changed(self, log: "PartitionLog") -> None:
        """`log`, which was saved, has changed."""
        if log.topic in _OWN_TOPICS:
            self.rest.end()

    def _nothing_to_do_ms(self) -> float:
        """Time for which no log is worth a look, in ms. Own logs that are saved were looked at since they changed."""
        if not self._config.enable:
            return LONG_MAX
        if self._asked or any(log.checkpoint_state.is_unsaved for log in self._internal_logs()):
            return 0
        return self._next_look_ms - self._clock.elapsed_ms()

    async def round(self) -> None:
        """Compact the logs that are worth it now. Cancelling it stops the work soon, at a harmless place."""
        if not self._config.enable or self._work is not None or self._pace.is_stopped:
            return
        self._work = asyncio.get_running_loop().create_task(self._compact())
        try:
            await asyncio.shield(self._work)
        finally:
            if self._work.done():
                self._work = None
            else:
                self._pace.stop()

    async def close(self) -> None:
        """Stop, and wait until nothing is at work on any file."""
        self._pace.stop()
        if self._work is not None:
            await asyncio.wait([self._work])
            if (error := self._work.exception()) is not None:
                _LOG.error("compaction ended with an error", exc_info=error)
            self._work = None

    async def _compact(self) -> None:
        now_ms, elapsed_ms = self._clock.now_ms(), self._clock.elapsed_ms()
        self._left_alone = {log: until for log, until in self._left_alone.items() if until > elapsed_ms}
        is_full_round = elapsed_ms >= self._next_look_ms
        logs = await self._compacted_logs() if is_full_round else self._internal_logs()
        await in_turns(logs, partial(self._end_segment, now_ms), self._clock)
        has_cleaned = False
        while not self._pace.is_stopped and (found := self._choose(logs, now_ms)) is not None:
            began_ms = self._pace.elapsed_ms()
            await self._clean(found)
            has_cleaned = True
            if is_internal(found.log):
                await self._pace.rest_after_log(began_ms)
        if is_full_round:
            self._next_look_ms = elapsed_ms + self._config.backoff_ms
        if is_full_round or has_cleaned:
            await self._save()

    async def _compacted_logs(self) -> "list[PartitionLog]":
        found: list[PartitionLog] = []

        def add_topic_of(log: "PartitionLog") -> None:
            if log.config.is_compacted:
                found.extend(self._compacted_of(log.topic))

        await in_turns(self._logs.one_of_each_topic(), add_topic_of, self._clock)
        return found

    def _internal_logs(self) -> "list[PartitionLog]":
        return [log for topic in _OWN_TOPICS for log in self._compacted_of(topic)]

    def _compacted_of(self, topic: str) -> "list[PartitionLog]":
        return [log for log in self._logs.of_topic(topic) if log.config.is_compacted]

    def _end_segment(self, now_ms: int, log: "PartitionLog") -> None:
        if log.is_truncating:
            return  # a segment at its end of before would outlive the cut
        try:
            active = log.segments.active
            is_asked = active is not None and active.base_offset < self._asked.get(log.topic_partition, 0)
            if should_roll(log, now_ms) or (is_asked and log.unusable is None):
                log.roll(now_ms)
        except OSError as error:
            self._leave_alone(log, f"its segment cannot end: {error}")

    def _choose(self, logs: "list[PartitionLog]", now_ms: int) -> Cleanable | None:
        candidates = []
        for log in logs:
            if log in self._left_alone:
                continue
            try:
                found = cleanable(log, now_ms)
            except OSError as error:
                self._leave_alone(log, str(error))
                continue
            asked = self._asked.get(log.topic_partition)
            if asked is not None and first_uncompacted_offset(log) >= asked:
                del self._asked[log.topic_partition]
                asked = None
            if found is not None:
                candidates.append(found if asked is None else replace(found, is_overdue=True))
        return first_to_compact(candidates)

    async def _clean(self, plan: Cleanable) -> None:
        log = plan.log
        truncations = log.truncations
        self._pace.unwanted = lambda: (
            log.unusable is not None or not log.config.is_compacted or log.truncations != truncations
        )
        job = CleanJob(
            plan,
            self._pace,
            now_ms=self._clock.now_ms(),
            limit_bytes=self._config.dedupe_buffer_bytes,
            quiet=partial(self._quiet, log),
        )
        before, began_ms = log.size_bytes, self._clock.elapsed_ms()
        try:
            await job.run()
        except Abandoned:
            self._left_alone[log] = self._clock.elapsed_ms() + self._config.backoff_ms
        except OSError as error:
            self._leave_alone(log, str(error))
        except CorruptRecords as damage:
            if log.truncations != truncations:  # it was read while it was cut
                self._left_alone[log] = self._clock.elapsed_ms() + self._config.backoff_ms
                return
            _LOG.error("%s is damaged and will not be compacted: %s", log.topic_partition, damage)
            self.compacted.failed += 1
            self._left_alone[log] = LONG_MAX
        else:
            _LOG.debug("%s: compacted, %d bytes before, %d now", log.topic_partition, before, log.size_bytes)
            done = self.compacted
            done.times += 1
            done.took_ms += self._clock.elapsed_ms() - began_ms
            done.bytes_before += before
            done.bytes_after += log.size_bytes

    def _leave_alone(self, log: "PartitionLog", why: str) -> None:
        _LOG.warning("%s cannot be compacted now: %s", log.topic_partition, why)
        self.compacted.failed += 1
        self._left_alone[log] = self._clock.elapsed_ms() + self._config.backoff_ms

    async def _save(self) -> None:
        try:
            await self._save_offsets()
        except OSError as error:
            _LOG.warning("cleaner offsets could not be saved, so a start repeats some compaction: %s", error)
