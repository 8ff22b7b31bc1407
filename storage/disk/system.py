"""The only opener of files: `SystemDisk`, on the operating system's files, and `ReadOnlyDisk`, for looking at them.

`interfaces.py` has the promises; `MemoryDisk` keeps the same ones without files. Where a system has no
`writev`, `preadv` or `fdatasync` (Windows), plainer calls stand in.
"""

import asyncio
import contextlib
import errno
import os
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NoReturn, ParamSpec, TypeVar

import aiofiles.os

from eosin.runtime.clock import NS_PER_MS, pause
from eosin.storage.disk.interfaces import (
    LACKING_DESCRIPTORS,
    Buffer,
    DirectoryInUse,
    Disk,
    File,
    FixedFile,
    FreeBytes,
    Lock,
    TornWrite,
    UnusableDirectory,
    WholeSync,
)
from eosin.storage.disk.memory import MemoryDisk, MemoryLock
from eosin.storage.disk.open_files import OpenFiles

__all__ = [
    "Buffer",
    "DirectoryInUse",
    "Disk",
    "File",
    "FixedFile",
    "Lock",
    "MemoryDisk",
    "ReadOnlyDisk",
    "SystemDisk",
    "TornWrite",
    "UnusableDirectory",
]

_P = ParamSpec("_P")
_T = TypeVar("_T")

_NO_WAIT_UNSUPPORTED: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
_NO_FALLOCATE: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
_SYNCED_AS_A_WHOLE: Final = frozenset({"ext4", "xfs", "btrfs", "tmpfs"})
"""File systems whose syncfs(2) does what fsync(2) of every file and directory does. FUSE's, for one, does nothing."""
_ZEROS_BYTES: Final = 1024 * 1024
_PROBABLY_CACHED_BYTES: Final = 16 * 1024 * 1024
"""The bytes at a file's end that are taken to be in the cache, if the system cannot say whether a read would block."""

_RETRY_MS: Final = 20
_RETRIES: Final = 50
"""A thread that finds no descriptor waits this long for one, and this often."""
_PROBE_BYTES: Final = 64 * 1024
"""Distance between the bytes that are looked at before a file is sent."""

_writev: Callable[[int, Sequence[Buffer]], int] | None = getattr(os, "writev", None)
_preadv = getattr(os, "preadv", None)
_pread = getattr(os, "pread", None)
_pwrite: Callable[[int, Buffer, int], int] | None = getattr(os, "pwrite", None)
_NO_WAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)
_posix_fallocate: Callable[[int, int, int], None] | None = getattr(os, "posix_fallocate", None)
_fdatasync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


