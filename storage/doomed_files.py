"""`DoomedFiles`: what has been renamed away and is removed once running reads have had time to finish."""

import logging
from typing import Final

from eosin.storage.disk import Disk

_LOG: Final = logging.getLogger("eosin.storage")


class DoomedFiles:
    """Paths and when they may go."""

    __slots__ = ("_disk", "_doomed")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._doomed: list[tuple[int, str, bool]] = []

    def add_file(self, path: str, *, due_ms: int) -> None:
        """Unlink a file at `due_ms`."""
        self._doomed.append((due_ms, path, False))

    def add_tree(self, path: str, *, due_ms: int) -> None:
        """Remove a directory and all in it at `due_ms`."""
        self._doomed.append((due_ms, path, True))

    async def remove_due(self, now_ms: int) -> None:
        """Remove what has come due, off the event loop."""
        due = [doomed for doomed in self._doomed if doomed[0] <= now_ms]
        if due:
            self._doomed = [doomed for doomed in self._doomed if doomed[0] > now_ms]
            await self._disk.off_loop(self._remove, due)

    def _remove(self, due: list[tuple[int, str, bool]]) -> None:
        for _, path, is_tree in due:
            try:
                if is_tree:
                    self._disk.remove_tree(path)
                elif self._disk.size(path) is not None:
                    self._disk.unlink(path)
            except OSError as error:
                _LOG.warning("%s stays behind until the next start: %s", path, error)
