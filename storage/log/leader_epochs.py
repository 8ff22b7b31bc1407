"""`LeaderEpochs`: which leader epoch each stretch of a partition was written in (storage.md section 10).

Kept in `leader-epoch-checkpoint`. Always true: epochs and start offsets both grow strictly; the file has every entry
that data on disk needs, or recovery finds it again in the batches.
"""

from bisect import bisect_right
from itertools import pairwise
from typing import Final

from eosin.storage.disk.checkpoint_formats import MalformedCheckpoint, decode_checkpoint, encode_checkpoint

FILE_NAME: Final = "leader-epoch-checkpoint"
NO_EPOCH: Final = -1


class LeaderEpochs:
    """(epoch, start offset) entries of one partition."""

    __slots__ = ("_entries", "is_saved", "latest")

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self._entries = entries or []
        self.latest = self._entries[-1][0] if self._entries else NO_EPOCH
        """The epoch of the newest entry, -1 without one. An attribute because every append compares with it."""
        self.is_saved = True
        """True if the file has been written since the last change. The code that writes it sets this."""

    @classmethod
    def decode(cls, data: bytes) -> "LeaderEpochs":
        """The entries in a file's content. Raises MalformedCheckpoint."""
        entries = [(int(epoch), int(start)) for epoch, start in decode_checkpoint(data, fields=2)]
        for (epoch, start), (next_epoch, next_start) in pairwise(entries):
            if next_epoch <= epoch or next_start < start:
                raise MalformedCheckpoint(f"epoch {next_epoch} at {next_start} after epoch {epoch} at {start}")
        return cls(entries)

    def encode(self) -> bytes:
        """The file's content."""
        return encode_checkpoint(f"{epoch} {start}" for epoch, start in self._entries)

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """Every (epoch, start offset), oldest first."""
        return tuple(self._entries)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Batches from `start_offset` on are of `epoch`; whether that is a new entry. Entries it contradicts go."""
        if epoch <= NO_EPOCH or epoch <= self.latest:
            return False
        self.truncate_from_end(start_offset)
        self._entries.append((epoch, start_offset))
        self.latest = epoch
        self.is_saved = False
        return True

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drop the entries that start at or beyond `end_offset`; whether there were any."""
        before = len(self._entries)
        while self._entries and self._entries[-1][1] >= end_offset:
            self._entries.pop()
        self.latest = self._entries[-1][0] if self._entries else NO_EPOCH
        is_changed = len(self._entries) != before
        self.is_saved = self.is_saved and not is_changed
        return is_changed

    def clear(self) -> None:
        """Drop every entry, and with them the file."""
        self._entries.clear()
        self.latest = NO_EPOCH
        self.is_saved = True

    def truncate_from_start(self, start_offset: int) -> bool:
        """Drop the entries below `start_offset`; the entry that covers it starts there from now on."""
        covering = self._covering(start_offset)
        if covering < 0 or self._entries[covering][1] == start_offset:
            if covering <= 0:
                return False
            del self._entries[:covering]
        else:
            self._entries[: covering + 1] = [(self._entries[covering][0], start_offset)]
        self.is_saved = False
        return True

    def _covering(self, offset: int) -> int:
        return bisect_right(self._entries, offset, key=lambda entry: entry[1]) - 1

    def epoch_at(self, offset: int) -> int:
        """The epoch that covers `offset`, -1 if none does."""
        covering = self._covering(offset)
        return self._entries[covering][0] if covering >= 0 else NO_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest epoch at or below `epoch`, where it ends), (-1, -1) when that is unknown (storage.md 10)."""
        if epoch == NO_EPOCH or epoch > self.latest or not self._entries:
            return -1, -1
        if epoch == self.latest:
            return epoch, log_end_offset
        after = bisect_right(self._entries, epoch, key=lambda entry: entry[0])
        if after == 0:
            return epoch, self._entries[0][1]
        return self._entries[after - 1][0], self._entries[after][1]
