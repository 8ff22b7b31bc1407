"""`Source`: a file that is read while a broker may be writing it."""

from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from eosin.runtime.clock import pause
from eosin.storage.disk.interfaces import Buffer, Disk

_MOST_CHECKS: Final = 5
"""Number of further looks at whether a file that ends in the middle of something has grown."""
_CHECK_AGAIN_MS: Final = 10


def _wait() -> None:
    pause(_CHECK_AGAIN_MS)


class Source:
    """An open file, up to an end that moves only when asked."""

    __slots__ = ("_disk", "_file", "_wait", "end", "path")

    def __init__(self, disk: Disk, path: str, *, wait: Callable[[], None] = _wait) -> None:
        """Raises OSError."""
        self.path = path
        self._disk = disk
        self._wait = wait
        self._file = disk.open(path)
        self.end = self._file.size
        """Bytes that are looked at."""

    def read(self, position: int, size: int) -> Buffer:
        """`size` bytes from `position` on, fewer at the end. Raises OSError."""
        return self._file.read(position, size)

    def has_grown(self) -> bool:
        """True if there is more than a moment ago, waiting a little for it; `end` follows."""
        for _ in range(_MOST_CHECKS):
            size = self._disk.size(self.path)  # None: renamed or gone, so no broker appends
            if size is not None and size > self.end:
                self.end = size
                return True
            self._wait()
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
