"""`DiskOperations`: the faults of a broker's disk that tests ask for."""

import errno
from typing import Final, Protocol

from eosin.lab.common.errors import LabError, unknown
from eosin.lab.disk.faults import LASTING, CallFaults, Fault
from eosin.lab.disk.lab_disk import LabDisk

FAILING: Final = {
    "sync": ("sync", "sync_file"),
    "append": ("append", "write"),
    "open": ("create",),
    "rename": ("rename",),
    "truncate": ("truncate",),
    "read": ("read",),
    "sync_directory": ("sync_directory",),
    "unlink": ("unlink",),
}
"""The calls that can fail, by the word for them."""
ERRORS: Final = ("EIO", "ENOSPC", "EDQUOT", "EROFS", "EACCES", "EMFILE", "ENFILE")
"""The errors that they can fail with."""


class HasDisk(Protocol):
    """A broker of the lab, as faults of its disk need it."""

    @property
    def disk(self) -> LabDisk:
        """Its disk. Raises LabError where that is none of the lab's."""

    @property
    def files(self) -> CallFaults:
        """Its disk, or its real files. Raises LabError where it has none."""

    def has_room_again(self) -> None:
        """Look at once whether records may be taken again."""


class DiskOperations:
    """All that tests do to a disk, and ask of it."""

    _has_disk: HasDisk | None

    @property
    def _its(self) -> HasDisk:
        if self._has_disk is None:
            raise LabError("only a broker of the lab has a disk that fails on demand")
        return self._has_disk

    async def disk_full(self, after_bytes: int) -> None:
        """Leave so much room."""
        if after_bytes < 0:
            raise LabError(f"after_bytes is 0 or more, not {after_bytes}")
        self._its.files.space = after_bytes

    async def disk_free(self) -> None:
        """Leave as much room as anybody wants."""
        its = self._its
        its.files.space = None
        its.has_room_again()

    async def disk_fail(self, call: str, path: str, error: str, times: int | None) -> None:
        """Have the next calls of a kind fail; None: all of them."""
        disk = self._its.files
        if call not in FAILING:
            raise unknown("call of a disk", call, FAILING)
        if error not in ERRORS:
            raise unknown("error of a disk", error, ERRORS)
        if times is not None and times < 1:
            raise LabError(f"times is 1 or more, not {times}")
        for each in FAILING[call]:
            disk.faults.append(Fault(each, getattr(errno, error), path, LASTING if times is None else times))

    async def disk_tear(self, path: str, keep: int) -> None:
        """Have the next append to a file leave `keep` bytes of it."""
        if keep < 0:
            raise LabError(f"keep is a number of bytes, not {keep}")
        self._its.files.faults.append(Fault("append", errno.EIO, path, written=keep, torn=True))

    async def disk_slow(self, call: str, ms: float, jitter: float) -> None:
        """Have each call of a kind take so long, and up to `jitter` ms longer."""
        disk = self._its.files
        if call not in FAILING:
            raise unknown("call of a disk that can be slow", call, FAILING)
        if ms < 0 or jitter < 0:
            raise LabError(f"ms and jitter are 0 or more, not {ms} and {jitter}")
        for each in FAILING[call]:
            disk.slowness_ms[each] = ms, jitter

    async def disk_stop_at(self, call: int) -> None:
        """Let `call - 1` more calls succeed: the broker crashes half-way through the next."""
        if call < 1:
            raise LabError(f"call is 1 or more, the next one being 1, not {call}")
        self._its.disk.stop_after(call - 1)

    async def disk_lose_unsynced(self) -> None:
        """Have the next loss of power take all that was not synced."""
        self._its.disk.loses_unsynced = True

    async def disk_heal(self) -> None:
        """No faults any more."""
        self._its.files.heal()
        await self.disk_free()

    async def disk_calls(self, call: str | None, path: str) -> int:
        """The number of calls that have changed or synced something: of a kind, and of paths that contain `path`."""
        disk = self._its.files
        return sum(times for (made, where), times in disk.counts.items() if call in (None, made) and path in where)
