"""`ShareWaiters`: the fetches that wait for one share partition, and which of them is woken (share-partitions.md 1.8).

One record is for one member, so one fetch is woken at a time: the one that has waited longest. It looks, takes what it
may, and then the next one is woken if there is something left: as many as there are records for, and in the order of
coming. Pure. Always true, as long as whoever was woken calls `leave` and then `next` when it is done, whatever has
become of it:
- While there is something to fetch, and nobody was woken or is fetching, everybody who waits has looked since the
  last change, and found nothing for itself: no wake-up is lost.
- Nobody is woken twice for one change, so those who cannot take what there is do not wake each other in turns.

One that waits for more than one byte counts what the log gains for itself, once it has looked. Somebody who was reading
may have kept it from that: then it is woken to look, one of them at a time, and does as the others do when it is done.
"""

from collections.abc import Callable
from typing import Final

Wake = Callable[[], None]
NEVER_LOOKED: Final = -1


class ShareWaiters:
    """The fetches that wait for one share partition."""

    __slots__ = ("_patient", "_seen", "_unlooked", "_woken", "change_count")

    def __init__(self) -> None:
        self._seen: dict[Wake, int] = {}
        """In the order of coming, with the change that each has looked at."""
        self._patient: dict[Wake, None] = {}
        """The ones that wait for more than one byte: each counts what comes for itself."""
        self._unlooked: dict[Wake, None] = {}
        """The ones of these that could not look, in the order of coming."""
        self._woken: Wake | None = None
        self.change_count = 0
        """Grows when there may be something to fetch that was not there before."""

    def __len__(self) -> int:
        return len(self._seen)

    def wait(self, wake: Wake, change_count: int, *, is_patient: bool = False) -> None:
        """One more, which has looked after so many changes; `NEVER_LOOKED` if not really. To one that `is_patient`,
        which waits for more than what is there, no turn comes: `all_patient` wakes it, and `next_unlooked`."""
        if not is_patient:
            self._seen[wake] = change_count
            return
        self._patient[wake] = None
        if change_count == NEVER_LOOKED:
            self._unlooked[wake] = None

    def leave(self, wake: Wake) -> None:
        """It waits no more. Harmless for one that does not wait."""
        self._seen.pop(wake, None)
        self._patient.pop(wake, None)
        self._unlooked.pop(wake, None)
        if self._woken == wake:  # a bound method is made anew each time
            self._woken = None

    def next(self) -> bool:
        """Wake the one that has waited longest of those that have not looked since the last change, unless one is awake
        already. Returns whether there is one. The caller has seen that there is something to fetch."""
        if self._woken is not None:
            return False
        for wake, seen in self._seen.items():
            if seen != self.change_count:
                self._seen[wake] = self.change_count
                self._woken = wake
                wake()
                return True
        return False

    def next_unlooked(self) -> None:
        """Wake the one that has waited longest of those that could not look. The caller has seen that nobody
        fetches."""
        for wake in self._unlooked:
            del self._unlooked[wake]
            wake()
            return

    def all(self) -> None:
        """Wake everybody: the share partition is none any more, or the broker stops."""
        for wake in list(self._seen):
            wake()
        self.all_patient()

    def all_patient(self) -> None:
        """Wake those that wait for more than what is there."""
        for wake in list(self._patient):
            wake()
