"""`LabDisk`: the lying disk of a broker for tests, which counts calls instead of listing them, and tells of each.

Always true: it lies only as a test has said, or as its seed has it at a loss of power.
"""

import random
from collections import defaultdict
from collections.abc import Callable
from typing import Final, Self

from eosin.lab.disk.faults import Fault
from eosin.lab.disk.lying_disk import LyingDisk
from eosin.lab.disk.lying_files import LyingDirectory, Stopped
from eosin.runtime.clock import pause

SYNC: Final = "sync"
Watch = Callable[[str, str], None]
"""Told of a call and its path before it happens. May raise OSError, or `Stopped` after `stop`."""


class LabDisk(LyingDisk):
    """The disk of one broker, from one start of it to the next."""

    def __init__(
        self,
        now_ms: Callable[[], int] = lambda: 0,
        *,
        chance: random.Random | None = None,
        sector_bytes: int = 512,
        root: LyingDirectory | None = None,
        top: str = "",
    ) -> None:
        """`chance` is the luck of what a loss of power meets."""
        super().__init__(now_ms, sector_bytes=sector_bytes, root=root, top=top)
        self.luck: Final = chance
        self.forgets = True
        self.counts: defaultdict[tuple[str, str], int] = defaultdict(int)
        """Calls that have changed or synced something, by call and path."""
        self.made = 0
        """Their number."""
        self.watch: Watch | None = None
        self.slowness_ms: dict[str, tuple[float, float]] = {}
        """The time that calls take, and how much longer at most, by call: those that are not here take none."""
        self.wait: Callable[[float], None] = pause
        """Lets so many ms of real time pass: whoever calls the disk waits for it."""
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

    def fault(self, call: str, path: str) -> Fault | None:
        """The fault that a call meets: each one as often as it says, for reads too."""
        for fault in self.faults:
            if fault.call == call and fault.is_on(path):
                fault.times -= 1
                if fault.times <= 0:
                    self.faults.remove(fault)
                return fault
        return None

    def sync_ms(self) -> float:
        """The time that the next sync of a flusher takes."""
        return self.lasts_ms(SYNC) if self.slowness_ms else 0.0

    def lasts_ms(self, call: str) -> float:
        """The time that the next such call takes."""
        least, more = self.slowness_ms.get(call, (0.0, 0.0))
        return least if not more else least + more * (random if self.luck is None else self.luck).random()

    def stop_after(self, calls: int) -> None:
        """Let so many more calls succeed."""
        self.stop_at = self.made + calls

    def count(self, call: str, path: str = "") -> int:
        """The number of times that `call` was made on a path that contains `path`."""
        return sum(times for (made, where), times in self.counts.items() if made == call and path in where)

    def power_loss(self, chance: random.Random | None = None) -> Self:
        """The disk as it is when the power is back: what was synced, and of the rest what luck has left."""
        luck = None if self.loses_unsynced else chance or self.luck
        return self._after(self._root.power_loss(luck))

    def _after(self, root: LyingDirectory) -> Self:
        after = type(self)(self.now_ms, chance=self.luck, sector_bytes=self.sector_bytes, root=root, top=self._top)
        after.space, after.faults, after.counts, after.made = self.space, self.faults, self.counts, self.made
        after.watch, after.slowness_ms = self.watch, self.slowness_ms
        return after
