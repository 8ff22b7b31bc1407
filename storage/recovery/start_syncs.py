"""`StartSyncs`: what a start has to make durable before it serves: of many logs at once, by a sync of the file system.

Always true: a log of which a part could not be made durable is told to the caller, and no other log because of it.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from eosin.storage.checkpoints.checkpoint_saver import OTHERS_MAX_BYTES, SMALL_FILES_BYTES, TOGETHER_FROM
from eosin.storage.disk.interfaces import Disk, WholeSync
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.log.segment import LOG_SUFFIX, Segment

_LOG: Final = logging.getLogger("eosin.storage")


@dataclass(slots=True)
class _Owed:
    """Of one log."""

    segments: list[Segment] = field(default_factory=list)
    has_names: bool = False
    """True if its small files and its directory are to be synced too."""


class StartSyncs:
    """One start's. For one thread."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._owed: dict[PartitionLog, _Owed] = {}

    def add(self, log: PartitionLog, *segments: Segment, names: bool = False) -> None:
        """These segments of `log` were read and count as durable from now on; with `names` all that it doubts, too."""
        owed = self._owed.setdefault(log, _Owed())
        owed.segments += segments
        owed.has_names |= names

    def run(self, sync: WholeSync | None, check: Callable[[], None]) -> dict[PartitionLog, OSError]:
        """Make it all durable; the logs of which a part is not, and why. Blocks; `check` is called between logs and
        ends it by raising."""
        if sync is not None and self._is_worth(sync):
            try:
                sync.run()
            except OSError as error:
                _LOG.warning("the file system could not be synced, each log is synced alone: %s", error)
            else:
                for log, owed in self._owed.items():
                    if owed.has_names:
                        log.begin_flush().release()
                return {}
        failed = {}
        for log, owed in self._owed.items():
            check()
            try:
                self._sync(log, owed)
            except OSError as error:
                failed[log] = error
        return failed

    def _is_worth(self, sync: WholeSync) -> bool:
        if len(self._owed) < TOGETHER_FROM:
            return False
        own_bytes = sum(log.size_bytes + SMALL_FILES_BYTES for log in self._owed)
        return sync.waiting_bytes() <= own_bytes + OTHERS_MAX_BYTES

    def _sync(self, log: PartitionLog, owed: _Owed) -> None:
        for segment in owed.segments:
            if log.segments.has(segment):  # the end of what was read may have taken it out
                self._disk.sync_file(segment.path + LOG_SUFFIX)
        if owed.has_names:
            flush = log.begin_flush()
            try:
                flush.run()
            finally:
                flush.release()
