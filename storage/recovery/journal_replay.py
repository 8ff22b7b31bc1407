"""Replay: a log takes from the journal what its own files have lost (adr/0027).

Below the recovery point nothing is looked at: a checkpoint vouches for that, and compaction may have changed it. Behind
it, batches below the log's end must be there byte for byte; batches that begin at its end are appended; what
begins behind that is damage, unless the entry says that the log ended there: a follower's leader had left a gap. A
difference is damage, too: both were written by the same append. Replay may be broken off at any point and be done
again.

What no log takes is of logs that are offline, unknown, or without a directory.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from eosin.protocol.names import ZERO_UUID, TopicPartition, Uuid
from eosin.protocol.records.batch import BatchHeader, CorruptRecords, read_header
from eosin.storage.journal.codec import JournalEntry
from eosin.storage.journal.found import FoundJournal
from eosin.storage.log.batch_scan import seek
from eosin.storage.log.segment import LOG_SUFFIX, Segment
from eosin.storage.recovery.completeness import missing

if TYPE_CHECKING:
    from eosin.storage.log.partition_log import PartitionLog

_LOG: Final = logging.getLogger("eosin.storage")
_SHOWN: Final = 10


def replay(log: "PartitionLog", entries: Iterable[JournalEntry], *, saved_end: int, now_ms: int) -> None:
    """Compare and append; appended batches are not synced yet. Everything below `saved_end` was saved. The log's end
    and its leader epochs are known, its producers are not. Raises OSError; CorruptRecords when the log is damaged."""
    first = log.segments[0].base_offset if len(log.segments) else log.log_end_offset
    known_from = max(saved_end, first)
    comparison = _JournalComparison(log)
    is_complete = True
    for entry in entries:
        log.context.patience.check()
        if entry.end_offset <= known_from:
            continue
        if entry.end_offset <= log.log_end_offset and comparison.is_equal(entry.base_offset, entry.data):
            continue
        for header, batch in _batches(entry.data):
            if header.next_offset <= known_from:
                continue
            if header.base_offset < log.log_end_offset:
                if not comparison.is_equal(header.base_offset, batch):
                    where = f"{comparison.path} and the journal differ at offset {header.base_offset}"
                    raise CorruptRecords(f"{where}: one of them is damaged")
            elif header.base_offset > log.log_end_offset and entry.base_offset > log.log_end_offset:
                raise CorruptRecords(
                    f"{log.directory} ends at offset {log.log_end_offset}, and the journal goes on behind that:"
                    f" {missing(log.log_end_offset, entry.base_offset)}"
                )
            else:
                if is_complete:
                    # Segments that recovery has set aside must not come back behind what now grows into their place.
                    is_complete = False
                    log.context.disk.sync_directory(log.directory)
                _append(log, header, batch, now_ms)


def _batches(data: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    position = 0
    while position < len(data):
        header = read_header(data[position:])
        yield header, data[position : position + header.size]
        position += header.size


def _append(log: "PartitionLog", header: BatchHeader, batch: memoryview, now_ms: int) -> None:
    log.begin_epoch(header.partition_leader_epoch, header.base_offset)
    log.leader_epoch = log.epochs.latest
    log.write(
        (batch,),
        size=header.size,
        last_offset=header.last_offset,
        max_timestamp=header.max_timestamp,
        now_ms=now_ms,
    )


class _JournalComparison:
    """Looks where it found the batch before, first: entries of a log follow each other."""

    def __init__(self, log: "PartitionLog") -> None:
        self._log = log
        self._segment: Segment | None = None
        self._position = 0

    @property
    def path(self) -> str:
        """The file that was looked at last."""
        return self._log.directory if self._segment is None else self._segment.path + LOG_SUFFIX

    def is_equal(self, base_offset: int, data: memoryview) -> bool:
        """True if the log has `data` at `base_offset`, in one piece."""
        segment = self._log.segments[self._log.segments.index_of(base_offset)]
        if segment is self._segment and self._is_at(segment, self._position, data):
            return True
        self._segment = segment
        hint = segment.offset_index.position_before(base_offset - segment.base_offset)
        self._position = seek(segment.file.read, hint, segment.size, base_offset)
        return self._is_at(segment, self._position, data)

    def _is_at(self, segment: Segment, position: int, data: memoryview) -> bool:
        if position + len(data) > segment.size or segment.file.read(position, len(data)) != data:
            return False
        self._position = position + len(data)
        return True


def what_is_left(
    journal: FoundJournal, logs: Mapping[TopicPartition, "PartitionLog"]
) -> tuple[bool, dict[tuple[TopicPartition, Uuid], int]]:
    """(True if the journal is still needed, the end offsets of logs that have entries and no directory): these
    are missed if their topics exist. It is needed for logs that could not be loaded, and for those whose topic id was
    lost, until it is known which topic that is."""
    missed: dict[tuple[TopicPartition, Uuid], int] = {}
    is_kept = False
    for partition, ends in journal.logs.items():
        topic_id = logs[partition].topic_id if partition in logs else None
        missed |= {(partition, each): end for each, end in ends.items() if each != topic_id}
        is_kept |= topic_id == ZERO_UUID and ZERO_UUID not in ends
    offline = [partition for partition, log in logs.items() if log.failure and journal.has(partition)]
    if offline:
        is_kept = True
        _LOG.error(
            "the journal is kept, and no new one begun, as it holds records of %s: %s. Until they can be loaded or are"
            " deleted every log is synced by itself",
            "partitions that are offline" if len(offline) > 1 else "a partition that is offline",
            ", ".join(map(str, offline[:_SHOWN])),
        )
    return is_kept, missed