class SystemFile:
    """`File` on a descriptor of the operating system."""

    __slots__ = ("_closing", "_descriptor", "_pins", "_read_lock", "path", "size")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.size = os.fstat(descriptor).st_size
        self._descriptor = descriptor
        self._pins = 0
        self._closing = False
        self._read_lock = threading.Lock() if _pread is None else None

    def append(self, buffers: Sequence[Buffer]) -> None:
        total = 0
        for buffer in buffers:
            total += len(buffer)
        write = _writev or _write_joined
        try:
            written = write(self._descriptor, buffers)
            while written < total:  # a short write: the rest meets the reason for it
                written += write(self._descriptor, _after(buffers, written))
        except OSError as error:
            self._undo_write(error)
            raise
        self.size += total

    def _undo_write(self, error: OSError) -> None:
        try:
            os.ftruncate(self._descriptor, self.size)
        except OSError as second:
            raise TornWrite(
                second.errno, f"cannot take back a partial write after {error}: {second}", self.path
            ) from error

    def read(self, position: int, size: int) -> Buffer:
        if _pread is not None:
            data: bytes = _pread(self._descriptor, size, position)
            return data
        assert self._read_lock is not None
        with self._read_lock:
            os.lseek(self._descriptor, position, os.SEEK_SET)
            return os.read(self._descriptor, size)

    def read_now(self, position: int, size: int) -> Buffer | None:
        if _NO_WAIT and _preadv is not None:
            buffer = bytearray(size)
            try:
                count = _preadv(self._descriptor, (buffer,), position, _NO_WAIT)
            except BlockingIOError:
                return None
            except OSError as error:
                if error.errno not in _NO_WAIT_UNSUPPORTED:
                    raise
            else:
                if count < size and position + count < self.size:
                    return None
                del buffer[count:]
                return buffer
        return self.read(position, size) if position >= self.size - _PROBABLY_CACHED_BYTES else None

    def send(self, descriptor: int, position: int, size: int) -> int | None:
        if not self._is_cached(position, size):
            return None
        return os.sendfile(descriptor, self._descriptor, position, size)

    def _is_cached(self, position: int, size: int) -> bool:
        """True if these bytes are most probably in the page cache, which gains and loses pages in longer runs."""
        if not _NO_WAIT or _preadv is None:
            return position >= self.size - _PROBABLY_CACHED_BYTES
        last = position + size - 1
        try:
            for at in (*range(position, last, _PROBE_BYTES), last):
                _preadv(self._descriptor, (bytearray(1),), at, _NO_WAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in _NO_WAIT_UNSUPPORTED:
                raise
            return position >= self.size - _PROBABLY_CACHED_BYTES
        return True

    def sync(self) -> None:
        _fdatasync(self._descriptor)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self.size = size

    def allocate(self, size: int) -> None:
        if size > self.size:
            self._hold_room(size)
        os.ftruncate(self._descriptor, size)
        self.size = size

    def _hold_room(self, size: int) -> None:
        if _posix_fallocate is not None:
            try:
                _posix_fallocate(self._descriptor, 0, size)
                return
            except OSError as error:
                if error.errno not in _NO_FALLOCATE:
                    raise
        while self.size < size:  # written bytes have their room too
            self.append([bytes(min(size - self.size, _ZEROS_BYTES))])

    @property
    def is_pinned(self) -> bool:
        return self._pins > 0

    def pin(self) -> None:
        self._pins += 1

    def unpin(self) -> None:
        self._pins -= 1
        if self._closing:
            self.close()

    def close(self) -> None:
        self._closing = True
        if not self._pins and self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _write_joined(descriptor: int, buffers: Sequence[Buffer]) -> int:
    """Write at the end (the descriptor is in append mode); how many bytes were taken."""
    return os.write(descriptor, b"".join(buffers))


def _after(buffers: Sequence[Buffer], skip: int) -> list[Buffer]:
    """The rest of `buffers` after the first `skip` bytes."""
    left: list[Buffer] = []
    for buffer in buffers:
        if skip < len(buffer):
            left.append(memoryview(buffer)[skip:])
            skip = 0
        else:
            skip -= len(buffer)
    return left


class SystemFixedFile:
    """`FixedFile` on a descriptor of the operating system."""

    __slots__ = ("_descriptor", "_lock", "path", "size")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.size = os.fstat(descriptor).st_size
        self._descriptor = descriptor
        self._lock = threading.Lock() if _pwrite is None else None

    def write(self, position: int, data: Buffer) -> None:
        assert position + len(data) <= self.size, "its size never changes"
        written = self._write_at(position, data)
        while written < len(data):
            written += self._write_at(position + written, memoryview(data)[written:])

    def _write_at(self, position: int, data: Buffer) -> int:
        if _pwrite is not None:
            return _pwrite(self._descriptor, data, position)
        assert self._lock is not None
        with self._lock:
            os.lseek(self._descriptor, position, os.SEEK_SET)
            return os.write(self._descriptor, data)

    def read(self, position: int, size: int) -> Buffer:
        if _pread is not None:
            data: bytes = _pread(self._descriptor, size, position)
            return data
        assert self._lock is not None
        with self._lock:
            os.lseek(self._descriptor, position, os.SEEK_SET)
            return os.read(self._descriptor, size)

    def sync(self) -> None:
        _fdatasync(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class SystemLock:
    """A lock on an open file: flock keeps out this program, the POSIX lock keeps out Apache Kafka."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class SystemWholeSync:
    """`WholeSync` by syncfs(2), which since Linux 5.8 reports every write that has failed since the descriptor was
    opened."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def run(self) -> None:
        import ctypes  # for this alone: most processes never need it

        if ctypes.CDLL(None, use_errno=True).syncfs(self._descriptor):
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))

    def waiting_bytes(self) -> int:
        """Of all file systems: Linux has no figure for one."""
        kibibytes = 0
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith(("Dirty:", "Writeback:")):
                    kibibytes += int(line.split()[1])
        return kibibytes * 1024

    def close(self) -> None:
        os.close(self._descriptor)


def _file_system(path: str) -> str | None:
    """The kind of file system that `path` is on, as Linux names it."""
    device = os.stat(path).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                mount, _, how = line.partition(" - ")
                if mount.split()[2] == wanted:
                    return how.split()[0]
    except (OSError, IndexError):
        pass
    return None


def _is_linux_since_5_8() -> bool:
    if sys.platform != "linux":
        return False
    numbers = os.uname().release.split(".")[:2]
    return all(number.isdecimal() for number in numbers) and [int(number) for number in numbers] >= [5, 8]


def _lock_descriptor(descriptor: int, *, shared: bool = False) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
        fcntl.flock(descriptor, how)
        fcntl.lockf(descriptor, how)


def _locked(path: str, descriptor: int, *, shared: bool = False) -> Lock:
    try:
        _lock_descriptor(descriptor, shared=shared)
    except OSError as error:
        os.close(descriptor)
        raise DirectoryInUse(f"another process holds {path}") from error
    return SystemLock(descriptor)


