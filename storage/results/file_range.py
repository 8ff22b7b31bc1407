"""`FileRange`: whole batches that lie back to back in one file and are not read yet.

A fetch returns ranges where records are many, so that a slow reader costs no memory. Always
true: the file's descriptor stays open as long as the range lives, so all of it can be sent even when the
segment is closed, deleted or compacted meanwhile. Its bytes lie below a reader's visible end and never change.
"""

import errno
from typing import Final

from eosin.storage.disk.interfaces import Buffer, Disk, File

MIN_BYTES: Final = 4096
"""Less is always read: it costs less than the range would, and small fields of a response are copied into one
buffer."""


class FileRange:
    """`size` bytes of a file from `position` on. Made, used and dropped in the thread that owns the file."""

    __slots__ = ("_disk", "_file", "_position", "_size")

    def __init__(self, disk: Disk, file: File, *, position: int, size: int) -> None:
        assert size >= MIN_BYTES
        file.pin()
        self._disk = disk
        self._file = file
        self._position = position
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __del__(self) -> None:
        # Answers are dropped in many places (a client goes, a request is cancelled): the last one to let go unpins.
        if hasattr(self, "_file"):
            self._file.unpin()

    @property
    def path(self) -> str:
        """Of the file, for log lines."""
        return self._file.path

    def send(self, descriptor: int, start: int, size: int) -> int | None:
        """Have a socket take at most `size` bytes from `start` of the range on: see `File.send`."""
        sent = self._file.send(descriptor, self._position + start, size)
        return sent if sent is None else self._some(sent)

    def read_now(self, start: int, size: int) -> Buffer | None:
        """At most `size` bytes from `start` on, at least one; None when that would wait for the device."""
        data = self._file.read_now(self._position + start, min(size, self._size - start))
        if data is not None:
            self._some(len(data))
        return data

    async def read(self, start: int, size: int) -> Buffer:
        """The same, read in a thread, where waiting for the device blocks nothing."""
        data = await self._disk.off_loop(self._file.read, self._position + start, min(size, self._size - start))
        self._some(len(data))
        return data

    def _some(self, count: int) -> int:
        if count <= 0:
            raise OSError(errno.EIO, "the file ends before the batches that were found in it", self.path)
        return count


def as_range(part: object) -> FileRange | None:
    """`part` of a response if it is not read yet, else None."""
    return part if type(part) is FileRange else None
