"""`CheckpointFile`: one file that is replaced whole, again and again, from wherever it is convenient.

Always true: of several writes the newest content stays, however their threads are scheduled; `save` returns when its
content, or newer, is in the file.
"""

import threading

from eosin.storage.disk.interfaces import Disk
from eosin.storage.disk.space import DiskSpace, WritePurpose


class CheckpointFile:
    """A file in a data directory."""

    __slots__ = ("_content", "_disk", "_durable", "_is_synced", "_lock", "_newest", "_path", "_space", "_written")

    def __init__(self, disk: Disk, path: str, *, durable: bool, space: DiskSpace) -> None:
        """`durable`: whether a save waits for the device. On a full disk it takes room from the reserve of `space`."""
        self._disk = disk
        self._space = space
        self._path = path
        self._durable = durable
        self._lock = threading.Lock()
        self._newest = 0
        self._written = 0
        self._is_synced = True
        self._content: bytes | None = None

    def read(self) -> bytes | None:
        """The content, None if there is no file. Blocks."""
        try:
            return self._disk.read_whole(self._path)
        except FileNotFoundError:
            return None

    async def save(self, content: bytes, *, durable: bool = False) -> None:
        """Replace the content, off the event loop; wait for the device if `durable`, at any rate. Raises OSError."""
        if content != self._content:
            self._newest += 1
            await self._disk.off_loop(self._write, self._newest, content, durable or self._durable)

    def save_now(self, content: bytes) -> None:
        """Replace the content. Blocks. Raises OSError."""
        if content != self._content:
            self._newest += 1
            self._write(self._newest, content, self._durable)

    def _write(self, version: int, content: bytes, durable: bool) -> None:
        with self._lock:
            if version > self._written:
                self._space.attempt(WritePurpose.VITAL, self._disk.write_atomic, self._path, content, durable=durable)
                self._written = version
                self._content = content
                self._is_synced = durable
            elif durable and not self._is_synced:
                self._disk.sync_file(self._path)
                self._disk.sync_directory(self._path.rpartition("/")[0])
                self._is_synced = True
