"""`Journal`: the files of a ring, and the note in the data directory that says which they are.

The files lie at the top of the data directory, where Apache Kafka and its tools look at directories only. The note,
`.eosin_unclean`, is there from before the first group until a clean stop: a start that finds it without the files that
it names has lost acknowledged records. Always true: a file is named there before anything is written to it, and
nothing below is written to by two threads at a time.
"""

import json
from dataclasses import dataclass
from typing import Final

from eosin.storage.disk.flusher import Flushable
from eosin.storage.disk.interfaces import Disk, FixedFile
from eosin.storage.journal.codec import encode_group
from eosin.storage.journal.ring import Place, Ring

NOTE: Final = ".eosin_unclean"
FILE_PREFIX: Final = ".eosin_journal-"
FREE_FACTOR: Final = 16
"""A file is made only where so many times its size is free: the journal never fills a disk."""


@dataclass(frozen=True, slots=True)
class JournalConfig:
    """The sizes of the journal."""

    size_bytes: int = 64 * 1024 * 1024
    """Of all files together; 0: no journal, every log is synced by itself."""
    least_bytes: int = 1024 * 1024
    """Of the first file. A smaller limit makes it smaller."""
    direct_bytes: int = 64 * 1024
    """A log that has this much to make durable at once is synced by itself."""


class NoRoom(OSError):
    """The disk has too little left for another file."""


class Journal:
    """The journal of one data directory, which had none before."""

    def __init__(self, disk: Disk, data_dir: str, journal_id: bytes, config: JournalConfig) -> None:
        """Nothing is touched before the first `Extension`."""
        self._disk = disk
        self._data_dir = data_dir
        self.journal_id = journal_id
        """Names this journal among those of the directory, before and after it."""
        least_bytes = min(config.least_bytes, config.size_bytes // 4)
        self.ring = Ring(limit_bytes=config.size_bytes, least_bytes=least_bytes)
        self._files: list[FixedFile] = []

    def extension(self) -> "Extension":
        """The work of adding a file."""
        return Extension(self._disk, self._data_dir, self.journal_id, [*self.ring.sizes, self.ring.growth])

    def extended(self, extension: "Extension") -> None:
        """Use the file that `extension` has made."""
        assert extension.file is not None
        self._files.append(extension.file)
        self.ring.add(extension.file.size)

    def write_of(self, place: Place, parts: list[bytes], logs: "list[tuple[Flushable, int, int]]") -> "GroupWrite":
        """The work of writing a group. `logs`: each log in it, the offset at which its entry ends, and its bytes."""
        return GroupWrite(self.journal_id, self._files[place.slot.number], place, parts, logs)

    def close(self) -> None:
        """Give the descriptors back."""
        for file in self._files:
            file.close()


class GroupWrite:
    """One group on its way to the device. `run` may be called in any thread."""

    __slots__ = ("_data", "_file", "is_written", "logs", "place")

    def __init__(
        self,
        journal_id: bytes,
        file: FixedFile,
        place: Place,
        parts: list[bytes],
        logs: list[tuple[Flushable, int, int]],
    ) -> None:
        self._file = file
        # Here and not in `run`: a thread that computes takes turns with the event loop.
        self._data = encode_group(journal_id, place.header, parts)
        self.place = place
        self.logs = logs
        self.is_written = False
        """True if only the sync can have failed."""

    def run(self) -> None:
        """Wait until it is durable. Raises OSError."""
        self._file.write(self.place.position, self._data)
        self.is_written = True
        self._file.sync()


class Extension:
    """One more file. `run` may be called in any thread."""

    __slots__ = ("_data_dir", "_disk", "_id", "_sizes", "file", "is_noted")

    def __init__(self, disk: Disk, data_dir: str, journal_id: bytes, sizes: list[int]) -> None:
        self._disk = disk
        self._data_dir = data_dir
        self._id = journal_id
        self._sizes = sizes
        self.file: FixedFile | None = None
        self.is_noted = False
        """True if the note names the file, or may do so."""

    def run(self) -> None:
        """Make it, durably, and name it in the note. Raises OSError."""
        number, size = len(self._sizes) - 1, self._sizes[-1]
        room = self._disk.free_bytes(self._data_dir)
        if room is not None and room.free < size * FREE_FACTOR:
            raise NoRoom("too little space is left for the journal to grow")
        path = file_path(self._data_dir, number)
        self._disk.preallocate(path, size)
        self._disk.sync_directory(self._data_dir)
        self.file = self._disk.open_fixed(path)
        self.is_noted = True
        self._disk.write_atomic(f"{self._data_dir}/{NOTE}", encode_note(self._id, self._sizes))


def file_path(data_dir: str, number: int) -> str:
    """The path of a file of the journal."""
    return f"{data_dir}/{FILE_PREFIX}{number}"


def encode_note(journal_id: bytes, sizes: list[int]) -> bytes:
    """The content of the note."""
    return json.dumps({"version": 1, "journal": journal_id.hex(), "files": sizes}).encode()


def decode_note(content: bytes) -> tuple[bytes, list[int]]:
    """(journal id, size of each file). Raises ValueError."""
    try:
        note = json.loads(content)
        if note["version"] != 1:
            raise ValueError(f"version {note['version']} is unknown")
        journal_id, sizes = bytes.fromhex(note["journal"]), [int(size) for size in note["files"]]
    except (KeyError, TypeError) as error:
        raise ValueError(f"it has no {error}") from error
    if len(journal_id) != 16:
        raise ValueError("its journal has no id")
    return journal_id, sizes


def remove_journal(disk: Disk, data_dir: str) -> None:
    """Remove the journal, once every log is synced. Blocks. Raises OSError."""
    names = disk.list(data_dir)
    if NOTE in names:
        disk.unlink(f"{data_dir}/{NOTE}")
        disk.sync_directory(data_dir)
    for name in names:
        if name.startswith(FILE_PREFIX):
            disk.unlink(f"{data_dir}/{name}")
