"""What a simulated disk holds: files and directories that remember how much of them is durable."""

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Union

from eosin.storage.disk.interfaces import Buffer, TornWrite

if TYPE_CHECKING:
    from simulation.disk import SimulatedDisk

SECTOR_BYTES = 64
"""What is written as a whole or not at all. Smaller than a device's, since files are small; the broker is told."""


class Inode:
    """The content of a file, and how much of it would survive."""

    __slots__ = ("content", "is_lost", "modified_ms", "old", "overwritten", "synced")

    def __init__(self, now_ms: int) -> None:
        self.content = bytearray()
        self.synced = 0
        """So many bytes at the beginning are durable."""
        self.old: bytes | None = None
        """What is durable while that is not a beginning of `content`."""
        self.overwritten: dict[int, bytes] = {}
        """What was durable in the sectors that were written over since."""
        self.is_lost = False
        """A sync has failed: nobody knows what became of the bytes behind `synced`."""
        self.modified_ms = now_ms

    def sync(self) -> None:
        """All of it is durable."""
        self.synced = len(self.content)
        self.old = None
        self.overwritten.clear()

    def write_over(self, position: int, data: bytes) -> None:
        """Change what is there already."""
        for sector in range(position // SECTOR_BYTES, -(-(position + len(data)) // SECTOR_BYTES)):
            start = sector * SECTOR_BYTES
            self.overwritten.setdefault(sector, bytes(self.content[start : start + SECTOR_BYTES]))
        self.content[position : position + len(data)] = data

    def truncate(self, size: int) -> None:
        """Cut it, or fill it up with zeros."""
        if size < self.synced:
            if self.old is None:
                self.old = bytes(self.content[: self.synced])
            self.synced = size
        del self.content[size:]
        self.content.extend(bytes(size - len(self.content)))

    def survivor(self, chance: random.Random) -> "Inode":
        """What is left of it when the power goes."""
        after = Inode(self.modified_ms)
        if self.old is not None and chance.random() < 0.5:
            after.content += self.old
        else:
            after.content += self.content[: self.synced]
            after.content += _surviving(self.content, self.synced, chance)
            luck = chance.choice((0.0, 0.5, 0.9, 1.0)) if self.overwritten else 1.0
            for sector, old in self.overwritten.items():
                if chance.random() >= luck:
                    after.content[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES] = old
        after.sync()
        return after

    def copy(self, chance: random.Random) -> "Inode":
        """What the next process finds of it."""
        if self.is_lost:
            return self.survivor(chance)
        after = Inode(self.modified_ms)
        after.content += self.content
        after.synced, after.old, after.overwritten = self.synced, self.old, dict(self.overwritten)
        return after


def _surviving(content: bytearray, synced: int, chance: random.Random) -> bytes:
    """What is left behind `synced` of bytes that nobody has synced: often nothing or all, else some beginning, perhaps
    with holes where whole sectors of the file are lost."""
    tail = content[synced:]
    luck = chance.random()
    if not tail or luck < 0.3:
        return b""
    if luck < 0.5:
        return bytes(tail)
    kept = tail[: chance.randint(0, len(tail))]
    if luck < 0.7:  # the size was written, some of the data was not
        for sector in range(synced // SECTOR_BYTES, (synced + len(kept)) // SECTOR_BYTES + 1):
            if chance.random() < 0.5:
                start = max(0, sector * SECTOR_BYTES - synced)
                end = min(len(kept), (sector + 1) * SECTOR_BYTES - synced)
                kept[start:end] = bytes(end - start)
    return bytes(kept)


Entry = Union[Inode, "Directory"]


class Directory:
    """Names, and what was done to them since they were last synced."""

    __slots__ = ("_durable", "_undone", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self._durable: dict[str, Entry] = {}
        self._undone: list[tuple[str | None, str | None, Entry]] = []
        """What a loss of power may undo, from the last one on: (name it was taken from, name it was given, what)."""

    def link(self, name: str, entry: Entry) -> None:
        """Name something new."""
        self.entries[name] = entry
        self._undone.append((None, name, entry))

    def unlink(self, name: str) -> None:
        """Forget a name."""
        self._undone.append((name, None, self.entries.pop(name)))

    def rename(self, old: str, new: str) -> None:
        """Give something another name, which whatever has it loses."""
        entry = self.entries.pop(old)
        self.entries[new] = entry
        self._undone.append((old, new, entry))

    def sync(self) -> None:
        """All names are durable."""
        if self._undone:
            self._durable = dict(self.entries)
            self._undone.clear()

    def killed(self, chance: random.Random) -> "Directory":
        """What the next process finds of it. What was not durable still is not."""
        copies: dict[int, Entry] = {}

        def copy(entry: Entry) -> Entry:
            if id(entry) not in copies:
                copies[id(entry)] = entry.copy(chance) if isinstance(entry, Inode) else entry.killed(chance)
            return copies[id(entry)]

        after = Directory()
        after._durable = {name: copy(entry) for name, entry in self._durable.items()}
        after.entries = {name: copy(entry) for name, entry in self.entries.items()}
        after._undone = [(old, new, copy(entry)) for old, new, entry in self._undone]
        return after

    def power_loss(self, chance: random.Random) -> "Directory":
        """What is left of it when the power goes."""
        names = dict(self._durable)
        done = len(self._undone)
        if done and chance.random() < 0.7:
            done = chance.randint(0, done)
        for old, new, entry in self._undone[:done]:
            if old is not None:
                names.pop(old, None)
            if new is not None:
                names[new] = entry
        after = Directory()
        for name, entry in names.items():
            survivor = entry.survivor(chance) if isinstance(entry, Inode) else entry.power_loss(chance)
            after.entries[name] = survivor
        after._durable = dict(after.entries)
        return after


class SimulatedFile:
    """`File` on an inode."""

    __slots__ = ("_disk", "_inode", "path")

    def __init__(self, disk: "SimulatedDisk", path: str, inode: Inode) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode

    @property
    def size(self) -> int:
        return len(self._inode.content)

    @size.setter
    def size(self, size: int) -> None:
        raise AttributeError("the size of a file follows from its content")

    def append(self, buffers: Sequence[Buffer]) -> None:
        disk, inode = self._disk, self._inode
        try:
            is_last = disk.changes("append", self.path)
        except OSError as error:
            if disk.chance.random() < 0.5:
                raise
            self._tear(buffers)
            raise TornWrite(error.errno, "injected, and not taken back", self.path) from error
        if is_last:
            self._tear(buffers)
            raise disk.die()
        disk.take_space(sum(map(len, buffers)), self.path)
        for buffer in buffers:
            inode.content += buffer
        inode.modified_ms = disk.now_ms()

    def _tear(self, buffers: Sequence[Buffer]) -> None:
        data = b"".join(buffers)
        self._inode.content += data[: self._disk.chance.randint(0, len(data))]

    def read(self, position: int, size: int) -> Buffer:
        self._disk.meets("read", self.path)
        return bytes(self._inode.content[position : position + size])

    def read_now(self, position: int, size: int) -> Buffer | None:
        disk = self._disk
        if disk.cold and disk.chance.random() < disk.cold:
            return None
        disk.meets("read", self.path)
        return bytes(self._inode.content[position : position + size])

    def send(self, descriptor: int, position: int, size: int) -> int | None:
        raise AssertionError("this disk has no sockets beside it")

    def sync(self) -> None:
        try:
            if self._disk.changes("sync", self.path):
                raise self._disk.die()
        except OSError:
            self._inode.is_lost = True
            raise
        self._inode.sync()

    def truncate(self, size: int) -> None:
        if self._disk.changes("truncate", self.path):
            raise self._disk.die()
        self._disk.give_space(self.size - size)
        self._inode.truncate(size)

    def allocate(self, size: int) -> None:
        self.append([bytes(max(0, size - self.size))])
        self.truncate(size)

    @property
    def is_pinned(self) -> bool:
        return False

    def pin(self) -> None:
        """There is no descriptor."""

    def unpin(self) -> None:
        """There is no descriptor."""

    def close(self) -> None:
        """There is no descriptor."""


class SimulatedFixedFile:
    """`FixedFile` on an inode."""

    __slots__ = ("_disk", "_inode", "path", "size")

    def __init__(self, disk: "SimulatedDisk", path: str, inode: Inode) -> None:
        self.path = path
        self.size = len(inode.content)
        self._disk = disk
        self._inode = inode

    def write(self, position: int, data: Buffer) -> None:
        assert position + len(data) <= self.size, "its size never changes"
        disk = self._disk
        try:
            is_last = disk.changes("write", self.path)
        except OSError:
            self._inode.write_over(position, bytes(data[: disk.chance.randint(0, len(data))]))
            raise
        if is_last:
            self._inode.write_over(position, bytes(data[: disk.chance.randint(0, len(data))]))
            raise disk.die()
        self._inode.write_over(position, bytes(data))

    def read(self, position: int, size: int) -> Buffer:
        self._disk.meets("read", self.path)
        return bytes(self._inode.content[position : position + size])

    def sync(self) -> None:
        SimulatedFile(self._disk, self.path, self._inode).sync()

    def close(self) -> None:
        """There is no descriptor."""
