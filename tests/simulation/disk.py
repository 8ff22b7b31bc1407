"""The disk of a simulated machine: it keeps what was synced, and of the rest what chance leaves.

Always true:
- Without a fault it behaves as a disk does.
- `killed` is the disk after kill -9: everything that was written is there, unless a failed sync has lost it.
- `power_loss` keeps what was synced. Of each file it keeps, besides, some beginning of what was appended since, perhaps
  with holes; of each directory some beginning of what was done to its names. Each file and directory has its own luck,
  so that what was done first may be what is lost.
- Once the process has ended no call of it changes anything: they raise `Killed`.
"""

import asyncio
import errno
import random
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from eosin.storage.disk.interfaces import File, FixedFile, FreeBytes, Lock, WholeSync
from eosin.storage.disk.memory import MemoryLock
from eosin.storage.disk.open_files import OpenFiles
from simulation.files import Directory, Inode, SimulatedFile, SimulatedFixedFile
from simulation.loop import Killed

_P = ParamSpec("_P")
_T = TypeVar("_T")


class SimulatedDisk:
    """`Disk` with faults."""

    volatile = False

    def __init__(self, chance: random.Random, now_ms: Callable[[], int], root: Directory | None = None) -> None:
        self.open_files = OpenFiles()
        self.chance = chance
        self.now_ms = now_ms
        self.calls = 0
        """Calls that have changed or synced something."""
        self.calls_left: int | None = None
        """How many more of them there will be; the one after stops the process, an append half-way."""
        self.on_stop: Callable[[], None] = lambda: None
        """Called when `calls_left` has run out."""
        self.failing: dict[tuple[str, str], int] = {}
        """(call, part of a path) to the error it meets, until it is taken out."""
        self.space: int | None = None
        """Bytes that are left."""
        self.total: int | None = None
        """How large it is, if it tells: what is deleted makes room then, and it is as full for the next process."""
        self.cold = 0.0
        """How likely a read has to wait for the device."""
        self.cold_work_ms = 0.0
        """How long work off the loop takes at most, before and after it happens."""
        self._root = root or Directory()
        self.is_stopped = False
        self._directories: dict[str, Directory] = {}
        self._index("", self._root)

    def _index(self, path: str, directory: Directory) -> None:
        self._directories[path] = directory
        for name, entry in directory.entries.items():
            if isinstance(entry, Directory):
                self._index(f"{path}/{name}" if path else name, entry)

    # Faults ---------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """The process has ended."""
        self.is_stopped = True

    def changes(self, call: str, path: str) -> bool:
        """Count a call that changes or syncs something; whether it is the last one, which happens by half. Raises
        OSError if it meets a fault."""
        if self.is_stopped:
            raise Killed
        self.calls += 1
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                return True
        self.meets(call, path)
        return False

    def meets(self, call: str, path: str) -> None:
        """Raises OSError if a call meets a fault."""
        if self.failing:
            for (failing, part), error in self.failing.items():
                if failing == call and part in path:
                    raise OSError(error, "injected", path)

    def take_space(self, size: int, path: str) -> None:
        """Have a file grow. Raises OSError if there is no room."""
        if self.space is None:
            return
        if self.space < size:
            self.space = 0 if self.total is None else self.space
            raise OSError(errno.ENOSPC, "no space left", path)
        self.space -= size

    def give_space(self, size: int) -> None:
        """A file has shrunk, or is gone."""
        if self.space is not None and self.total is not None:
            self.space += max(0, size)

    def die(self) -> Killed:
        """The process ends here."""
        self.is_stopped = True
        self.on_stop()
        return Killed()

    def _change(self, call: str, path: str) -> None:
        if self.changes(call, path):
            raise self.die()

    def killed(self) -> "SimulatedDisk":
        """The disk as the next process finds it."""
        return self._after(self._root.killed(self.chance))

    def power_loss(self) -> "SimulatedDisk":
        """The disk as it is when the power is back."""
        return self._after(self._root.power_loss(self.chance))

    def replaced(self) -> "SimulatedDisk":
        """An empty one in its place."""
        return self._after(Directory())

    def _after(self, root: Directory) -> "SimulatedDisk":
        after = SimulatedDisk(self.chance, self.now_ms, root)
        after.cold, after.cold_work_ms = self.cold, self.cold_work_ms
        if self.total is not None:
            after.space, after.total = self.space, self.total
        return after

    # Disk -----------------------------------------------------------------------------------------------------------

    def _find(self, path: str) -> tuple[Directory, str]:
        if self.is_stopped:
            raise Killed
        parent, _, name = path.rpartition("/")
        directory = self._directories.get(parent)
        if directory is None:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        return directory, name

    def _file(self, path: str) -> Inode:
        directory, name = self._find(path)
        entry = directory.entries.get(name)
        if not isinstance(entry, Inode):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return entry

    def open(self, path: str, *, create: bool = False) -> File:
        directory, name = self._find(path)
        entry = directory.entries.get(name)
        if entry is None and create:
            self._change("create", path)
            if self.space is not None and self.space <= 0:
                raise OSError(errno.ENOSPC, "no space left", path)
            entry = Inode(self.now_ms())
            directory.link(name, entry)
        if not isinstance(entry, Inode):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return SimulatedFile(self, path, entry)

    def preallocate(self, path: str, size: int) -> None:
        directory, name = self._find(path)
        if name in directory.entries:
            directory.unlink(name)
        file = self.open(path, create=True)
        try:
            file.append([bytes(size)])
            file.sync()
        except OSError:
            directory.unlink(name)
            raise

    def open_fixed(self, path: str) -> FixedFile:
        return SimulatedFixedFile(self, path, self._file(path))

    def read_whole(self, path: str) -> bytes:
        self.meets("read", path)
        return bytes(self._file(path).content)

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        temporary = path + ".tmp"
        directory, name = self._find(temporary)
        if name in directory.entries:
            directory.unlink(name)
        self.open(temporary, create=True).append([data])
        if durable:
            self.sync_file(temporary)
        self.rename(temporary, path)
        if durable:
            self.sync_directory(path.rpartition("/")[0])

    def sync_file(self, path: str) -> None:
        inode = self._file(path)
        SimulatedFile(self, path, inode).sync()

    def sync_directory(self, path: str) -> None:
        directory = self._directories.get(path)
        if directory is None or self.is_stopped:
            self._find(path + "/")
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        self._change("sync_directory", path)
        directory.sync()

    def whole_sync(self, path: str) -> WholeSync | None:
        return None

    def rename(self, old: str, new: str) -> None:
        directory, name = self._find(old)
        target, new_name = self._find(new)
        assert target is directory, "nobody moves files to other directories"
        entry = directory.entries.get(name)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", old)
        self._change("rename", new)
        directory.rename(name, new_name)
        if isinstance(entry, Directory):
            for path in [path for path in self._directories if path == old or path.startswith(old + "/")]:
                self._directories[new + path[len(old) :]] = self._directories.pop(path)

    def unlink(self, path: str) -> None:
        directory, name = self._find(path)
        size = len(self._file(path).content)
        self._change("unlink", path)
        directory.unlink(name)
        self.give_space(size)

    def make_directory(self, path: str) -> None:
        if path in self._directories:
            return
        parent = path.rpartition("/")[0]
        if parent:
            self.make_directory(parent)
        directory, name = self._find(path)
        self._change("make_directory", path)
        made = Directory()
        directory.link(name, made)
        self._directories[path] = made
        if not parent:
            directory.sync()  # the root is given

    def remove_tree(self, path: str) -> None:
        if path not in self._directories:
            return
        directory, name = self._find(path)
        self._change("remove_tree", path)
        self.give_space(_size_of(self._directories[path]))
        directory.unlink(name)
        for gone in [each for each in self._directories if each == path or each.startswith(path + "/")]:
            del self._directories[gone]

    def list(self, path: str) -> list[str]:
        directory = self._directories.get(path)
        if directory is None:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        return sorted(directory.entries)

    def is_directory(self, path: str) -> bool:
        return path in self._directories

    def size(self, path: str) -> int | None:
        try:
            return len(self._file(path).content)
        except FileNotFoundError:
            return None

    def modified_ms(self, path: str) -> int:
        return self._file(path).modified_ms

    def identity(self, path: str) -> str:
        return ""

    def free_bytes(self, path: str) -> FreeBytes | None:
        return None if self.total is None else FreeBytes(self.total if self.space is None else self.space, self.total)

    def lock(self, path: str) -> Lock:
        return MemoryLock()

    async def off_loop(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """The work happens in one piece, some time after it was asked for; its result comes some time later."""
        await self._wait()
        try:
            result = function(*args, **kwargs)
        except Exception:
            await self._wait()
            raise
        await self._wait()
        return result

    async def compute(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await self.off_loop(function, *args, **kwargs)

    async def _wait(self) -> None:
        if self.cold_work_ms:
            await asyncio.sleep(self.chance.random() * self.cold_work_ms / 1000)


def _size_of(directory: Directory) -> int:
    """The bytes of all files in it."""
    return sum(
        _size_of(entry) if isinstance(entry, Directory) else len(entry.content) for entry in directory.entries.values()
    )
