"""`SegmentedLog`: writes batches to the segment files of one partition; rolls, leader epochs, unsynced files.

The lowest layer of a log: `ReadableLog` above it reads, `CommittedLog` and `PartitionLog` commit and decide. Always
true: nothing is on disk before the first write; the log end is behind the last batch of the active segment; the next
flush covers every write and every new name since the last one began.
"""

import errno
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from eosin.protocol.names import ZERO_UUID, TopicPartition, Uuid
from eosin.runtime.clock import as_stamped
from eosin.storage.disk.checkpoint_formats import PARTITION_METADATA, encode_partition_metadata
from eosin.storage.disk.flusher import Flush
from eosin.storage.disk.interfaces import LACKING_DESCRIPTORS, Buffer, File
from eosin.storage.log.checkpoint_state import CheckpointState
from eosin.storage.log.compaction_state import CompactionState
from eosin.storage.log.config import LogConfig
from eosin.storage.log.context import LogContext
from eosin.storage.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from eosin.storage.log.leader_epochs import LeaderEpochs
from eosin.storage.log.segment import LOG_SUFFIX, Segment
from eosin.storage.log.segments import Segments

LOG: Final = logging.getLogger("eosin.storage")
PASSING_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, *LACKING_DESCRIPTORS})
"""A write that fails for want of space or descriptors may succeed later."""
_KEPT_PLACES: Final = 16


