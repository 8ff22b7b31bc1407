"""The kind of a file, by its name (wire.md sections 9, 15 to 17)."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from eosin.storage.disk.checkpoint_formats import CLEANER_OFFSET, HIGH_WATERMARK, LOG_START_OFFSET, PARTITION_METADATA
from eosin.storage.disk.checkpoint_formats import RECOVERY_POINT as RECOVERY_POINT_FILE
from eosin.storage.disk.meta_properties import FILE_NAME as META_PROPERTIES
from eosin.storage.journal.journal import FILE_PREFIX
from eosin.storage.log.leader_epochs import FILE_NAME as LEADER_EPOCHS


class FileKind(StrEnum):
    """The kinds of file that can be read."""

    SEGMENT = "segment"
    OFFSET_INDEX = "offset index"
    TIME_INDEX = "time index"
    ABORTED_INDEX = "transaction index"
    SNAPSHOT = "producer snapshot"
    OFFSETS = "offset checkpoint"
    LEADER_EPOCHS = "leader epochs"
    PARTITION_METADATA = "partition metadata"
    META_PROPERTIES = "directory properties"
    JOURNAL = "journal"


_FIXED: Final = {
    RECOVERY_POINT_FILE: FileKind.OFFSETS,
    LOG_START_OFFSET: FileKind.OFFSETS,
    HIGH_WATERMARK: FileKind.OFFSETS,
    CLEANER_OFFSET: FileKind.OFFSETS,
    LEADER_EPOCHS: FileKind.LEADER_EPOCHS,
    PARTITION_METADATA: FileKind.PARTITION_METADATA,
    META_PROPERTIES: FileKind.META_PROPERTIES,
}
_BY_SUFFIX: Final = {
    ".log": FileKind.SEGMENT,
    ".checkpoint": FileKind.SEGMENT,  # a snapshot of Apache Kafka's metadata log: batches, too
    ".index": FileKind.OFFSET_INDEX,
    ".timeindex": FileKind.TIME_INDEX,
    ".txnindex": FileKind.ABORTED_INDEX,
    ".snapshot": FileKind.SNAPSHOT,
}
# An offset; a metadata snapshot has its epoch behind it; what waits to be removed or renamed has one more suffix.
_NUMBERED: Final = re.compile(
    r"(?P<base>[0-9]{20})(-[0-9]+)?(?P<suffix>\.[a-z]+)(?P<state>\.deleted|\.cleaned|\.swap|\.truncated-[0-9]+)?"
)


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A path and what its name says."""

    path: str
    kind: FileKind
    base_offset: int | None = None
    state: str = ""
    """`.deleted`, `.cleaned`, `.swap` or `.truncated-<ms>`: not part of the log any more, or not yet."""

    @property
    def directory(self) -> str:
        """The directory that it lies in."""
        return self.path.rpartition("/")[0] or "."

    @property
    def topic(self) -> str:
        """The topic of the partition directory, if that is what it lies in."""
        return self.directory.rpartition("/")[2].rpartition("-")[0]

    @property
    def log_path(self) -> str:
        """The segment that an index belongs to."""
        assert self.base_offset is not None
        state = "" if self.state.startswith(".truncated") else self.state
        return f"{self.directory}/{self.base_offset:020d}.log{state}"


def named(path: str) -> NamedFile | None:
    """The kind of `path`; None for an unknown name."""
    name = path.rpartition("/")[2]
    if name in _FIXED:
        return NamedFile(path, _FIXED[name])
    if name.startswith(FILE_PREFIX):
        return NamedFile(path, FileKind.JOURNAL)
    numbered = _NUMBERED.fullmatch(name)
    kind = _BY_SUFFIX.get(numbered["suffix"]) if numbered is not None else None
    if numbered is None or kind is None:
        return None
    # A metadata snapshot is named by where it ends.
    base_offset = None if numbered["suffix"] == ".checkpoint" else int(numbered["base"])
    return NamedFile(path, kind, base_offset, numbered["state"] or "")
