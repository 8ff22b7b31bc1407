"""`LabDisk`: the lying disk of a broker for tests, which counts calls instead of listing them, and tells of each.

Always true: it lies only as a test has said, or as its seed has it at a loss of power.
"""

import random
from collections.abc import Callable
from typing import Self

from eosin.lab.disk.faults import SYNC, CallFaults, Luck
from eosin.lab.disk.lying_disk import LyingDisk
from eosin.lab.disk.lying_files import LyingDirectory, Stopped

Watch = Callable[[str, str], None]
"""Told of a call and its path before it happens. May raise OSError, or `Stopped` after `stop`."""


class LabDisk(CallFaults, LyingDisk):
    """The disk of one broker, from one start of it to the next."""

    def __init__(
        self,
        now_ms: Callable[[], int] = lambda: 0,
        *,
        luck: Luck = lambda: None,
        sector_bytes: int = 512,
        root: LyingDirectory | None = None,
        top: str = "",
    ) -> None:
        """`luck` is that of what a loss of power meets; without any it takes all that it may."""
        CallFaults.__init__(self, luck)
        LyingDisk.__init__(self, now_ms, sector_bytes=sector_bytes, root=root, top=top)
        self.forgets = True
        self.watch: Watch | None = None
        self.loses_unsynced = False
        """True if the next loss of power takes all that was not synced."""

    def changes(self, call: str, path: str) -> bool:
        """Count a call; True if it is the last one."""
        if self.is_stopped:
            raise Stopped
        self.made += 1
        self.counts[call, path] += 1
        if self.watch is not None:
            self.watch(call, path)
        if call in self.slowness_ms and call != SYNC:  # which the flusher waits for without anybody else
            self.wait(self.lasts_ms(call))
        return self.stop_at is not None and self.made > self.stop_at

    def meets(self, call: str, path: str) -> None:
        """Raises OSError if a call meets a fault."""
        if call == "read" and self.watch is not None:
            self.watch(call, path)
        if call == "read" and call in self.slowness_ms:
            self.wait(self.lasts_ms(call))
        if self.faults:
            super().meets(call, path)

    def heal(self) -> None:
        """No faults any more, but for want of room."""
        super().heal()
        self.stop_at = None

    def stop_after(self, calls: int) -> None:
        """Let so many more calls succeed."""
        self.stop_at = self.made + calls

    def power_loss(self, chance: random.Random | None = None) -> Self:
        """The disk as it is when the power is back: what was synced, and of the rest what luck has left."""
        luck = None if self.loses_unsynced else chance or self.luck()
        return self._after(self._root.power_loss(luck))

    def _after(self, root: LyingDirectory) -> Self:
        after = type(self)(self.now_ms, luck=self.luck, sector_bytes=self.sector_bytes, root=root, top=self._top)
        after.space, after.faults, after.counts, after.made = self.space, self.faults, self.counts, self.made
        after.watch, after.slowness_ms = self.watch, self.slowness_ms
        return after
