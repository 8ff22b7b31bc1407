"""`MemoryDisk`: a disk without files, for durability `memory` and for tests."""

import asyncio
import errno
import os
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from eosin.storage.disk.interfaces import Buffer, File, FixedFile, FreeBytes, Lock, WholeSync
from eosin.storage.disk.open_files import OpenFiles

_P = ParamSpec("_P")
_T = TypeVar("_T")


class MemoryFile:
    """`File` in memory."""

    __slots__ = ("content", "path")

    def __init__(self, path: str, content: bytearray) -> None:
        self.path = path
        self.content = content

    @property
    def size(self) -> int:
        return len(self.content)

    @size.setter
    def size(self, size: int) -> None:
        raise AttributeError("the size of a file follows from its content")

    def append(self, buffers: Sequence[Buffer]) -> None:
        for buffer in buffers:
            self.content += buffer

    def read(self, position: int, size: int) -> Buffer:
        return bytes(self.content[position : position + size])

    def read_now(self, position: int, size: int) -> Buffer | None:
        return bytes(self.content[position : position + size])

    def send(self, descriptor: int, position: int, size: int) -> int | None:
        with memoryview(self.content) as content, content[position : position + size] as wanted:
            return os.write(descriptor, wanted)

    def sync(self) -> None:
        """Nothing is more durable than it was."""

    def write(self, position: int, data: Buffer) -> None:
        self.content[position : position + len(data)] = data

    def truncate(self, size: int) -> None:
        del self.content[size:]

    def allocate(self, size: int) -> None:
        self.truncate(size)
        self.content.extend(bytes(size - len(self.content)))

    @property
    def is_pinned(self) -> bool:
        return False

    def pin(self) -> None:
        """There is no descriptor."""

    def unpin(self) -> None:
        """There is no descriptor."""

    def close(self) -> None:
        """There is no descriptor."""


class MemoryLock:
    """A lock without other holders."""

    def release(self) -> None:
        """There is nothing to release."""


class MemoryDisk:
    """`Disk` in memory. Starts empty; nothing blocks, nothing runs elsewhere but what computes."""

    volatile = True

    def __init__(self, now_ms: Callable[[], int] = lambda: 0, *, has_threads: bool = False) -> None:
        """`now_ms` gives the times for `modified_ms`; `has_threads`: what computes long does so in a thread."""
        self._has_threads = has_threads
        self.open_files = OpenFiles()
        self._now_ms = now_ms
        self._files: dict[str, bytearray] = {}
        self._modified: dict[str, int] = {}
        self._directories: dict[str, None] = {}

    def open(self, path: str, *, create: bool = False) -> File:
        if path not in self._files:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self._put(path, bytearray())
        return MemoryFile(path, self._files[path])

    def _put(self, path: str, content: bytearray) -> None:
        parent = path.rpartition("/")[0]
        if parent and parent not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", parent)
        self._files[path] = content
        self._modified[path] = self._now_ms()

    def preallocate(self, path: str, size: int) -> None:
        self._put(path, bytearray(size))

    def open_fixed(self, path: str) -> FixedFile:
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return MemoryFile(path, self._files[path])

    def read_whole(self, path: str) -> bytes:
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return bytes(self._files[path])

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self._put(path, bytearray(data))

    def sync_file(self, path: str) -> None:
        """Nothing is more durable than it was."""

    def sync_directory(self, path: str) -> None:
        """Nothing is more durable than it was."""

    def whole_sync(self, path: str) -> WholeSync | None:
        return None

    def rename(self, old: str, new: str) -> None:
        if old not in self._files and old not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", old)
        for table in (self._files, self._directories, self._modified):
            _rename_keys(table, old, new)

    def unlink(self, path: str) -> None:
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        del self._files[path]
        self._modified.pop(path, None)

    def make_directory(self, path: str) -> None:
        while path:
            self._directories[path] = None
            path = path.rpartition("/")[0]

    def remove_tree(self, path: str) -> None:
        tables: tuple[dict[str, Any], ...] = (self._files, self._directories, self._modified)
        for table in tables:
            for key in [key for key in table if key == path or key.startswith(path + "/")]:
                del table[key]

    def list(self, path: str) -> list[str]:
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        prefix = path + "/"
        names = [key[len(prefix) :] for key in (*self._files, *self._directories) if key.startswith(prefix)]
        return sorted(name for name in names if "/" not in name)

    def is_directory(self, path: str) -> bool:
        return path in self._directories

    def size(self, path: str) -> int | None:
        content = self._files.get(path)
        return None if content is None else len(content)

    def modified_ms(self, path: str) -> int:
        return self._modified[path]

    def identity(self, path: str) -> str:
        return ""

    def free_bytes(self, path: str) -> FreeBytes | None:
        return None

    def lock(self, path: str) -> Lock:
        return MemoryLock()

    async def off_loop(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return function(*args, **kwargs)

    async def compute(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        if self._has_threads:
            return await asyncio.to_thread(function, *args, **kwargs)
        return await self.off_loop(function, *args, **kwargs)


def _rename_keys(table: dict[str, Any], old: str, new: str) -> None:
    for key in [key for key in table if key == old or key.startswith(old + "/")]:
        table[new + key[len(old) :]] = table.pop(key)
