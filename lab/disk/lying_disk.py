"""`LyingDisk`: a disk in memory that lies on purpose. It tears writes, forgets what was not synced, fills up, fails,
and stops its process at call N.

Always true:
- Without a fault it behaves as a disk does.
- `killed` is the disk after kill -9: everything that was written is there, unless a failed sync has lost it.
- `power_loss` keeps what was synced, under names that were synced. With a generator it keeps, besides, of each file
  some beginning of what was appended since, perhaps with holes; of each directory some beginning of what was done to
  its names. Each file and directory has its own luck, so that what was done first may be what is lost.
- Once the process has ended no call of it changes anything: they raise `Stopped`.
"""

import asyncio
import errno
import random
from collections.abc import Callable, Sequence
from typing import Final, ParamSpec, Self, TypeVar

from eosin.lab.disk.faults import LASTING, Fault
from eosin.lab.disk.lying_files import Inode, LyingDirectory, LyingFile, LyingFixedFile, Stopped, sync
from eosin.storage.disk.interfaces import File, FixedFile, FreeBytes, Lock, WholeSync
from eosin.storage.disk.memory import MemoryLock
from eosin.storage.disk.open_files import OpenFiles

__all__ = ("LASTING", "Fault", "LyingDisk", "Stopped")

_P = ParamSpec("_P")
_T = TypeVar("_T")

UNTOLD_BYTES: Final = 1 << 40
"""The size of a disk whose room is counted, where nobody gave it one."""


class WholeDisk:
    """`WholeSync` of a lying disk."""

    def __init__(self, disk: "LyingDisk") -> None:
        self._disk = disk

    def run(self) -> None:
        self._disk.change("whole_sync", "")
        self._disk.sync_everything()

    def waiting_bytes(self) -> int:
        return self._disk.waiting_bytes

    def close(self) -> None:
        """There is no descriptor."""


