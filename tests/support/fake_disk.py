"""A disk that lies on purpose: it tears writes, forgets what was not synced, fills up, fails, and stops at call N.

Always true: without a fault it behaves as a disk does; `power_loss` keeps what was synced under names that were synced,
plus whatever the generator lets survive of the rest; `killed` keeps everything that was written.
"""

import errno
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from eosin.storage.disk.interfaces import Buffer, File, FixedFile, FreeBytes, Lock, TornWrite, WholeSync
from eosin.storage.disk.memory import MemoryLock
from eosin.storage.disk.open_files import OpenFiles

_P = ParamSpec("_P")
_T = TypeVar("_T")

SECTOR_BYTES = 512


class Stopped(BaseException):
    """The machine has stopped. Not an Exception, so that no handler of errors hides it."""


@dataclass
class Fault:
    """A call that fails: the next `times` calls of `call` on a path that contains `path`."""

    call: str
    error: int
    path: str = ""
    times: int = 1
    written: int = 0
    """Bytes that an append writes before it fails."""
    torn: bool = False
    """True if these bytes cannot be taken back."""


class Inode:
    """The content of a file, and as much of it as would survive."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.synced = b""
        self.modified_ms = 0


class FakeFile:
    """`File` on an inode."""

    def __init__(self, disk: "FakeDisk", path: str, inode: Inode) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode
        self.size = len(inode.content)
        self.pins = 0

    def append(self, buffers: Sequence[Buffer]) -> None:
        data = b"".join(buffers)
        fault = self._disk.called("append", self.path, data)
        room = len(data) if self._disk.space is None else min(len(data), self._disk.space)
        if fault is None and room == len(data):
            self._inode.content += data
            self._disk.used(self._inode, len(data))
            self.size += len(data)
            return
        if fault is None:
            raise OSError(errno.ENOSPC, "no space left", self.path)
        if fault.torn:
            self._inode.content += data[: fault.written]
            raise TornWrite(fault.error, "torn write", self.path)
        raise OSError(fault.error, "failed write", self.path)

    def read(self, position: int, size: int) -> Buffer:
        self._disk.fail("read", self.path)
        return bytes(self._inode.content[position : position + size])

    def read_now(self, position: int, size: int) -> Buffer | None:
        if self._disk.cold:
            return None
        return self.read(position, size)

    def send(self, descriptor: int, position: int, size: int) -> int | None:
        data = self.read_now(position, size)
        return None if data is None else os.write(descriptor, data)

    def sync(self) -> None:
        self._disk.fail("sync", self.path)
        self._inode.synced = bytes(self._inode.content)

    def truncate(self, size: int) -> None:
        self._disk.fail("truncate", self.path)
        self._disk.freed(len(self._inode.content[size:]))
        del self._inode.content[size:]
        self._inode.content.extend(bytes(size - len(self._inode.content)))
        self.size = size

    def allocate(self, size: int) -> None:
        if size > self.size:
            self.append([bytes(size - self.size)])
        self.truncate(size)

    @property
    def is_pinned(self) -> bool:
        return self.pins > 0

    def pin(self) -> None:
        self.pins += 1

    def unpin(self) -> None:
        self.pins -= 1

    def close(self) -> None:
        """There is no descriptor."""


class FakeWholeSync:
    """`WholeSync` of a fake disk."""

    def __init__(self, disk: "FakeDisk") -> None:
        self._disk = disk

    def run(self) -> None:
        self._disk.fail("whole_sync", "")
        self._disk.sync_everything()

    def waiting_bytes(self) -> int:
        return self._disk.waiting_bytes

    def close(self) -> None:
        """There is no descriptor."""


class FakeFixedFile:
    """`FixedFile` on an inode."""

    def __init__(self, disk: "FakeDisk", path: str, inode: Inode) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode
        self.size = len(inode.content)

    def write(self, position: int, data: Buffer) -> None:
        assert position + len(data) <= self.size, "its size never changes"
        fault = self._disk.called("write", self.path, bytes(data), position)
        written = len(data) if fault is None else fault.written
        self._inode.content[position : position + written] = data[:written]
        if fault is not None:
            raise OSError(fault.error, "failed write", self.path)

    def read(self, position: int, size: int) -> Buffer:
        self._disk.fail("read", self.path)
        return bytes(self._inode.content[position : position + size])

    def sync(self) -> None:
        self._disk.fail("sync", self.path)
        self._inode.synced = bytes(self._inode.content)

    def close(self) -> None:
        """There is no descriptor."""


class FakeDisk:
    """`Disk` with faults."""

    volatile = False

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self._now_ms = now_ms
        self.open_files = OpenFiles()
        self._files: dict[str, Inode] = {}
        self._directories: dict[str, None] = {}
        self._synced_names: dict[str, Inode] = {}
        self._synced_directories: dict[str, None] = {}
        self.faults: list[Fault] = []
        self.calls: list[tuple[str, str]] = []
        """Every call that changes or syncs something."""
        self.stop_at: int | None = None
        """The number of such calls that succeed; the next one stops the machine, an append half-way."""
        self.space: int | None = None
        """Bytes that are left; None if nobody counts them."""
        self.total = 2**40
        """Bytes in all, as far as it is told."""
        self.copied = ""
        """The mark that tells the files of this disk from the originals of its copies."""
        self.syncs_as_a_whole = False
        """True if there is `whole_sync`."""
        self.waiting_bytes = 0
        """The bytes that others have written and not synced, as far as known."""
        self.cold = False
        """True if no read can be answered from the cache."""

    # Faults

    def called(self, call: str, path: str, data: bytes = b"", position: int = 0) -> Fault | None:
        """Count a call; the fault that it meets, if any."""
        if self.stop_at is not None and len(self.calls) >= self.stop_at:
            if call == "append" and len(self.calls) == self.stop_at:
                self.calls.append((call, path))
                self._files[path].content += data[: len(data) // 2]
            if call == "write" and len(self.calls) == self.stop_at:
                self.calls.append((call, path))
                self._files[path].content[position : position + len(data) // 2] = data[: len(data) // 2]
            raise Stopped
        self.calls.append((call, path))
        for fault in self.faults:
            if fault.call == call and fault.path in path:
                fault.times -= 1
                if not fault.times:
                    self.faults.remove(fault)
                return fault
        return None

    def fail(self, call: str, path: str) -> None:
        """Count a call that either works or does not."""
        if call == "read":
            fault = next((fault for fault in self.faults if fault.call == "read" and fault.path in path), None)
        else:
            fault = self.called(call, path)
        if fault is not None:
            raise OSError(fault.error, "injected", path)

    def used(self, inode: Inode, size: int) -> None:
        """Account for `size` more bytes."""
        inode.modified_ms = self._now_ms()
        if self.space is not None:
            self.space -= size

    def freed(self, size: int) -> None:
        """Account for `size` bytes that are not used any more."""
        if self.space is not None:
            self.space += size

    def _remove(self, path: str) -> None:
        if path in self._files:
            self.freed(len(self._files.pop(path).content))

    def count(self, call: str, path: str = "") -> int:
        """The number of times that `call` was made on a path that contains `path`."""
        return sum(1 for made, where in self.calls if made == call and path in where)

    def killed(self) -> "FakeDisk":
        """The disk as the next process finds it after kill -9."""
        after = FakeDisk(self._now_ms)
        for path, inode in self._files.items():
            after._put(path, bytes(inode.content))
        after._directories = dict(self._directories)
        after._synced_directories = dict(self._directories)
        return after

    def power_loss(self, chance: random.Random | None = None) -> "FakeDisk":
        """The disk after the power went: what was synced, and by chance more of what was not."""
        after = FakeDisk(self._now_ms)
        lucky = chance is not None and chance.random() < 0.5
        names = dict(self._synced_names)
        if lucky:
            names |= self._files
        after._directories = dict(self._directories if lucky else self._synced_directories)
        after._synced_directories = dict(after._directories)
        for path, inode in names.items():
            if path.rpartition("/")[0] in after._directories:
                after._put(path, _surviving(inode, chance))
        return after

    def _put(self, path: str, content: bytes) -> None:
        inode = Inode()
        inode.content += content
        inode.synced = content
        inode.modified_ms = self._now_ms()
        self._files[path] = self._synced_names[path] = inode

    # Disk

    def open(self, path: str, *, create: bool = False) -> File:
        if path not in self._files:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            if path.rpartition("/")[0] not in self._directories:
                raise FileNotFoundError(errno.ENOENT, "no such directory", path)
            self.fail("create", path)
            if self.space == 0:
                raise OSError(errno.ENOSPC, "no space left", path)
            self._files[path] = Inode()
        return FakeFile(self, path, self._files[path])

    def preallocate(self, path: str, size: int) -> None:
        self._files.pop(path, None)
        file = self.open(path, create=True)
        try:
            file.append([bytes(size)])
        except OSError:
            self.unlink(path)
            raise
        file.sync()

    def open_fixed(self, path: str) -> FixedFile:
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        self.fail("open_fixed", path)
        return FakeFixedFile(self, path, self._files[path])

    def read_whole(self, path: str) -> bytes:
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return bytes(self._files[path].content)

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        temporary = path + ".tmp"
        self._remove(temporary)
        try:
            file = self.open(temporary, create=True)
            file.append([data])
            if durable:
                self.sync_file(temporary)
            self.rename(temporary, path)
        except OSError:
            self._remove(temporary)
            raise
        if durable:
            self.sync_directory(path.rpartition("/")[0])

    def sync_file(self, path: str) -> None:
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        self.fail("sync_file", path)
        self._files[path].synced = bytes(self._files[path].content)

    def sync_everything(self) -> None:
        """All that was written or named is durable."""
        for inode in self._files.values():
            inode.synced = bytes(inode.content)
        self._synced_names = dict(self._files)
        self._synced_directories = dict(self._directories)

    def sync_directory(self, path: str) -> None:
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        self.fail("sync_directory", path)
        for name in [name for name in self._synced_names if name.rpartition("/")[0] == path]:
            del self._synced_names[name]
        for name, inode in self._files.items():
            if name.rpartition("/")[0] == path:
                self._synced_names[name] = inode
        for name in self._directories:
            if name.rpartition("/")[0] == path:
                self._synced_directories[name] = None

    def whole_sync(self, path: str) -> WholeSync | None:
        return FakeWholeSync(self) if self.syncs_as_a_whole else None

    def rename(self, old: str, new: str) -> None:
        if old in self._files:
            self.fail("rename", new)
            if new != old:
                self._remove(new)
            self._files[new] = self._files.pop(old)
            return
        if old not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", old)
        self.fail("rename", new)
        tables: tuple[dict[str, Any], ...] = (
            self._files,
            self._directories,
            self._synced_names,
            self._synced_directories,
        )
        for table in tables:
            for key in [key for key in table if key == old or key.startswith(old + "/")]:
                table[new + key[len(old) :]] = table.pop(key)

    def unlink(self, path: str) -> None:
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        self.fail("unlink", path)
        self._remove(path)

    def make_directory(self, path: str) -> None:
        while path and path not in self._directories:
            self.fail("make_directory", path)
            self._directories[path] = None
            if "/" not in path.strip("/"):
                self._synced_directories[path] = None  # the root is given
            path = path.rpartition("/")[0]

    def remove_tree(self, path: str) -> None:
        for name in [name for name in self._files if name == path or name.startswith(path + "/")]:
            self._remove(name)
        for name in [name for name in self._directories if name == path or name.startswith(path + "/")]:
            del self._directories[name]

    def list(self, path: str) -> list[str]:
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        prefix = path + "/"
        names = [key[len(prefix) :] for key in (*self._files, *self._directories) if key.startswith(prefix)]
        return sorted(name for name in names if "/" not in name)

    def is_directory(self, path: str) -> bool:
        return path in self._directories

    def size(self, path: str) -> int | None:
        return len(self._files[path].content) if path in self._files else None

    def modified_ms(self, path: str) -> int:
        return self._files[path].modified_ms

    def identity(self, path: str) -> str:
        return self.copied

    def free_bytes(self, path: str) -> FreeBytes | None:
        return None if self.space is None else FreeBytes(self.space, self.total)

    def lock(self, path: str) -> Lock:
        return MemoryLock()

    async def off_loop(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return function(*args, **kwargs)

    async def compute(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return function(*args, **kwargs)

    # What tests look at or spoil

    def paths(self) -> Sequence[str]:
        """Every file, in order."""
        return sorted(self._files)

    def replace(self, path: str, position: int, data: bytes) -> None:
        """Write over what a file holds."""
        self._files[path].content[position : position + len(data)] = data

    def damage(self, path: str, position: int) -> None:
        """Flip the bits of one byte."""
        self._files[path].content[position] ^= 0xFF

    def add_bytes(self, path: str, data: bytes) -> None:
        """Put bytes at the end of a file, as an interrupted write does."""
        self._files[path].content += data


def _surviving(inode: Inode, chance: random.Random | None) -> bytes:
    """The rest of a file after a crash: its synced content and, by chance, some of what was appended since."""
    content = bytes(inode.content)
    if chance is not None and len(content) == len(inode.synced):  # parts of it were written over
        sectors = range(0, len(content), SECTOR_BYTES)
        kept_new = [chance.random() < 0.5 for _ in sectors]
        return b"".join(
            (content if is_new else inode.synced)[start : start + SECTOR_BYTES]
            for start, is_new in zip(sectors, kept_new, strict=True)
        )
    if chance is None or not content.startswith(inode.synced):
        return inode.synced
    tail = content[len(inode.synced) :]
    kept = tail[: chance.randint(0, len(tail))]
    if kept and chance.random() < 0.3:  # the size was written, the data was not: disks lose writes by sectors
        middle = len(inode.synced) + len(kept) // 2
        lost = max(middle - middle % SECTOR_BYTES - len(inode.synced), 0)
        kept = kept[:lost] + bytes(len(kept) - lost)
    return inode.synced + kept
