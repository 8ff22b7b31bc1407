"""`Fault`: calls of a disk that fail. `CallFaults`: the faults of one disk, and how often each call was made."""

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from eosin.runtime.clock import pause

SYNC: Final = "sync"
Luck = Callable[[], random.Random | None]
"""Returns a generator, which is made once somebody needs it; None for none."""

LASTING: Final = 1 << 62
"""Calls that a fault meets until it is taken out."""
_GLOB: Final = frozenset("*[")


@dataclass
class Fault:
    """The next `times` calls of `call` on a path that contains `path` fail; reads fail until it is taken out."""

    call: str
    error: int
    path: str = ""
    times: int = 1
    written: int | None = 0
    """Bytes that a write leaves before it fails; None: as many as chance has it, which may take them back, too."""
    torn: bool = False
    """True if bytes of an append cannot be taken back."""

    def is_on(self, path: str) -> bool:
        """True for a path that contains `self.path`, or ends as that says where it has `*` or `[`."""
        wanted = self.path
        return fnmatchcase(path, f"*{wanted}") if _GLOB.intersection(wanted) else wanted in path

    def leaves_nothing(self, chance: random.Random | None) -> bool:
        """True if an append that fails leaves nothing."""
        return not self.torn if chance is None or self.written is not None else chance.random() < 0.5

    def failure(self, path: str) -> OSError:
        """The error of a call on `path`."""
        return OSError(self.error, "injected", path)


class CallFaults:
    """The faults of a disk, and its calls so far."""

    space: int | None
    """Bytes that are left; None if nobody counts them."""
    faults: list[Fault]
    """All that no call has met yet."""

    def __init__(self, luck: Luck) -> None:
        """`luck` is that of what happens by chance."""
        self.luck: Final = luck
        self.counts: defaultdict[tuple[str, str], int] = defaultdict(int)
        """Calls that have changed or synced something, by call and path."""
        self.made = 0
        """Their number."""
        self.slowness_ms: dict[str, tuple[float, float]] = {}
        """The time that calls take, and how much longer at most, by call: those that are not here take none."""
        self.wait: Callable[[float], None] = pause
        """Lets so many ms of real time pass: whoever calls the disk waits for it."""

    def fault(self, call: str, path: str) -> Fault | None:
        """The fault that a call meets: each one as often as it says, for reads too."""
        for fault in self.faults:
            if fault.call == call and fault.is_on(path):
                fault.times -= 1
                if fault.times <= 0:
                    self.faults.remove(fault)
                return fault
        return None

    def heal(self) -> None:
        """No faults any more, but for want of room."""
        self.faults.clear()
        self.slowness_ms.clear()

    def sync_ms(self) -> float:
        """The time that the next sync of a flusher takes."""
        return self.lasts_ms(SYNC) if self.slowness_ms else 0.0

    def lasts_ms(self, call: str) -> float:
        """The time that the next such call takes."""
        least, more = self.slowness_ms.get(call, (0.0, 0.0))
        return least if not more else least + more * (self.luck() or random).random()

    def count(self, call: str, path: str = "") -> int:
        """The number of times that `call` was made on a path that contains `path`."""
        return sum(times for (made, where), times in self.counts.items() if made == call and path in where)
