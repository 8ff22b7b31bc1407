"""The place of the next group in the journal's files, and the files that may be written over. Pure.

A file is live while a log may need what it holds: from its first group until every log with an entry in it has been
synced itself. Always true: live files have consecutive generations, and only the youngest of them is written to; a file
is written over only when a durable group has said that its generation is not needed any more.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from eosin.storage.disk.flusher import Flushable
from eosin.storage.journal.codec import BLOCK_BYTES, GroupHeader, group_bytes

HURRIED_S: Final = 10.0
"""A ring whose files fill quicker than this, in seconds, grows as far as it may."""


class Slot:
    """One file of the ring."""

    __slots__ = ("begun_s", "end_offsets", "generation", "number", "position", "size")

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size
        self.generation = 0
        self.position = 0
        """Position of the next group."""
        self.begun_s = 0.0
        """Time at which its first group was written."""
        self.end_offsets: dict[Flushable, int] = {}
        """The logs that may need this file, and the offsets up to which they must be synced until they do not."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a group."""

    slot: Slot
    position: int
    size: int
    header: GroupHeader


class Ring:
    """The files of a journal."""

    def __init__(self, *, limit_bytes: int, least_bytes: int) -> None:
        """Files take up `limit_bytes` together at most; the first two have `least_bytes`."""
        self._limit_bytes = limit_bytes
        self._least_bytes = least_bytes
        self._slots: list[Slot] = []
        self._live: deque[Slot] = deque()
        self._released: list[Slot] = []
        """Files that no log needs, before a durable group says so."""
        self._free: deque[Slot] = deque()
        self._next_generation = 1
        self._next_sequence = 1
        self.is_hurried = False
        """True if the last file that was filled had been filled quickly."""

    @property
    def sizes(self) -> list[int]:
        """The size of each file, by number."""
        return [slot.size for slot in self._slots]

    @property
    def last_sequence(self) -> int:
        """Of the last group that was placed; 0 before the first."""
        return self._next_sequence - 1

    @property
    def is_empty(self) -> bool:
        """True if there is no file yet."""
        return not self._slots

    @property
    def payload_limit(self) -> int:
        """No group should hold more bytes."""
        return self._least_bytes // 2

    @property
    def live(self) -> tuple[Slot, ...]:
        """The files that may be needed, the oldest first."""
        return tuple(self._live)

    @property
    def has_room(self) -> bool:
        """True if some group can be placed, or could be after an announcement."""
        current = self._live[-1] if self._live else None
        return bool(self._free or self._released) or (
            current is not None and current.position + 2 * BLOCK_BYTES <= current.size
        )

    @property
    def growth(self) -> int:
        """The size of the file that would be added next; 0 if there are enough."""
        total = sum(self.sizes)
        size = self._least_bytes if len(self._slots) < 2 else min(total, self._limit_bytes // 4)
        return size if total + size <= self._limit_bytes and size >= self._least_bytes else 0

    @property
    def wants_a_file(self) -> bool:
        """True if it should grow."""
        if not self.growth or self._free or self._released:
            return False
        if not self._slots or not self.has_room:
            return True
        return self._is_half_full and (self.is_hurried or len(self._slots) < 2)

    @property
    def wants_syncs(self) -> bool:
        """True if logs should be synced, so that a file can be used again."""
        return bool(not self._free and not self._released and len(self._live) > 1 and self._is_half_full)

    @property
    def _is_half_full(self) -> bool:
        current = self._live[-1]
        return current.position * 2 >= current.size

    def add(self, size: int) -> Slot:
        """A new file is there to be written."""
        slot = Slot(len(self._slots), size)
        self._slots.append(slot)
        self._free.append(slot)
        return slot

    def place(self, payload_bytes: int, now_s: float) -> Place | None:
        """The place of the next group; None when there is no room for it now."""
        size = group_bytes(payload_bytes)
        current = self._live[-1] if self._live else None
        # The last block is kept for an announcement.
        if current is None or current.position + size + BLOCK_BYTES > current.size:
            following = next((slot for slot in self._free if size + BLOCK_BYTES <= slot.size), None)
            if following is None:
                return None
            if current is not None:
                self.is_hurried = now_s - current.begun_s < HURRIED_S
            self._free.remove(following)
            following.generation, following.position, following.begun_s = self._next_generation, 0, now_s
            self._next_generation += 1
            self._live.append(following)
            self._release()
            current = following
        return self._occupy(current, size)

    def announcement(self) -> Place | None:
        """The place of an empty group that announces files as free; None when that would not help."""
        current = self._live[-1] if self._live else None
        if current is None or not self._released or self._free or current.position + BLOCK_BYTES > current.size:
            return None
        return self._occupy(current, group_bytes(0))

    def _occupy(self, slot: Slot, size: int) -> Place:
        header = GroupHeader(slot.generation, self._next_sequence, self._live[0].generation)
        place = Place(slot, slot.position, size, header)
        slot.position += size
        self._next_sequence += 1
        return place

    def undo(self, place: Place) -> None:
        """Nothing was written at `place`, the last one that was given."""
        place.slot.position = place.position
        self._next_sequence = place.header.sequence

    def note(self, place: Place, log: Flushable, end_offset: int) -> None:
        """A group at `place` holds batches of `log` below `end_offset`."""
        place.slot.end_offsets[log] = end_offset

    def durable(self, place: Place) -> None:
        """The group at `place` is durable, and with it its announcement of older generations."""
        told = [slot for slot in self._released if slot.generation < place.header.oldest_generation]
        for slot in told:
            self._released.remove(slot)
            self._free.append(slot)

    def synced(self, log: Flushable, end_offset: int) -> None:
        """Everything below `end_offset` is durable in the files of `log`."""
        for slot in self._live:
            needed = slot.end_offsets.get(log)
            if needed is not None and needed <= end_offset:
                del slot.end_offsets[log]
        self._release()

    def forget(self, log: Flushable) -> None:
        """`log` is deleted."""
        for slot in self._live:
            slot.end_offsets.pop(log, None)
        self._release()

    def _release(self) -> None:
        while len(self._live) > 1 and not self._live[0].end_offsets:
            self._released.append(self._live.popleft())

    def to_sync(self) -> Iterable[Flushable]:
        """The logs that must be synced before any file can be used again."""
        return list(dict.fromkeys(log for slot in self.live[:-1] for log in slot.end_offsets))
