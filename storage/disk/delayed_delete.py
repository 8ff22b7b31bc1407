"""`DelayedDelete`: renamed files and directories that are removed once running reads have had time to finish.

Always true: a file of a segment goes only when the log start above it is durable, which the caller sees to; a directory
goes only when its new name is durable.
"""

import logging
from typing import Final, NamedTuple

from eosin.storage.disk.interfaces import Disk
from eosin.storage.disk.space import is_no_space

_LOG: Final = logging.getLogger("eosin.storage")


class _Doomed(NamedTuple):
    due_ms: int
    path: str
    is_tree: bool


class DelayedDelete:
    """Paths, and when they may go by a clock that cannot be set."""

    __slots__ = ("_disk", "_doomed")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._doomed: list[_Doomed] = []

    def __bool__(self) -> bool:
        return bool(self._doomed)

    def add_file(self, path: str, *, due_ms: int) -> None:
        """Unlink a file at `due_ms`."""
        self._doomed.append(_Doomed(due_ms, path, False))

    def add_tree(self, path: str, *, due_ms: int) -> None:
        """Remove a directory and all in it at `due_ms`."""
        self._doomed.append(_Doomed(due_ms, path, True))

    async def remove_due(self, elapsed_ms: int, *, at_once: bool = False, trees_only: bool = False) -> None:
        """Remove due paths, or all of them `at_once`, off the event loop; with `trees_only` only directories."""
        due = self._next_doomed(elapsed_ms, at_once=at_once, trees_only=trees_only)
        if due:
            self._doomed += await self._disk.off_loop(self._remove, due)

    def remove_now(self, *, trees_only: bool = False) -> None:
        """Remove all of it, or only directories. Blocks."""
        self._doomed += self._remove(self._next_doomed(0, at_once=True, trees_only=trees_only))

    def _next_doomed(self, elapsed_ms: int, *, at_once: bool, trees_only: bool) -> list[_Doomed]:
        due: list[_Doomed] = []
        left: list[_Doomed] = []
        for each in self._doomed:
            is_due = (at_once or each.due_ms <= elapsed_ms) and (each.is_tree or not trees_only)
            (due if is_due else left).append(each)
        self._doomed = left
        return due

    def _remove(self, due: list[_Doomed]) -> list[_Doomed]:
        """Remove these paths; returns the ones to be tried again."""
        left: list[_Doomed] = []
        try:
            # A directory that has its old name after a power loss must not lack files.
            for parent in {each.path.rpartition("/")[0] for each in due if each.is_tree}:
                self._disk.sync_directory(parent)
        except OSError as error:
            _LOG.warning("files of deleted topics cannot be removed for now: %s", error)
            left, due = [each for each in due if each.is_tree], [each for each in due if not each.is_tree]
        for each in due:
            try:
                if each.is_tree:
                    self._disk.remove_tree(each.path)
                elif self._disk.size(each.path) is not None:
                    self._disk.unlink(each.path)
            except OSError as error:
                if is_no_space(error):  # where even deleting takes room
                    left.append(each)
                else:
                    _LOG.warning("%s cannot be removed before the next start: %s", each.path, error)
        return left
