"""All that a lying disk holds: files and directories that remember how much of them is durable."""

import os
import random
from collections.abc import Callable, Sequence
from typing import Protocol, Union

from eosin.lab.disk.faults import Fault
from eosin.storage.disk.interfaces import Buffer, TornWrite


class FaultyCalls(Protocol):
    """A disk, as its files see it: what becomes of each call."""

    chance: random.Random | None
    forgets: bool

    @property
    def now_ms(self) -> Callable[[], int]:
        """The time of changes."""

    def changes(self, call: str, path: str) -> bool:
        """Count a call; True if it is the last one, which happens by half."""

    def change(self, call: str, path: str) -> None:
        """Count a call that happens as a whole or not at all. Raises OSError if it meets a fault."""

    def fault(self, call: str, path: str) -> Fault | None:
        """The fault that a call meets."""

    def meets(self, call: str, path: str) -> None:
        """Raises OSError if a call meets a fault."""

    def die(self) -> "Stopped":
        """The process ends here."""

    def torn(self, size: int) -> int:
        """The bytes that are left of a write that is torn."""

    def waits(self) -> bool:
        """True if a read has to wait for the device."""

    def use_space(self, size: int, path: str) -> None:
        """Have a file grow. Raises OSError if there is no room."""

    def give_space(self, size: int) -> None:
        """A file has shrunk, or is gone."""