class SystemDisk:
    """`Disk` on the operating system's files."""

    volatile = False

    def __init__(self) -> None:
        self.open_files = OpenFiles()

    def _descriptor(self, path: str, flags: int, mode: int = 0o644) -> int:
        """A descriptor of `path`. In want of one, the event loop closes unused segments, and a thread waits
        for others to close theirs. Raises OSError."""
        return self._patiently(partial(os.open, path, flags, mode))

    def _patiently(self, call: Callable[[], _T]) -> _T:
        for _ in range(_RETRIES):
            try:
                return call()
            except OSError as error:
                if error.errno not in LACKING_DESCRIPTORS:
                    raise
            if _is_in_event_loop():
                self.open_files.make_room()
                break
            pause(_RETRY_MS)
        return call()

    def open(self, path: str, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0) | (os.O_CREAT if create else 0)
        return SystemFile(path, self._descriptor(path, flags))

    def preallocate(self, path: str, size: int) -> None:
        # Zeros are written rather than room reserved: the first write to reserved room changes the metadata
        # of the file, and a sync would then wait for that, too.
        try:
            with open(path, "wb", buffering=0, opener=self._descriptor) as file:
                zeros = memoryview(bytes(min(size, _ZEROS_BYTES)))
                left = size
                while left:
                    left -= file.write(zeros[:left])
                os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise

    def open_fixed(self, path: str) -> FixedFile:
        return SystemFixedFile(path, self._descriptor(path, os.O_RDWR | getattr(os, "O_BINARY", 0)))

    def read_whole(self, path: str) -> bytes:
        with open(path, "rb", opener=self._descriptor) as file:
            return file.read()

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        temporary = path + ".tmp"
        try:
            with open(temporary, "wb", buffering=0, opener=self._descriptor) as file:
                written = 0
                while written < len(data):
                    written += file.write(memoryview(data)[written:])
                if durable:
                    os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # on a full disk others need what it has taken
            raise
        if durable:
            self.sync_directory(os.path.dirname(path))

    def sync_file(self, path: str) -> None:
        descriptor = self._descriptor(path, os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_directory(self, path: str) -> None:
        if sys.platform == "win32":
            return  # names are the file system's journal's business there
        descriptor = self._descriptor(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def whole_sync(self, path: str) -> WholeSync | None:
        if not _is_linux_since_5_8() or _file_system(path) not in _SYNCED_AS_A_WHOLE:
            return None
        return SystemWholeSync(os.open(path, os.O_RDONLY))

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def remove_tree(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            for entry in self._patiently(lambda: list(os.scandir(path))):
                if entry.is_dir(follow_symlinks=False):
                    self.remove_tree(entry.path)
                else:
                    os.unlink(entry.path)
            os.rmdir(path)

    def list(self, path: str) -> list[str]:
        return sorted(self._patiently(lambda: os.listdir(path)))

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int | None:
        try:
            return os.stat(path).st_size
        except FileNotFoundError:
            return None

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // NS_PER_MS

    def identity(self, path: str) -> str:
        found = os.stat(path)
        # The change time of an inode cannot be set: copies and files from an archive have a time of their own.
        return f"{found.st_ino}-{found.st_ctime_ns}"

    def free_bytes(self, path: str) -> FreeBytes | None:
        usage = shutil.disk_usage(path)
        return FreeBytes(usage.free, usage.total)

    def lock(self, path: str) -> Lock:
        return _locked(path, os.open(path, os.O_RDWR | os.O_CREAT, 0o644))

    async def off_loop(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        run: Any = aiofiles.os.wrap(function)
        result: _T = await run(*args, **kwargs)
        return result

    async def compute(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await self.off_loop(function, *args, **kwargs)


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class ReadOnlyDisk(SystemDisk):
    """`Disk` through which nothing can be changed: for looking at directories, also those of a running broker."""

    def open(self, path: str, *, create: bool = False) -> File:
        if create:
            self._refuse(path)
        return SystemFile(path, os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0)))

    def lock(self, path: str) -> Lock:
        """Keep brokers out, but no other inspection. Without a lock file there has been no broker."""
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return MemoryLock()
        return _locked(path, descriptor, shared=True)

    def _refuse(self, path: str) -> NoReturn:
        raise OSError(errno.EROFS, "this is only being looked at", path)

    def preallocate(self, path: str, size: int) -> None:
        self._refuse(path)

    def open_fixed(self, path: str) -> FixedFile:
        return SystemFixedFile(path, os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0)))

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self._refuse(path)

    def rename(self, old: str, new: str) -> None:
        self._refuse(old)

    def unlink(self, path: str) -> None:
        self._refuse(path)

    def make_directory(self, path: str) -> None:
        self._refuse(path)

    def remove_tree(self, path: str) -> None:
        self._refuse(path)