class SegmentedLog:
    """Segments as one log."""

    __slots__ = (
        "_config",
        "_defers",
        "_index_interval_bytes",
        "_max_index_bytes",
        "_moment_of",
        "_roll_after_ms",
        "_segment_limit_bytes",
        "_unsynced",
        "_unsynced_directories",
        "_unsynced_paths",
        "checkpoint_state",
        "compaction_state",
        "context",
        "directory",
        "epochs",
        "is_truncating",
        "leader_epoch",
        "log_end_offset",
        "partition",
        "places",
        "segments",
        "topic",
        "topic_id",
        "topic_partition",
        "truncations",
        "unflushed_bytes",
        "unsaved_paths",
    )

    def __init__(
        self,
        context: LogContext,
        topic_partition: TopicPartition,
        *,
        directory: str,
        topic_id: Uuid,
        config: LogConfig,
        leader_epoch: int,
        log_end_offset: int,
    ) -> None:
        self.context = context
        self._defers = context.flusher.defers
        self._moment_of = None if context.moment_of is as_stamped else context.moment_of
        """None where timestamps and the clock agree: each append goes by."""
        self.topic_partition = topic_partition
        self.topic, self.partition = topic_partition
        self.topic_id = topic_id
        self.directory = directory
        self.leader_epoch = leader_epoch
        """Stamped on every batch. Never goes back."""
        self.log_end_offset = log_end_offset
        """The next offset to be written."""
        self.segments = Segments()
        self.epochs = LeaderEpochs()
        self.places: dict[int, tuple[Segment, int]] = {}
        """Positions of batches that readers ask for again: the end of the last reads and flushes."""
        self.checkpoint_state = CheckpointState(log_end_offset)
        self.compaction_state = CompactionState()
        self.is_truncating = False
        """True if its end is being cut off: nothing may be appended until that has ended."""
        self.truncations = 0
        """Number of truncations that have begun."""
        self.unflushed_bytes = 0
        self._unsynced: list[Segment] = []
        self._unsynced_paths: list[str] = []
        self._unsynced_directories: list[str] = []
        self.unsaved_paths: list[str] = []
        """Small files that the next checkpoint has to sync: a flush that has taken them over may never end."""
        self.update_config(config)

    @property
    def config(self) -> LogConfig:
        """The topic's configuration."""
        return self._config

    def update_config(self, config: LogConfig) -> None:
        """Follow a changed topic configuration from now on."""
        self._config = config
        self._segment_limit_bytes = config.segment_limit_bytes
        self._roll_after_ms = config.roll_after_ms
        self._index_interval_bytes = config.index_interval_bytes
        self._max_index_bytes = config.segment_index_bytes

    def raise_leader_epoch(self, leader_epoch: int) -> None:
        """Stamp this epoch on every batch from now on, unless the log has a higher one."""
        self.leader_epoch = max(self.leader_epoch, leader_epoch)

    @property
    def files_busy(self) -> bool:
        """True if a thread works on files of this log by their names: no other may rename or remove them."""
        return self.checkpoint_state.is_running or self.compaction_state.is_swapping or self.is_truncating

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments, without indexes."""
        return self.segments.size_bytes

    # Writing --------------------------------------------------------------------------------------------------------

    def write(
        self, buffers: tuple[Buffer, ...], *, size: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> None:
        """Put one batch at the log end. Raises OSError with nothing changed but, perhaps, a new empty segment."""
        segment = self.segments.active
        if segment is None:
            segment = self._create_first_segment(now_ms)
        elif segment.size and (
            segment.is_over(
                size,
                last_offset=last_offset,
                max_timestamp=max_timestamp,
                now_ms=now_ms,
                limit_bytes=self._segment_limit_bytes,
                max_index_bytes=self._max_index_bytes,
                roll_after_ms=self._roll_after_ms,
            )
            or (self._moment_of is not None and self._is_over_by_moments(segment, max_timestamp, self._moment_of))
        ):
            segment = self.roll(now_ms)
        if self.epochs.latest < self.leader_epoch:
            self.begin_epoch(self.leader_epoch, self.log_end_offset)
        segment.append(
            buffers,
            size=size,
            last_offset=last_offset,
            max_timestamp=max_timestamp,
            index_interval_bytes=self._index_interval_bytes,
        )
        self.log_end_offset = last_offset + 1
        if self._defers and not segment.is_unsynced:
            segment.is_unsynced = True
            self._unsynced.append(segment)
        if self.checkpoint_state.appended(size):
            self.context.owner.needs_checkpoint(self)

    def _is_over_by_moments(self, segment: Segment, max_timestamp: int, moment_of: Callable[[int], int]) -> bool:
        """True if a batch is too late by a clock of which its producer knows nothing."""
        first = segment.first_timestamp
        elapsed_ms = moment_of(max_timestamp) - moment_of(first)
        return first >= 0 and elapsed_ms > self._roll_after_ms - segment.roll_jitter_ms

    def _create_first_segment(self, now_ms: int) -> Segment:
        self.context.disk.make_directory(self.directory)
        self._write_metadata()
        if not self.epochs.is_saved:
            self.write_epochs()
        self._unsynced_directories.append(self.directory.rpartition("/")[0])
        return self._start_segment(now_ms)

    def _write_metadata(self) -> None:
        if self.topic_id != ZERO_UUID:
            path = f"{self.directory}/{PARTITION_METADATA}"
            self.context.disk.write_atomic(path, encode_partition_metadata(self.topic_id), durable=False)
            self._to_sync(path)

    def adopt_topic_id(self, topic_id: Uuid) -> None:
        """Set the topic id of a log whose directory had none. Raises OSError."""
        if self.topic_id == ZERO_UUID != topic_id:
            self.topic_id = topic_id
            if len(self.segments):
                self._write_metadata()

    def _start_segment(self, now_ms: int) -> Segment:
        jitter_ms = min(self._config.segment_jitter_ms, self._config.segment_ms)
        segment = Segment.create(
            self.context.disk,
            self.directory,
            self.log_end_offset,
            created_ms=now_ms,
            roll_jitter_ms=self.context.chance.below(jitter_ms) if jitter_ms > 0 else 0,
        )
        self.segments.add(segment)
        self._to_sync(None)
        return segment

    def roll(self, now_ms: int) -> Segment:
        """Start a new segment at the log end. Raises OSError."""
        previous = self.segments.active
        assert previous is not None
        assert previous.size, "an empty segment does not roll"
        segment = self._start_segment(now_ms)
        previous.finish()
        self.mark_unsaved()
        return segment

    def begin_epoch(self, epoch: int, offset: int) -> None:
        """Begin leader epoch `epoch` at `offset`, at or behind the log end: batches written from there on are of it.
        The file has that before the batch is in the log, or once the log has a directory. Raises OSError with nothing
        changed."""
        if epoch < self.epochs.latest and epoch >= 0:
            self.epochs.truncate_from_end(offset)  # epochs in which nothing was written
        if self.epochs.assign(epoch, offset) and len(self.segments):
            try:
                self.write_epochs()
            except OSError:
                self.epochs.truncate_from_end(offset)
                raise

    def write_epochs(self) -> None:
        """Write the leader epochs' file; the next flush makes it durable. Raises OSError."""
        path = f"{self.directory}/{LEADER_EPOCHS}"
        self.context.disk.write_atomic(path, self.epochs.encode(), durable=False)
        self.epochs.is_saved = True
        self._to_sync(path)

    def doubt_names(self, names: Iterable[str]) -> None:
        """The last stop may have come before the small files among `names`, those of the partition's directory, were
        synced: the next flush syncs them and the directory."""
        for name in names:
            if name in (PARTITION_METADATA, LEADER_EPOCHS):
                self._to_sync(f"{self.directory}/{name}")
        self._to_sync(None)
        self._unsynced_directories.append(self.directory.rpartition("/")[0])

    def _to_sync(self, path: str | None) -> None:
        """The next flush or checkpoint must sync `path`, if given, and the partition's directory."""
        if path is not None:
            self.save_with_next((path,))
            if path not in self._unsynced_paths:
                self._unsynced_paths.append(path)
        if self.directory not in self._unsynced_directories:
            self._unsynced_directories.append(self.directory)

    # Saving ---------------------------------------------------------------------------------------------------------

    def save_with_next(self, paths: Iterable[str]) -> None:
        """The next checkpoint syncs these small files."""
        self.unsaved_paths += [path for path in paths if path not in self.unsaved_paths]

    def begin_flush(self, also: Sequence[Segment] = ()) -> Flush:
        """The flush of everything written so far (`Flushable`), and of these segments."""
        # Retention may have taken a segment before its records were synced anywhere but in the journal.
        unsynced = [segment for segment in self._unsynced if self.segments.has(segment)]
        files, closed = split_by_open((*unsynced, *also))
        for segment in self._unsynced:
            segment.is_unsynced = False
        paths, directories = self._unsynced_paths, self._unsynced_directories
        self.forget_unsynced()
        self.note_flush()
        return Flush(
            self.context.disk,
            end_offset=self.log_end_offset,
            files=files,
            closed=closed,
            paths=paths,
            directories=directories,
        )

    def flush_again(self, flush: Flush) -> None:
        """`flush` failed for want of descriptors: the next flush syncs its small files too."""
        for path in flush.paths:
            self._to_sync(path)
        self._unsynced_directories += [each for each in flush.directories if each not in self._unsynced_directories]

    def note_flush(self) -> None:
        """Remember where the log ends now: readers will soon ask for the batch there (`Flushable`)."""
        active = self.segments.active
        if active is not None:
            self.remember_place(self.log_end_offset, active, active.size)

    @property
    def has_new_names(self) -> bool:
        """True if directories or small files are to be synced with the records (`Flushable`)."""
        return bool(self._unsynced_directories or self._unsynced_paths)

    def has_unsynced_name_in(self, directory: str) -> bool:
        """True if the next flush must sync the names in `directory`."""
        return directory in self._unsynced_directories

    def mark_unsaved(self) -> None:
        """The next checkpoint has something to save."""
        if self.checkpoint_state.changed():
            self.context.owner.needs_checkpoint(self)

    def remember_place(self, offset: int, segment: Segment, position: int) -> None:
        """Note where the batch of `offset` starts; the oldest of a few notes goes."""
        places = self.places
        places[offset] = (segment, position)
        if len(places) > _KEPT_PLACES:
            del places[next(iter(places))]

    def forget_places_in(self, segments: Collection[Segment]) -> None:
        """Drop the notes of segments that are gone or replaced."""
        self.places = {offset: place for offset, place in self.places.items() if place[0] not in segments}

    def release_files(self) -> None:
        """Give back descriptors, and memory that can be read again."""
        for segment in self.segments:
            segment.release()

    def forget_unsynced(self) -> None:
        """Nothing is left to sync: a flush has taken it over, or the files are gone."""
        self._unsynced, self._unsynced_paths, self._unsynced_directories = [], [], []


def split_by_open(segments: Sequence[Segment]) -> tuple[list[File], list[str]]:
    """The files of the open segments and the paths of the closed ones: none is opened only to be synced later."""
    files, closed = [], []
    for segment in segments:
        file = segment.open_file
        if file is not None:
            files.append(file)
        else:
            closed.append(segment.path + LOG_SUFFIX)
    return files, closed
