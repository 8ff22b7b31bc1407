"""`LabDiskFace`: the disk of a broker as a test sees it: `broker.disk`."""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from eosin.lab.disk.disk_operations import DiskOperations

Nothing = TypeVar("Nothing")
"""None, or what is to be awaited for it."""
Number = TypeVar("Number")
"""`int`, likewise."""


class LabDiskFace(Generic[Nothing, Number]):
    """Faults of the lab's own disk, or of real files (`disk=Path(...)`), for which `stop_at` and `lose_unsynced` raise
    LabError. Without a path they are those of every file; one with `*` is a pattern of the path's end, `orders-0/*`,
    any other one is a part of it."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call: Final = call

    def full(self, after_bytes: int = 0) -> Nothing:
        """Leave room for so many bytes: a full disk refuses records with KAFKA_STORAGE_ERROR."""
        done: Nothing = self._call(DiskOperations.disk_full, after_bytes)
        return done

    def free(self) -> Nothing:
        """Leave as much room as anybody wants."""
        done: Nothing = self._call(DiskOperations.disk_free)
        return done

    def fail(self, call: str, path: str = "", *, error: str = "EIO", times: int | None = 1) -> Nothing:
        """Have the next calls fail: sync, append, open, rename, truncate, read, sync_directory or unlink. `times` None:
        all of them until `heal`."""
        done: Nothing = self._call(DiskOperations.disk_fail, call, path, error, times)
        return done

    def tear(self, path: str = "", *, keep: int = 0) -> Nothing:
        """Have the next append fail with `keep` bytes of it written."""
        done: Nothing = self._call(DiskOperations.disk_tear, path, keep)
        return done

    def slow(self, call: str, ms: float, jitter: float = 0) -> Nothing:
        """Have each call of a kind that `fail` knows take `ms`, and up to `jitter` more, of real time. During any but a
        sync the whole broker waits."""
        done: Nothing = self._call(DiskOperations.disk_slow, call, ms, jitter)
        return done

    def stop_at(self, call: int) -> Nothing:
        """Crash half-way through the call of this number, the next one being 1, and start again."""
        done: Nothing = self._call(DiskOperations.disk_stop_at, call)
        return done

    def lose_unsynced(self) -> Nothing:
        """Have the next loss of power take all that was not synced: no luck."""
        done: Nothing = self._call(DiskOperations.disk_lose_unsynced)
        return done

    def heal(self) -> Nothing:
        """No faults any more. What has failed stays failed, as a partition whose sync did until the next start."""
        done: Nothing = self._call(DiskOperations.disk_heal)
        return done

    def calls(self, call: str | None = None, path: str = "") -> Number:
        """The number of calls that have changed or synced something: of one kind, of paths that contain `path`."""
        number: Number = self._call(DiskOperations.disk_calls, call, path)
        return number
