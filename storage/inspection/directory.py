"""A data directory as it lies there: whose it is, how it was left, and the partitions in it.

Nothing is taken, made or removed, unlike in `data_directory.py`.
"""

import re
from dataclasses import dataclass, field

from eosin.protocol.names import TopicPartition
from eosin.storage.disk.checkpoint_formats import (
    CLEANER_OFFSET,
    HIGH_WATERMARK,
    LOG_START_OFFSET,
    OWN_CLEANER_OFFSET,
    RECOVERY_POINT,
    MalformedCheckpoint,
    decode_offsets,
)
from eosin.storage.disk.data_directory import BOOT_ID, CLEAN_MARK, LOCK, UnknownName, boot_of, parse_partition
from eosin.storage.disk.interfaces import Disk, Lock, UnusableDirectory
from eosin.storage.disk.meta_properties import FILE_NAME as META_PROPERTIES
from eosin.storage.disk.meta_properties import MetaProperties
from eosin.storage.inspection.values import FileProblem, Value
from eosin.storage.journal.found import DamagedJournal, find_journal
from eosin.storage.journal.journal import NOTE

_RETIRED = re.compile(r".+\.[0-9a-f]{32}-(delete|stray|future)")
_NOT_OURS = frozenset({"lost+found"})


class NoDataDirectory(UnusableDirectory):
    """There is no data directory of that name."""


class DirectoryFound(Value, frozen=True, kw_only=True, tag="directory"):
    """The content of a data directory before its logs are read."""

    cluster_id: str
    node_id: int
    is_clean: bool
    """True if the last stop was clean."""
    partitions: int


@dataclass(slots=True)
class Directory:
    """A data directory."""

    path: str
    properties: MetaProperties
    is_clean: bool
    same_boot: bool
    """True if the machine has not stopped since a broker was at work here."""
    partitions: list[TopicPartition] = field(default_factory=list)
    problems: list[FileProblem] = field(default_factory=list)
    """Faults of the directory itself and its checkpoints."""
    recovery_points: dict[TopicPartition, int] = field(default_factory=dict)
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    cleaner_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    own_cleaner_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    """The cleaner offsets that Eosin has written, not Apache Kafka."""

    @property
    def value(self) -> DirectoryFound:
        """The directory as a value."""
        return DirectoryFound(
            self.path,
            cluster_id=self.properties.cluster_id,
            node_id=self.properties.node_id,
            is_clean=self.is_clean,
            partitions=len(self.partitions),
        )


def lock(disk: Disk, path: str) -> Lock:
    """Keep brokers out of a data directory. Raises UnusableDirectory, also when one is at work there."""
    if not disk.is_directory(path):
        raise NoDataDirectory(f"there is no directory {path}")
    if disk.size(f"{path}/{META_PROPERTIES}") is None:
        raise NoDataDirectory(f"{path} is no data directory: it has no {META_PROPERTIES}")
    return disk.lock(f"{path}/{LOCK}")


def read_directory(disk: Disk, path: str) -> Directory:
    """Read the files at the top of a data directory. Raises UnusableDirectory, OSError."""
    properties = MetaProperties.decode(disk.read_whole(f"{path}/{META_PROPERTIES}"))
    names = disk.list(path)
    same_boot = BOOT_ID in names and disk.read_whole(f"{path}/{BOOT_ID}") == boot_of(disk, path)
    directory = Directory(path, properties, CLEAN_MARK in names, same_boot)
    for name in names:
        if name in _NOT_OURS or not disk.is_directory(f"{path}/{name}") or _RETIRED.fullmatch(name):
            continue
        try:
            directory.partitions.append(parse_partition(name))
        except UnknownName:
            directory.problems.append(FileProblem(name, reason="it is no partition, so a broker refuses to start"))
    if not directory.is_clean:
        try:
            find_journal(disk, path)
        except DamagedJournal as error:
            directory.problems.append(FileProblem(NOTE, reason=f"a broker refuses to start: {error}"))
    directory.recovery_points = _offsets(disk, directory, RECOVERY_POINT)
    directory.log_starts = _offsets(disk, directory, LOG_START_OFFSET)
    directory.high_watermarks = _offsets(disk, directory, HIGH_WATERMARK)
    directory.cleaner_offsets = _offsets(disk, directory, CLEANER_OFFSET)
    directory.own_cleaner_offsets = _offsets(disk, directory, OWN_CLEANER_OFFSET)
    return directory


def _offsets(disk: Disk, directory: Directory, name: str) -> dict[TopicPartition, int]:
    try:
        return decode_offsets(disk.read_whole(f"{directory.path}/{name}"))
    except FileNotFoundError:
        return {}
    except MalformedCheckpoint as error:
        directory.problems.append(FileProblem(name, reason=str(error)))
        return {}
