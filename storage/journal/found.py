"""Reads the journal after a stop: every durable group, in order, or the reason why some are missing.

A group is written when the one before it is durable, so only the last one can be torn. Anything else that is not whole
was damaged since: a whole group follows it, in the same file or in a later one. Nothing is changed here.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from eosin.protocol.names import TopicPartition, Uuid
from eosin.storage.disk.interfaces import Disk, UnusableDirectory
from eosin.storage.journal.codec import (
    BLOCK_BYTES,
    GroupHeader,
    JournalEntry,
    MalformedEntry,
    decode_group,
    entries,
    entry_at,
    journal_id_of,
    places_of,
)
from eosin.storage.journal.journal import FILE_PREFIX, NOTE, decode_note, file_path

_PLACE_FIELDS: Final = 3
WAY_OUT: Final = (
    f"put it back, or remove {NOTE} to start without the journal: what was acknowledged shortly before the stop is"
    " lost then, if the machine stopped, too"
)


class DamagedJournal(UnusableDirectory):
    """Acknowledged records may be missing."""


@dataclass(slots=True)
class FoundFile:
    """One file of the journal, read through."""

    path: str
    content: memoryview
    groups: list[tuple[int, GroupHeader]] = field(default_factory=list)
    """Places of whole groups of one generation that follow each other from the file's beginning."""
    end: int = 0
    """End of the last of them."""
    later: GroupHeader | None = None
    """A whole group behind that, of the same generation; of any generation if there is none at the beginning."""

    @property
    def generation(self) -> int:
        """The round in which the file was written last; 0 if it never was."""
        first = self.groups[0][1] if self.groups else self.later
        return 0 if first is None else first.generation

    @property
    def last(self) -> GroupHeader | None:
        """The last group that is whole."""
        return self.later or (self.groups[-1][1] if self.groups else None)


class FoundJournal:
    """The journal as it was left."""

    def __init__(self, files: list[FoundFile]) -> None:
        """`files` are those that may be needed, the oldest first. Raises DamagedJournal."""
        self._files = files
        self._places: dict[TopicPartition, dict[Uuid, array[int]]] = {}
        """Places of the entries of each log: (number of the file, position, sequence of the group) for each."""
        self.journal_id = journal_id_of(bytes(files[0].content[:BLOCK_BYTES])) if files else b""
        """Names this journal among those of the directory, before and after it."""
        for number, file in enumerate(files):
            for position, header in file.groups:
                self._note(number, file, position, header.sequence)

    def _note(self, number: int, file: FoundFile, position: int, sequence: int) -> None:
        try:
            for at, entry in entries(file.content, position):
                logs = self._places.setdefault(entry.topic_partition, {})
                logs.setdefault(entry.topic_id, array("q")).extend((number, at, sequence))
        except MalformedEntry as error:
            raise DamagedJournal(f"{file.path} holds what nobody wrote there ({error}): {WAY_OUT}") from error

    @property
    def logs(self) -> dict[TopicPartition, dict[Uuid, int]]:
        """The logs that have entries, and where the last one of each ends."""
        return {
            partition: {topic_id: self._entry(places, -_PLACE_FIELDS).end_offset for topic_id, places in topics.items()}
            for partition, topics in self._places.items()
        }

    def has(self, partition: TopicPartition) -> bool:
        """True if there is any entry of a log of this name."""
        return partition in self._places

    def entries_of(self, partition: TopicPartition, topic_id: Uuid, *, after: int = 0) -> Iterator[JournalEntry]:
        """The entries of a log, in the order of its appends, in groups behind the one of sequence `after`."""
        places = self._places.get(partition, {}).get(topic_id, array("q"))
        for index in range(0, len(places), _PLACE_FIELDS):
            if places[index + 2] > after:
                yield self._entry(places, index)

    def _entry(self, places: "array[int]", index: int) -> JournalEntry:
        if index < 0:
            index += len(places)
        return entry_at(self._files[places[index]].content, places[index + 1])


def find_journal(disk: Disk, data_dir: str) -> FoundJournal | None:
    """The journal of a directory whose last stop was not clean; None when there was none. Blocks. Raises
    DamagedJournal, OSError."""
    files = read_files(disk, data_dir)
    return None if files is None else FoundJournal(_live(files))


def is_note_gone(disk: Disk, data_dir: str) -> bool:
    """True if there are files of a journal that no note names: somebody has preferred to start without it, though what
    was acknowledged may be lost then. Blocks. Raises OSError."""
    names = disk.list(data_dir)
    return NOTE not in names and any(name.startswith(FILE_PREFIX) for name in names)


def read_files(disk: Disk, data_dir: str) -> list[FoundFile] | None:
    """Every file that the note names; None without a note. Raises DamagedJournal, OSError."""
    try:
        note = disk.read_whole(f"{data_dir}/{NOTE}")
    except FileNotFoundError:
        return None
    try:
        journal_id, sizes = decode_note(note)
    except ValueError as error:
        raise DamagedJournal(f"{NOTE} cannot be read ({error}), and the last stop was not clean: {WAY_OUT}") from error
    files = []
    for number, size in enumerate(sizes):
        path = file_path(data_dir, number)
        found = disk.size(path)
        if found != size:
            what = "is missing" if found is None else f"has {found} bytes instead of {size}"
            raise DamagedJournal(f"{path} {what}, and the last stop was not clean: {WAY_OUT}")
        files.append(read_file(path, disk.read_whole(path), journal_id))
    return files


def read_file(path: str, content: bytes, journal_id: bytes) -> FoundFile:
    """Read one file through."""
    file = FoundFile(path, memoryview(content))
    while (group := decode_group(journal_id, file.content, file.end)) is not None:
        if file.groups and not _follows(file.groups[-1][1], group.header):
            break
        file.groups.append((file.end, group.header))
        file.end += group.size
    for position in places_of(journal_id, content, file.end):
        later = decode_group(journal_id, file.content, position)
        if later is not None and (not file.groups or later.header.generation == file.generation):
            file.later = later.header
            break
    return file


def _follows(before: GroupHeader, header: GroupHeader) -> bool:
    return header.generation == before.generation and header.sequence == before.sequence + 1


def _live(files: list[FoundFile]) -> list[FoundFile]:
    """The files that a log may need, the oldest first. Raises DamagedJournal if anything of them is missing."""
    used = sorted((file for file in files if file.generation), key=lambda file: file.generation)
    if not used:
        return []
    last = used[-1].last
    assert last is not None
    live = [file for file in used if file.generation >= last.oldest_generation]
    expected = last.oldest_generation
    before: GroupHeader | None = None
    for file in live:
        if file.generation != expected:
            raise DamagedJournal(f"round {expected} of the journal is missing before {file.path}: {WAY_OUT}")
        is_broken = not file.groups or file.later is not None
        if is_broken or (before is not None and file.groups[0][1].sequence != before.sequence + 1):
            where = file.path if is_broken else f"the file before {file.path}"
            raise DamagedJournal(f"{where} is damaged at byte {file.end if is_broken else 'of its end'}: {WAY_OUT}")
        before = file.groups[-1][1]
        expected += 1
    return live
