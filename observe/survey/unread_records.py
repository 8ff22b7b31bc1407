"""`UnreadRecords`: how many records a group's readers of committed records will still be given: no control records, no
aborted ones, nothing that compaction took (console.md 5.4).

Counted from the headers of the batches between a group's position and the last stable offset. Always true: what has not
moved is not counted again, a round reads at most `bytes_per_round`, and others run after each piece of `PIECE` bytes.
"""

from collections.abc import Sequence
from inspect import isawaitable
from typing import Final, NamedTuple

from eosin.client.errors import BadData
from eosin.client.read_committed import FetchedRecords
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.runtime.turns import next_turn
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.file_range import FileRange

PIECE: Final = 64 * 1024
LEAST_BYTES: Final = 1024
"""Bytes of a round that the smallest read counts as."""
MOST_KEPT: Final = 20_000
_COMMITTED: Final = IsolationLevel.READ_COMMITTED


class Unread(NamedTuple):
    """The offsets from a position to the last stable one."""

    records: int
    """Records that a reader will be given."""
    control_records: int
    uncounted: int
    """Offsets at the end that were not looked at."""


_NOTHING: Final = Unread(0, 0, 0)


class UnreadRecords:
    """Counts, and remembers what it has counted."""

    def __init__(self, *, most_bytes: int, bytes_per_round: int, in_part: bool = False) -> None:
        """More than `most_bytes` is not counted; of that, `in_part` counts the first `most_bytes`, and for what a round
        does not reach tells the number of a round before."""
        self._most_bytes = most_bytes
        self._bytes_per_round = self._left_bytes = bytes_per_round
        self._in_part = in_part
        self._known: dict[tuple[str, TopicPartition], tuple[Sequence[int], Unread]] = {}
        """By group and partition, the place that was counted and what was found, oldest first."""

    def begin_round(self) -> None:
        """Allow another `bytes_per_round`."""
        self._left_bytes = self._bytes_per_round

    async def count(self, group_id: str, log: PartitionLog, position: int) -> Unread:
        """Count what is left for a group whose next offset is `position`."""
        first, end = max(position, log.log_start_offset), log.last_stable_offset
        if first >= end:
            return _NOTHING
        key, place = (group_id, log.topic_partition), (first, end, id(log))
        known = self._known.get(key)
        if known is not None and known[0] == place:
            return known[1]
        size = log.bytes_available(first, isolation=_COMMITTED, limit=self._most_bytes + 1)
        counted = min(size, self._most_bytes)
        if counted > self._left_bytes or (counted < size and not self._in_part):
            return known[1] if known is not None and self._in_part else Unread(0, 0, end - first)
        self._left_bytes -= max(LEAST_BYTES, counted)
        found = await _counted(log, first, end, counted, is_whole=counted == size)
        if known is not None:
            del self._known[key]
        elif len(self._known) >= MOST_KEPT:
            del self._known[next(iter(self._known))]
        self._known[key] = (place, found)
        return found


async def _counted(log: PartitionLog, first: int, end: int, most_bytes: int, *, is_whole: bool) -> Unread:
    records = controls = 0
    position = first
    while position < end and most_bytes > 0:
        reading = log.read(position, max_bytes=PIECE, isolation=_COMMITTED, min_one_batch=is_whole)
        result = await reading if isawaitable(reading) else reading
        if result.error is not ErrorCode.NONE or isinstance(result.records, FileRange) or not result.records:
            break
        fetched = FetchedRecords(result.records, from_offset=position, aborted=result.aborted or ())  # type: ignore[arg-type]
        try:
            found = fetched.count(end)
        except BadData:
            break
        records += found.records
        controls += found.control_records
        most_bytes -= len(result.records)
        if fetched.next_offset <= position:
            break
        position = fetched.next_offset
        await next_turn()
    return Unread(records, controls, max(0, end - position))
