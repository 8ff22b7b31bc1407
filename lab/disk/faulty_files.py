"""`FaultyFiles`: real files that fail when a test has said so: for a broker whose data directory is a folder.

Always true: what no fault meets happens as on the system's own disk; a call that fails has changed nothing, but for a
torn append; nothing outside of these files is touched. Faults go by the paths within the data directory. Threads call
it, too.
"""

import errno
import os
import threading
from collections.abc import Callable, Sequence
from typing import Final, ParamSpec, TypeVar

from eosin.lab.disk.faults import SYNC, CallFaults, Fault, Luck
from eosin.storage.disk.interfaces import Buffer, File, FixedFile, FreeBytes, Lock, TornWrite, WholeSync
from eosin.storage.disk.system import SystemDisk

_P = ParamSpec("_P")
_T = TypeVar("_T")

READ: Final = "read"


class FaultyFiles(CallFaults):
    """`Disk` on the operating system's files, with faults."""

    volatile = False

    def __init__(self, data_dir: str, luck: Luck = lambda: None) -> None:
        """`luck` is that of slow calls."""
        super().__init__(luck)
        self.space = None
        self.faults = []
        self._files: Final = SystemDisk()
        self.open_files = self._files.open_files
        self._top: Final = data_dir
        self._lock: Final = threading.Lock()

    # What becomes of a call

    def meets(self, call: str, path: str) -> Fault | None:
        """Count a call, and let it take its time; the fault that it meets."""
        within = path.removeprefix(self._top)
        with self._lock:
            if call != READ:
                self.made += 1
                self.counts[call, within] += 1
            fault = self.fault(call, within) if self.faults else None
        if call in self.slowness_ms and call != SYNC:  # which the flusher waits for without anybody else
            self.wait(self.lasts_ms(call))
        return fault

    def begin(self, call: str, path: str) -> None:
        """The same for a call that happens as a whole or not at all. Raises OSError if it meets a fault."""
        fault = self.meets(call, path)
        if fault is not None:
            raise fault.failure(path)

    def use_space(self, size: int, path: str) -> None:
        """Have a file grow. Raises OSError if there is no room."""
        with self._lock:
            if self.space is None:
                return
            if self.space < size:
                raise OSError(errno.ENOSPC, "no space left", path)
            self.space -= max(0, size)

    def give_space(self, size: int) -> None:
        """A file has shrunk, or is gone."""
        with self._lock:
            if self.space is not None:
                self.space += max(0, size)

    # Disk

    def open(self, path: str, *, create: bool = False) -> File:
        if create and self._files.size(path) is None:
            self.begin("create", path)
            if self.space is not None and self.space <= 0:
                raise OSError(errno.ENOSPC, "no space left", path)
        return FaultyFile(self, self._files.open(path, create=create))

    def preallocate(self, path: str, size: int) -> None:
        before = self._files.size(path) or 0
        self.begin("create", path)
        self.begin("append", path)
        self.use_space(size - before, path)
        self.begin(SYNC, path)
        self._files.preallocate(path, size)

    def open_fixed(self, path: str) -> FixedFile:
        self.begin("open_fixed", path)
        return FaultyFixedFile(self, self._files.open_fixed(path))

    def read_whole(self, path: str) -> bytes:
        self.begin(READ, path)
        return self._files.read_whole(path)

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        temporary, before = path + ".tmp", self._files.size(path) or 0
        self.begin("create", temporary)
        self.begin("append", temporary)
        if durable:
            self.begin("sync_file", temporary)
        self.begin("rename", path)
        if durable:
            self.begin("sync_directory", os.path.dirname(path))
        self.use_space(len(data), path)
        try:
            self._files.write_atomic(path, data, durable=durable)
        except OSError:
            self.give_space(len(data))
            raise
        self.give_space(before)

    def sync_file(self, path: str) -> None:
        self.begin("sync_file", path)
        self._files.sync_file(path)

    def sync_directory(self, path: str) -> None:
        self.begin("sync_directory", path)
        self._files.sync_directory(path)

    def whole_sync(self, path: str) -> WholeSync | None:
        """None: each file is synced by itself, so that one can fail."""
        return None

    def rename(self, old: str, new: str) -> None:
        self.begin("rename", new)
        covered = 0 if self._files.is_directory(new) else self._files.size(new) or 0
        self._files.rename(old, new)
        self.give_space(covered)

    def unlink(self, path: str) -> None:
        size = self._files.size(path) or 0
        self.begin("unlink", path)
        self._files.unlink(path)
        self.give_space(size)

    def make_directory(self, path: str) -> None:
        if not self._files.is_directory(path):
            self.begin("make_directory", path)
            self._files.make_directory(path)

    def remove_tree(self, path: str) -> None:
        if self._files.is_directory(path):
            self.begin("remove_tree", path)
            size = 0 if self.space is None else _size_of(path)
            self._files.remove_tree(path)
            self.give_space(size)

    def list(self, path: str) -> list[str]:
        return self._files.list(path)

    def is_directory(self, path: str) -> bool:
        return self._files.is_directory(path)

    def size(self, path: str) -> int | None:
        return self._files.size(path)

    def modified_ms(self, path: str) -> int:
        return self._files.modified_ms(path)

    def identity(self, path: str) -> str:
        return self._files.identity(path)

    def free_bytes(self, path: str) -> FreeBytes | None:
        real, left = self._files.free_bytes(path), self.space
        return real if real is None or left is None else FreeBytes(min(left, real.free), real.total)

    def lock(self, path: str) -> Lock:
        return self._files.lock(path)

    async def off_loop(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await self._files.off_loop(function, *args, **kwargs)

    async def compute(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await self._files.compute(function, *args, **kwargs)


class FaultyFile:
    """`File` of such a disk."""

    __slots__ = ("_disk", "_file", "path")

    def __init__(self, disk: FaultyFiles, file: File) -> None:
        self.path = file.path
        self._disk = disk
        self._file = file

    @property
    def size(self) -> int:
        return self._file.size

    @size.setter
    def size(self, size: int) -> None:
        raise AttributeError("the size of a file follows from its content")

    def append(self, buffers: Sequence[Buffer]) -> None:
        fault = self._disk.meets("append", self.path)
        if fault is not None and fault.torn:
            self._file.append([b"".join(buffers)[: fault.written]])
            raise TornWrite(fault.error, "injected, and not taken back", self.path)
        if fault is not None:
            raise fault.failure(self.path)
        size = sum(map(len, buffers))
        self._disk.use_space(size, self.path)
        try:
            self._file.append(buffers)
        except OSError:
            self._disk.give_space(size)
            raise

    def read(self, position: int, size: int) -> Buffer:
        self._disk.begin(READ, self.path)
        return self._file.read(position, size)

    def read_now(self, position: int, size: int) -> Buffer | None:
        self._disk.begin(READ, self.path)
        return self._file.read_now(position, size)

    def send(self, descriptor: int, position: int, size: int) -> int | None:
        self._disk.begin(READ, self.path)
        return self._file.send(descriptor, position, size)

    def sync(self) -> None:
        self._disk.begin(SYNC, self.path)
        self._file.sync()

    def truncate(self, size: int) -> None:
        self._disk.begin("truncate", self.path)
        before = self._file.size
        self._file.truncate(size)
        self._disk.give_space(before - size)

    def allocate(self, size: int) -> None:
        before = self._file.size
        self._disk.begin("append", self.path)
        self._disk.use_space(size - before, self.path)
        self._file.allocate(size)
        self._disk.give_space(before - size)

    @property
    def is_pinned(self) -> bool:
        return self._file.is_pinned

    def pin(self) -> None:
        self._file.pin()

    def unpin(self) -> None:
        self._file.unpin()

    def close(self) -> None:
        self._file.close()


class FaultyFixedFile:
    """`FixedFile` of such a disk."""

    __slots__ = ("_disk", "_file", "path", "size")

    def __init__(self, disk: FaultyFiles, file: FixedFile) -> None:
        self.path = file.path
        self.size = file.size
        self._disk = disk
        self._file = file

    def write(self, position: int, data: Buffer) -> None:
        self._disk.begin("write", self.path)
        self._file.write(position, data)

    def read(self, position: int, size: int) -> Buffer:
        self._disk.begin(READ, self.path)
        return self._file.read(position, size)

    def sync(self) -> None:
        self._disk.begin(SYNC, self.path)
        self._file.sync()

    def close(self) -> None:
        self._file.close()


def _size_of(path: str) -> int:
    """The bytes of all files below a folder."""
    with os.scandir(path) as entries:
        return sum(
            _size_of(each.path) if each.is_dir(follow_symlinks=False) else each.stat(follow_symlinks=False).st_size
            for each in entries
        )