class Inode:
    """The content of a file, and how much of it would survive."""

    __slots__ = ("content", "is_lost", "modified_ms", "old", "overwritten", "sector_bytes", "synced")

    def __init__(self, now_ms: int, sector_bytes: int) -> None:
        self.sector_bytes = sector_bytes
        """All that is written as a whole or not at all."""
        self.content = bytearray()
        self.synced = 0
        """So many bytes at the beginning are durable."""
        self.old: bytes | None = None
        """All that is durable while that is not a beginning of `content`."""
        self.overwritten: dict[int, bytes] = {}
        """All that was durable in the sectors that were written over since."""
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
        size = self.sector_bytes
        for sector in range(position // size, -(-(position + len(data)) // size)):
            self.overwritten.setdefault(sector, bytes(self.content[sector * size : (sector + 1) * size]))
        self.content[position : position + len(data)] = data

    def truncate(self, size: int) -> None:
        """Cut it, or fill it up with zeros."""
        if size < self.synced:
            if self.old is None:
                self.old = bytes(self.content[: self.synced])
            self.synced = size
        del self.content[size:]
        self.content.extend(bytes(size - len(self.content)))

    def survivor(self, chance: random.Random | None) -> "Inode":
        """All that is left of it when the power goes: without `chance` what is durable, and nothing else."""
        after, size = Inode(self.modified_ms, self.sector_bytes), self.sector_bytes
        if chance is None:
            after.content += self.content[: self.synced] if self.old is None else self.old
            for sector, old in self.overwritten.items():
                after.content[sector * size : (sector + 1) * size] = old
        elif self.old is not None and chance.random() < 0.5:
            after.content += self.old
        else:
            after.content += self.content[: self.synced]
            after.content += _surviving(self.content, self.synced, size, chance)
            luck = chance.choice((0.0, 0.5, 0.9, 1.0)) if self.overwritten else 1.0
            for sector, old in self.overwritten.items():
                if chance.random() >= luck:
                    after.content[sector * size : (sector + 1) * size] = old
        after.sync()
        return after

    def copy(self, chance: random.Random | None) -> "Inode":
        """All that the next process finds of it."""
        if self.is_lost:
            return self.survivor(chance)
        after = Inode(self.modified_ms, self.sector_bytes)
        after.content += self.content
        after.synced, after.old, after.overwritten = self.synced, self.old, dict(self.overwritten)
        return after


def _surviving(content: bytearray, synced: int, size: int, chance: random.Random) -> bytes:
    """The bytes behind `synced`, which nobody has synced, that are left: often none or all, else a beginning, perhaps
    with holes where whole sectors of the file are lost."""
    tail = content[synced:]
    luck = chance.random()
    if not tail or luck < 0.3:
        return b""
    if luck < 0.5:
        return bytes(tail)
    kept = tail[: chance.randint(0, len(tail))]
    if luck < 0.7:  # the size was written, some of the data was not
        for sector in range(synced // size, (synced + len(kept)) // size + 1):
            if chance.random() < 0.5:
                start = max(0, sector * size - synced)
                end = min(len(kept), (sector + 1) * size - synced)
                kept[start:end] = bytes(end - start)
    return bytes(kept)


class Stopped(BaseException):
    """The process has ended in the middle of what it does. Not an Exception, so that no handler of errors hides it."""


Entry = Union[Inode, "LyingDirectory"]


class LyingDirectory:
    """Names, and what was done to them since they were last synced."""

    __slots__ = ("_durable", "_undone", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self._durable: dict[str, Entry] = {}
        self._undone: list[tuple[str | None, str | None, Entry]] = []
        """Changes that a loss of power may undo, the last first: (name it was taken from, name it was given, what)."""

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

    def put(self, name: str, entry: Entry) -> None:
        """Have a durable name for something."""
        self.entries[name] = self._durable[name] = entry

    def sync(self) -> None:
        """All names are durable."""
        if self._undone:
            self._durable = dict(self.entries)
            self._undone.clear()

    def killed(self, chance: random.Random | None) -> "LyingDirectory":
        """All that the next process finds of it. What was not durable still is not."""
        copies: dict[int, Entry] = {}

        def copy(entry: Entry) -> Entry:
            if id(entry) not in copies:
                copies[id(entry)] = entry.copy(chance) if isinstance(entry, Inode) else entry.killed(chance)
            return copies[id(entry)]

        after = LyingDirectory()
        after._durable = {name: copy(entry) for name, entry in self._durable.items()}
        after.entries = {name: copy(entry) for name, entry in self.entries.items()}
        after._undone = [(old, new, copy(entry)) for old, new, entry in self._undone]
        return after

    def power_loss(self, chance: random.Random | None) -> "LyingDirectory":
        """All that is left of it when the power goes: without `chance` the names that are durable, and no others."""
        names = dict(self._durable)
        done = len(self._undone) if chance is not None else 0
        if chance is not None and done and chance.random() < 0.7:
            done = chance.randint(0, done)
        for old, new, entry in self._undone[:done]:
            if old is not None:
                names.pop(old, None)
            if new is not None:
                names[new] = entry
        after = LyingDirectory()
        for name, entry in names.items():
            survivor = entry.survivor(chance) if isinstance(entry, Inode) else entry.power_loss(chance)
            after.entries[name] = survivor
        after._durable = dict(after.entries)
        return after


class LyingFile:
    """`File` on an inode."""

    __slots__ = ("_disk", "_inode", "path", "pins")

    def __init__(self, disk: FaultyCalls, path: str, inode: Inode) -> None:
        self.path = path
        self.pins = 0
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
        if disk.changes("append", self.path):
            self._tear(buffers, None)
            raise disk.die()
        fault = disk.fault("append", self.path)
        if fault is not None:
            if fault.leaves_nothing(disk.chance):
                raise fault.failure(self.path)
            self._tear(buffers, fault.written)
            raise TornWrite(fault.error, "injected, and not taken back", self.path)
        disk.use_space(sum(map(len, buffers)), self.path)
        for buffer in buffers:
            inode.content += buffer
        inode.modified_ms = disk.now_ms()

    def _tear(self, buffers: Sequence[Buffer], written: int | None) -> None:
        data = b"".join(buffers)
        self._inode.content += data[: self._disk.torn(len(data)) if written is None else written]

    def read(self, position: int, size: int) -> Buffer:
        self._disk.meets("read", self.path)
        return bytes(self._inode.content[position : position + size])

    def read_now(self, position: int, size: int) -> Buffer | None:
        return None if self._disk.waits() else self.read(position, size)

    def send(self, descriptor: int, position: int, size: int) -> int | None:
        data = self.read_now(position, size)
        return None if data is None else os.write(descriptor, data)

    def sync(self) -> None:
        sync(self._disk, "sync", self.path, self._inode)

    def truncate(self, size: int) -> None:
        self._disk.change("truncate", self.path)
        self._disk.give_space(self.size - size)
        self._inode.truncate(size)

    def allocate(self, size: int) -> None:
        self.append([bytes(max(0, size - self.size))])
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


def sync(disk: FaultyCalls, call: str, path: str, inode: Inode) -> None:
    """Make a file durable by this call. Once that has failed, nobody knows what became of it."""
    try:
        disk.change(call, path)
    except OSError:
        inode.is_lost = disk.forgets
        raise
    inode.sync()


class LyingFixedFile:
    """`FixedFile` on an inode."""

    __slots__ = ("_disk", "_inode", "path", "size")

    def __init__(self, disk: FaultyCalls, path: str, inode: Inode) -> None:
        self.path = path
        self.size = len(inode.content)
        self._disk = disk
        self._inode = inode

    def write(self, position: int, data: Buffer) -> None:
        assert position + len(data) <= self.size, "its size never changes"
        disk = self._disk
        if disk.changes("write", self.path):
            self._inode.write_over(position, bytes(data[: disk.torn(len(data))]))
            raise disk.die()
        fault = disk.fault("write", self.path)
        if fault is not None:
            written = disk.torn(len(data)) if fault.written is None else fault.written
            self._inode.write_over(position, bytes(data[:written]))
            raise fault.failure(self.path)
        self._inode.write_over(position, bytes(data))

    def read(self, position: int, size: int) -> Buffer:
        self._disk.meets("read", self.path)
        return bytes(self._inode.content[position : position + size])

    def sync(self) -> None:
        sync(self._disk, "sync", self.path, self._inode)

    def close(self) -> None:
        """There is no descriptor."""