class LyingDisk:
    """`Disk` with faults."""

    volatile = False

    def __init__(
        self,
        now_ms: Callable[[], int] = lambda: 0,
        *,
        chance: random.Random | None = None,
        sector_bytes: int = 512,
        root: LyingDirectory | None = None,
        top: str = "",
    ) -> None:
        """Without `chance` nothing happens by chance: half of a write is torn, and a loss of power takes all that it
        may. `sector_bytes` are written as a whole or not at all. `top` is a slash where paths begin with one."""
        self.open_files = OpenFiles()
        self.chance = chance
        self.now_ms = now_ms
        self.sector_bytes = sector_bytes
        self.calls: list[tuple[str, str]] = []
        """Every call that has changed or synced something."""
        self.stop_at: int | None = None
        """The number of such calls that succeed; the next one stops the process, a write half-way."""
        self.on_stop: Callable[[], None] = lambda: None
        """Called when the process is stopped so."""
        self.faults: list[Fault] = []
        self.forgets = chance is not None
        """True if a failed sync may have lost what was written."""
        self.space: int | None = None
        """Bytes that are left; None if nobody counts them."""
        self.total: int | None = None
        """The size of the disk, if it tells; it is as full for the next process then."""
        self.counts_room = True
        """True if what is deleted makes room, and the room is told."""
        self.cold = 0.0
        """The likelihood that a read has to wait for the device."""
        self.cold_work_ms = 0.0
        """The time that work off the loop takes at most, before and after it happens."""
        self.copied = ""
        """The mark that tells the files of this disk from the originals of its copies."""
        self.syncs_as_a_whole = False
        """True if there is `whole_sync`."""
        self.waiting_bytes = 0
        """The bytes that others have written and not synced, as far as known."""
        self._root = root or LyingDirectory()
        self._top = top
        self.is_stopped = False
        self._directories: dict[str, LyingDirectory] = {}
        self._index("", self._root)

    def _index(self, path: str, directory: LyingDirectory) -> None:
        self._directories[path] = directory
        for name, entry in directory.entries.items():
            if isinstance(entry, LyingDirectory):
                self._index(f"{path}/{name}" if path else f"{self._top}{name}", entry)

    # Faults ---------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """The process has ended."""
        self.is_stopped = True

    def stop_after(self, calls: int) -> None:
        """Let so many more calls succeed."""
        self.stop_at = len(self.calls) + calls

    def break_calls(self, call: str, path: str) -> None:
        """Have such calls fail until `faults` are cleared, and writes leave what chance has it."""
        calls = ("sync", "sync_file") if call == "sync" else (call,)
        self.faults += [Fault(each, errno.EIO, path, times=LASTING, written=None) for each in calls]

    def changes(self, call: str, path: str) -> bool:
        """Count a call that changes or syncs something; True if it is the last one, which happens by half."""
        if self.is_stopped:
            raise Stopped
        self.calls.append((call, path))
        return self.stop_at is not None and len(self.calls) > self.stop_at

    def fault(self, call: str, path: str) -> Fault | None:
        """The fault that a call meets."""
        for fault in self.faults:
            if fault.call == call and fault.is_on(path):
                if call != "read":
                    fault.times -= 1
                if not fault.times:
                    self.faults.remove(fault)
                return fault
        return None

    def meets(self, call: str, path: str) -> None:
        """Raises OSError if a call meets a fault."""
        if self.faults and (fault := self.fault(call, path)) is not None:
            raise fault.failure(path)

    def change(self, call: str, path: str) -> None:
        """Count a call that happens as a whole or not at all. Raises OSError if it meets a fault."""
        if self.changes(call, path):
            raise self.die()
        self.meets(call, path)

    def torn(self, size: int) -> int:
        """The bytes that are left of a write that is torn."""
        return size // 2 if self.chance is None else self.chance.randint(0, size)

    def waits(self) -> bool:
        """True if a read has to wait for the device."""
        return bool(self.cold) and (self.chance is None or self.chance.random() < self.cold)

    def use_space(self, size: int, path: str) -> None:
        """Have a file grow. Raises OSError if there is no room."""
        if self.space is None:
            return
        if self.space < size:
            self.space = self.space if self.counts_room else 0
            raise OSError(errno.ENOSPC, "no space left", path)
        self.space -= size

    def give_space(self, size: int) -> None:
        """A file has shrunk, or is gone."""
        if self.space is not None and self.counts_room:
            self.space += max(0, size)

    def die(self) -> Stopped:
        """The process ends here."""
        self.is_stopped = True
        self.on_stop()
        return Stopped()

    def count(self, call: str, path: str = "") -> int:
        """The number of times that `call` was made on a path that contains `path`."""
        return sum(1 for made, where in self.calls if made == call and path in where)

    def killed(self) -> Self:
        """The disk as the next process finds it."""
        return self._after(self._root.killed(self.chance))

    def power_loss(self, chance: random.Random | None = None) -> Self:
        """The disk as it is when the power is back; `chance` instead of its own."""
        return self._after(self._root.power_loss(chance or self.chance))

    def replaced(self) -> Self:
        """An empty one in its place."""
        return self._after(LyingDirectory())

    def _after(self, root: LyingDirectory) -> Self:
        after = type(self)(self.now_ms, chance=self.chance, sector_bytes=self.sector_bytes, root=root, top=self._top)
        after.cold, after.cold_work_ms, after.counts_room = self.cold, self.cold_work_ms, self.counts_room
        if self.total is not None:
            after.space, after.total = self.space, self.total
        return after

    # What tests look at or spoil ------------------------------------------------------------------------------------

    def paths(self) -> Sequence[str]:
        """Every file, in order."""
        return sorted(
            f"{path}/{name}" if path else name
            for path, directory in self._directories.items()
            for name, entry in directory.entries.items()
            if isinstance(entry, Inode)
        )

    def content(self, path: str) -> bytes:
        """All that a file holds; of a stopped process, too."""
        parent, _, name = path.rpartition("/")
        entry = self._directories[parent].entries[name]
        assert isinstance(entry, Inode)
        return bytes(entry.content)

    def replace(self, path: str, position: int, data: bytes) -> None:
        """Write over what a file holds."""
        self._file(path).content[position : position + len(data)] = data

    def damage(self, path: str, position: int) -> None:
        """Flip the bits of one byte."""
        self._file(path).content[position] ^= 0xFF

    def add_bytes(self, path: str, data: bytes) -> None:
        """Put bytes at the end of a file, as an interrupted write does."""
        self._file(path).content += data

    def put(self, path: str, content: bytes) -> None:
        """Have a durable file with this content, whatever was there."""
        directory, name = self._find(path)
        inode = Inode(self.now_ms(), self.sector_bytes)
        inode.content += content
        inode.sync()
        directory.put(name, inode)

    # Disk -----------------------------------------------------------------------------------------------------------

    def _find(self, path: str) -> tuple[LyingDirectory, str]:
        if self.is_stopped:
            raise Stopped
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
            self.change("create", path)
            if self.space is not None and self.space <= 0:
                raise OSError(errno.ENOSPC, "no space left", path)
            entry = Inode(self.now_ms(), self.sector_bytes)
            directory.link(name, entry)
        if not isinstance(entry, Inode):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return LyingFile(self, path, entry)

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
        inode = self._file(path)
        self.meets("open_fixed", path)
        return LyingFixedFile(self, path, inode)

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
        sync(self, "sync_file", path, self._file(path))

    def sync_directory(self, path: str) -> None:
        directory = self._directories.get(path)
        if directory is None or self.is_stopped:
            self._find(path + "/")
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        self.change("sync_directory", path)
        directory.sync()

    def whole_sync(self, path: str) -> WholeSync | None:
        return WholeDisk(self) if self.syncs_as_a_whole else None

    def sync_everything(self) -> None:
        """All that was written or named is durable."""
        for directory in self._directories.values():
            directory.sync()
            for entry in directory.entries.values():
                if isinstance(entry, Inode):
                    entry.sync()

    def rename(self, old: str, new: str) -> None:
        directory, name = self._find(old)
        target, new_name = self._find(new)
        assert target is directory, "nobody moves files to other directories"
        entry = directory.entries.get(name)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", old)
        self.change("rename", new)
        covered = directory.entries.get(new_name)
        if isinstance(covered, Inode) and covered is not entry:
            self.give_space(len(covered.content))
        directory.rename(name, new_name)
        if isinstance(entry, LyingDirectory):
            for path in [path for path in self._directories if path == old or path.startswith(old + "/")]:
                self._directories[new + path[len(old) :]] = self._directories.pop(path)

    def unlink(self, path: str) -> None:
        directory, name = self._find(path)
        size = len(self._file(path).content)
        self.change("unlink", path)
        directory.unlink(name)
        self.give_space(size)

    def make_directory(self, path: str) -> None:
        if path in self._directories:
            return
        parent = path.rpartition("/")[0]
        if parent:
            self.make_directory(parent)
        directory, name = self._find(path)
        self.change("make_directory", path)
        made = LyingDirectory()
        directory.link(name, made)
        self._directories[path] = made
        if not parent:
            self._top = path.removesuffix(name)
            directory.sync()  # the root is given

    def remove_tree(self, path: str) -> None:
        if path not in self._directories:
            return
        directory, name = self._find(path)
        self.change("remove_tree", path)
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
        return self.copied

    def free_bytes(self, path: str) -> FreeBytes | None:
        if self.total is None and (self.space is None or not self.counts_room):
            return None
        total = UNTOLD_BYTES if self.total is None else self.total
        return FreeBytes(total if self.space is None else self.space, total)

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
            assert self.chance is not None
            await asyncio.sleep(self.chance.random() * self.cold_work_ms / 1000)


def _size_of(directory: LyingDirectory) -> int:
    """The bytes of all files in it."""
    return sum(
        _size_of(entry) if isinstance(entry, LyingDirectory) else len(entry.content)
        for entry in directory.entries.values()
    )
