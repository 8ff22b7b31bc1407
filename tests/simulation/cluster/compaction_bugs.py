"""Bugs in what followers compact: each replica of a compacted topic is compacted for itself."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from eosin.protocol.records.batch import BatchHeader
from eosin.storage.compaction import choice
from eosin.storage.compaction.job import CleanJob
from eosin.storage.compaction.key_pass import KeyPass
from eosin.storage.compaction.rules import BatchFate, CompactionRules
from eosin.storage.log.committed_log import NOT_LEADER
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.log.segment import Segment
from simulation.planted.places import plant


@contextmanager
def followers_compact_what_is_not_committed() -> Iterator[None]:
    """A follower compacts up to the end of its log, which may yet be cut, in place of its high watermark."""
    touchable = choice._touchable

    def careless(log: PartitionLog, first_uncompacted: int, now_ms: int) -> Iterable[Segment]:
        if not _is_followed(log):
            return touchable(log, first_uncompacted, now_ms)
        first_open = log.producer_state.transactions.first_open
        end = log.log_end_offset if first_open is None else first_open
        with patch.object(PartitionLog, "last_stable_offset", end):
            return list(touchable(log, first_uncompacted, now_ms))

    with plant(choice, "_touchable", careless):
        yield


@contextmanager
def followers_compact_markers_away() -> Iterator[None]:
    """A follower's compaction drops markers whose records are still there."""
    clean_group = CleanJob._clean_group

    async def careless(self: CleanJob, group: Any, batches: Any, rules: CompactionRules) -> None:
        if _is_followed(self._log):
            rules.__class__ = _NoMarkers  # `batches` has the same rules
        await clean_group(self, group, batches, rules)

    with plant(CleanJob, "_clean_group", careless):
        yield


@contextmanager
def followers_take_aborted_values_for_the_latest() -> Iterator[None]:
    """A follower's compaction takes an aborted value for the latest of its key."""
    has_keys = KeyPass._has_keys

    def careless(self: KeyPass, header: BatchHeader) -> bool:
        if has_keys(self, header):
            return True
        return _is_followed(self._plan.log) and header.records_count != 0 and not header.is_control

    with plant(KeyPass, "_has_keys", careless):
        yield


class _NoMarkers(CompactionRules):
    """Rules by which no marker stays."""

    __slots__ = ()

    def judge_marker(self, *batch: Any) -> BatchFate:
        """In the way of the others, so that what comes after it is judged as ever."""
        super().judge_marker(*batch)
        return BatchFate.DROP_RECORDS


def _is_followed(log: PartitionLog) -> bool:
    return log._no_appends is NOT_LEADER
