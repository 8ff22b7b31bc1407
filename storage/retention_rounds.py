"""`RetentionRounds`: retention for every log of a data directory, at its interval and whenever the disk is full.

Always true: a dropped segment's files are only renamed here; `DelayedDelete` removes them once the log start that they
lie below is durable.
"""

import logging
from typing import Final

from eosin.runtime.clock import Clock
from eosin.runtime.turns import in_turns
from eosin.storage.disk.delayed_delete import DelayedDelete
from eosin.storage.disk.interfaces import Disk
from eosin.storage.disk.space import DiskSpace, is_no_space
from eosin.storage.log.log_table import LogTable
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.log.retention import delete_old_segments

_LOG: Final = logging.getLogger("eosin.storage")

FULL_DISK_INTERVAL_MS: Final = 10_000
"""Interval at which retention looks for something to delete while the disk is full."""


class RetentionRounds:
    """The retention of one data directory."""

    __slots__ = ("_clock", "_delayed", "_disk", "_due_ms", "_logs", "_space")

    def __init__(self, disk: Disk, space: DiskSpace, logs: LogTable, *, clock: Clock, delayed: DelayedDelete) -> None:
        """`delayed` removes the renamed files later."""
        self._disk = disk
        self._space = space
        self._logs = logs
        self._clock = clock
        self._delayed = delayed
        self._due_ms = 0

    async def apply(self, now_ms: int) -> None:
        """Drop what the topics' configurations do not keep at `now_ms` (storage.md section 13)."""
        elapsed_ms = self._clock.elapsed_ms()

        def drop_old(log: PartitionLog) -> None:
            try:
                for path in delete_old_segments(log, now_ms):
                    self._delayed.add_file(path, due_ms=elapsed_ms + log.config.file_delete_delay_ms)
            except OSError as error:
                if not is_no_space(error):
                    _LOG.error("%s: retention stopped: %s", log.topic_partition, error)

        await in_turns(list(self._logs.by_partition.values()), drop_old, self._clock)

    async def check_space(self) -> None:
        """See whether a full disk has room again; while it has none, apply retention now and then."""
        if self._space.needs_check:
            await self._disk.off_loop(self._space.check)
        elapsed_ms = self._clock.elapsed_ms()
        if not self._space.is_full:
            self._due_ms = 0
        elif elapsed_ms >= self._due_ms:
            self._due_ms = elapsed_ms + FULL_DISK_INTERVAL_MS
            await self.apply(self._clock.now_ms())
